"""Settings that are files: masks of queues, interrupts, clocks, sysctls."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.model.tuning import SettingOutcome
from pytest_pinet.tuning.file_setting import look_into
from tests.support.tuning_node import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def read(file: Path) -> str:
    return file.read_text().strip()


def test_rps_is_set_for_each_receive_queue_and_put_back(bench: Bench) -> None:
    bench.cpus("0-3")
    queues = [bench.device_file(f"queues/rx-{number}/rps_cpus", "0") for number in range(2)]
    tuned = bench.apply("rps", "all")
    assert (tuned.outcome, tuned.before, tuned.found) == (SettingOutcome.APPLIED, "0", "f")
    assert [read(queue) for queue in queues] == ["f", "f"]
    assert len(bench.entries) == 1
    bench.undo()
    assert [read(queue) for queue in queues] == ["0", "0"]
    assert bench.entries == []


def test_a_value_that_is_already_set_is_not_written(bench: Bench) -> None:
    bench.cpus("0-3")
    bench.device_file("queues/rx-0/rps_cpus", "00000000,0000000f")
    assert bench.apply("rps", "0xf").outcome is SettingOutcome.UNCHANGED
    assert not bench.journal.exists()


def test_a_mask_wider_than_the_machine_is_clamped(bench: Bench) -> None:
    bench.cpus("0-3")
    bench.device_file("queues/rx-0/rps_cpus", "0")
    bench.command("tee", '#!/bin/sh\ncat >/dev/null; echo f > "$1"\n')
    tuned = bench.apply("rps", "0xff")
    assert (tuned.outcome, tuned.found) == (SettingOutcome.CLAMPED, "f")
    assert str(tuned) == "tuning rps=0xff of node:onboard: clamped, the value is f"


def test_rps_on_one_cpu_moves_nothing(bench: Bench) -> None:
    bench.cpus("0")
    bench.device_file("queues/rx-0/rps_cpus", "0")
    tuned = bench.apply("rps", "all")
    assert tuned.outcome is SettingOutcome.UNSUPPORTED
    assert tuned.why == "there is only one CPU, so packets cannot be steered"


def test_rps_that_is_off_is_off_on_one_cpu_too(bench: Bench) -> None:
    bench.cpus("0")
    bench.device_file("queues/rx-0/rps_cpus", "0")
    assert bench.apply("rps", "off").outcome is SettingOutcome.UNCHANGED


def test_xps_of_one_queue_is_unsupported_although_the_file_is_there(bench: Bench) -> None:
    bench.cpus("0-3")
    bench.device_file("queues/tx-0/xps_cpus", "0")
    tuned = bench.apply("xps", "all")
    assert tuned.outcome is SettingOutcome.UNSUPPORTED
    assert tuned.why == "eth0 has one transmit queue, so there is no queue to choose"


def test_xps_of_several_queues(bench: Bench) -> None:
    bench.cpus("0-3")
    queues = [bench.device_file(f"queues/tx-{number}/xps_cpus", str(number)) for number in range(2)]
    assert bench.apply("xps", "0-1").outcome is SettingOutcome.APPLIED
    assert [read(queue) for queue in queues] == ["3", "3"]
    bench.undo()
    assert [read(queue) for queue in queues] == ["0", "1"]


def test_a_refused_value_is_rejected_with_the_kernels_message_and_needs_no_undo(bench: Bench) -> None:
    bench.cpus("0-3")
    bench.device_file("queues/rx-0/rps_cpus", "0")
    bench.refusing_tee("Invalid argument")
    tuned = bench.apply("rps", "all")
    assert (tuned.outcome, tuned.why) == (SettingOutcome.REJECTED, "Invalid argument")
    assert bench.entries == []
    bench.undo()


@pytest.mark.parametrize("why", ["Read-only file system", "Operation not supported", "Operation not permitted"])
def test_a_value_that_cannot_be_set_here_is_unsupported(bench: Bench, why: str) -> None:
    bench.cpus("0-3")
    bench.device_file("queues/rx-0/rps_cpus", "0")
    bench.refusing_tee(why)
    tuned = bench.apply("rps", "all")
    assert (tuned.outcome, tuned.why) == (SettingOutcome.UNSUPPORTED, why)


def test_a_value_accepted_without_effect_is_rejected(bench: Bench) -> None:
    bench.file("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave")
    bench.command("tee", "#!/bin/sh\ncat >/dev/null\n")
    tuned = bench.apply("governor", "performance")
    assert (tuned.outcome, tuned.found) == (SettingOutcome.REJECTED, "powersave")
    assert tuned.why == "accepted without an error, but the value did not change"


def test_rfs_shares_its_flows_between_the_queues(bench: Bench) -> None:
    total = bench.file("/proc/sys/net/core/rps_sock_flow_entries", "0")
    queues = [bench.device_file(f"queues/rx-{number}/rps_flow_cnt", "0") for number in range(4)]
    assert bench.apply("rfs", 32768).outcome is SettingOutcome.APPLIED
    assert [read(file) for file in (total, *queues)] == ["32768", "8192", "8192", "8192", "8192"]
    bench.undo()
    assert {read(file) for file in (total, *queues)} == {"0"}


def test_rfs_without_the_table_of_the_whole_machine_steers_nothing(bench: Bench) -> None:
    queue = bench.device_file("queues/rx-0/rps_flow_cnt", "0")
    tuned = bench.apply("rfs", 32768)
    assert tuned.outcome is SettingOutcome.UNSUPPORTED
    assert tuned.why.startswith("flow steering needs net.core.rps_sock_flow_entries, which is missing: the kernel has")
    assert read(queue) == "0"


def test_rfs_without_queues_steers_nothing(bench: Bench) -> None:
    bench.file("/proc/sys/net/core/rps_sock_flow_entries", "0")
    assert bench.apply("rfs", 32768).why == "eth0 has no receive queue with rps_flow_cnt"


def test_the_governor_of_every_policy_is_that_of_the_node(bench: Bench) -> None:
    files = [bench.file(f"/sys/devices/system/cpu/cpufreq/policy{n}/scaling_governor", "ondemand") for n in (0, 4)]
    tuned = bench.apply("governor", "performance")
    assert (tuned.end, tuned.outcome, tuned.before) == ("node", SettingOutcome.APPLIED, "ondemand")
    bench.undo()
    assert [read(file) for file in files] == ["ondemand", "ondemand"]


def test_a_frequency_that_the_chip_has_not_is_clamped(bench: Bench) -> None:
    file = bench.file("/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1500000")
    bench.command("tee", '#!/bin/sh\ncat >/dev/null; echo 1800000 > "$1"\n')
    tuned = bench.apply("scaling_max_freq", "2.1GHz")
    assert (tuned.outcome, tuned.asked, tuned.before, tuned.found) == (
        SettingOutcome.CLAMPED,
        "2100",
        "1500 MHz",
        "1800 MHz",
    )
    (bench.bin / "tee").unlink()
    bench.undo()
    assert read(file) == "1500000"


def test_without_cpufreq_there_is_no_governor(bench: Bench) -> None:
    tuned = bench.apply("governor", "performance")
    assert tuned.outcome is SettingOutcome.UNSUPPORTED
    assert tuned.why == "there is no /sys/devices/system/cpu/cpufreq/policy*/scaling_governor"


def test_congestion_control_and_buffers(bench: Bench) -> None:
    congestion = bench.file("/proc/sys/net/ipv4/tcp_congestion_control", "cubic")
    largest = [bench.file(f"/proc/sys/net/core/{way}mem_max", "212992") for way in "rw"]
    automatic = [bench.file(f"/proc/sys/net/ipv4/tcp_{way}mem", "4096\t16384\t4194304") for way in "rw"]
    assert bench.apply("congestion", "bbr").outcome is SettingOutcome.APPLIED
    assert bench.apply("socket_buffers", "4M").found == "4194304"
    assert bench.apply("tcp_buffers", "8K").found == "4096 8192 8192"
    assert [read(file) for file in (congestion, *largest)] == ["bbr", "4194304", "4194304"]
    bench.undo()
    assert [read(file) for file in (congestion, *largest)] == ["cubic", "212992", "212992"]
    assert [read(file).split() for file in automatic] == [["4096", "16384", "4194304"]] * 2


INTERRUPTS = """\
           CPU0       CPU1       CPU2       CPU3
 29:          0          0          0          0     GICv2  89 Level     PCIe PME
 38:    9130441          0          0          0     GICv2 189 Level     eth0
 39:     120033          0          0          0     GICv2 190 Level     eth0
 40:         11          0          0          0  BRCM STB PCIe MSI 524288 Edge      xhci_hcd
 41:         11          0          0          0     GICv2 191 Level     eth01
IPI0:      6253      12022      10021       9213       Rescheduling interrupts
"""


def interrupts(bench: Bench, numbers: tuple[int, ...] = (38, 39)) -> list[Path]:
    bench.cpus("0-3")
    bench.file("/proc/interrupts", INTERRUPTS)
    for number in numbers:
        bench.file(f"/proc/irq/{number}/effective_affinity_list", "0")
    return [bench.file(f"/proc/irq/{number}/smp_affinity_list", "0-3") for number in numbers]


# A real interrupt controller delivers to one CPU, and reports which.
TEE = '#!/bin/sh\nread -r v || :; echo "$v" > "$1"; echo "$v" > "${1%smp_affinity_list}effective_affinity_list"\n'


def test_interrupts_take_turns_on_the_cpus_and_the_masks_come_back(bench: Bench) -> None:
    files = interrupts(bench)
    bench.command("tee", TEE)
    tuned = bench.apply("irq", "1,2")
    assert (tuned.outcome, tuned.before, tuned.found) == (SettingOutcome.APPLIED, "38: 0, 39: 0", "38: 1, 39: 2")
    assert [read(file) for file in files] == ["1", "2"]
    bench.undo()
    assert [read(file) for file in files] == ["0-3", "0-3"]


def test_an_affinity_that_is_not_effective_is_not_applied(bench: Bench) -> None:
    interrupts(bench)
    # The mask is accepted, but the controller still delivers to CPU 0.
    tuned = bench.apply("irq", 2)
    assert (tuned.outcome, tuned.found) == (SettingOutcome.CLAMPED, "38: 0, 39: 0")


def balancer(bench: Bench) -> Path:
    """Install an irqbalance that runs while this file exists, and moves interrupts at its start."""
    runs = bench.file("/run/irqbalance", "on")
    moves = f"for f in {bench.root}/proc/irq/*/smp_affinity_list; do echo 3 > $f; done"
    words = f"stop) rm {runs};; start) echo on > {runs}; {moves};; is-active) [ -e {runs} ];;"
    bench.command("systemctl", f"#!/bin/sh\ncase $1 in {words} esac\n")
    return runs


def test_irqbalance_is_stopped_meanwhile_and_may_move_interrupts_afterwards(bench: Bench) -> None:
    files = interrupts(bench)
    bench.command("tee", TEE)
    runs = balancer(bench)
    assert bench.apply("irq", 2).outcome is SettingOutcome.APPLIED
    assert not runs.exists()
    bench.undo()
    assert runs.exists()
    assert [read(file) for file in files] == ["3", "3"]
    assert bench.entries == []


def test_irqbalance_runs_again_where_the_masks_are_refused(bench: Bench) -> None:
    interrupts(bench)
    runs = balancer(bench)
    bench.refusing_tee("Invalid argument")
    assert bench.apply("irq", 2).outcome is SettingOutcome.REJECTED
    assert not runs.exists()
    # No mask was changed, so none is restored.
    bench.undo()
    assert runs.exists()


def test_irqbalance_runs_again_where_a_mask_cannot_be_put_back(bench: Bench) -> None:
    interrupts(bench)
    runs = balancer(bench)
    bench.command("tee", TEE)
    bench.apply("irq", 2)
    bench.refusing_tee("Invalid argument")
    with pytest.raises(LabError, match="node refused: Invalid argument"):
        bench.undo()
    assert runs.exists()


def test_interrupts_of_a_usb_nic_are_those_of_its_host_controller(bench: Bench) -> None:
    (file,) = interrupts(bench, (40,))
    bench.file("/proc/interrupts", INTERRUPTS.replace("eth0\n", "uart\n"))
    usb = bench.root / "sys/devices/pci0000:00/0000:01:00.0/usb2/2-1/2-1:1.0"
    usb.mkdir(parents=True)
    (usb.parents[2] / "msi_irqs").mkdir()
    (usb.parents[2] / "msi_irqs" / "40").write_text("msi\n")
    link = bench.root / "sys/class/net/eth0/device"
    link.parent.mkdir(parents=True)
    link.symlink_to(usb)
    bench.command("tee", TEE)
    assert bench.apply("irq", 3).found == "40: 3"
    assert read(file) == "3"


def test_a_device_without_interrupts(bench: Bench) -> None:
    bench.cpus("0-3")
    bench.file("/proc/interrupts", INTERRUPTS.replace("eth0\n", "uart\n"))
    assert bench.apply("irq", 2).why == "no interrupt in /proc/interrupts belongs to eth0"


def test_a_failed_undo_is_reported(bench: Bench) -> None:
    file = bench.file("/proc/sys/net/ipv4/tcp_congestion_control", "cubic")
    bench.apply("congestion", "bbr")
    bench.command("tee", "#!/bin/sh\ncat >/dev/null\n")
    with pytest.raises(LabError, match="congestion of node:onboard is bbr instead of cubic"):
        bench.undo()
    assert read(file) == "bbr"


def test_the_loader_of_a_board_changes_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each program of such a board prints a line on standard error.
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent/libarmmem.so")
    bench = Bench(tmp_path)
    bench.cpus("0-3")
    queue = bench.device_file("queues/rx-0/rps_cpus", "0")
    tuned = bench.apply("rps", "all")
    assert (tuned.outcome, tuned.before, tuned.found) == (SettingOutcome.APPLIED, "0", "f")
    bench.undo()
    assert read(queue) == "0"
    folder = queue.parent / "folder"
    folder.mkdir()
    assert look_into(bench.place, [str(queue), str(folder)]) == ({str(queue): "0"}, {str(folder): "Is a directory"})
