"""The effect of a finding: failure on the device under test, lab error on a peer, invalid for a weak power supply."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement, KernelError, LabError, PinetError
from pytest_pinet.lab.console.kernel_watch import KernelWatch, SshKernelLog
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind, plain_line, recognise
from tests.support.local_shell import LocalShell

OOPS = b"[ 7.1] Unable to handle kernel paging request at virtual address dead000000000100\n"
LOW = b"hwmon hwmon1: Undervoltage detected!\n"
NORMAL = b"hwmon hwmon1: Voltage normalised\n"


class Bench:
    def __init__(self) -> None:
        self.dut, self.peer = ConsoleRecord("pi4b-1"), ConsoleRecord("cm4-1")

    def watch(self) -> KernelWatch:
        return KernelWatch({"pi4b-1": self.dut, "cm4-1": self.peer}, {"pi4b-1"})


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_without_findings_no_error_is_raised(bench: Bench) -> None:
    watch = bench.watch()
    bench.dut.feed(b"[ 1.0] all is well\n")
    watch.check()
    watch.interrupt()
    watch.last_look()
    assert watch.broken == set()


def test_an_event_on_the_device_under_test_is_a_kernel_error(bench: Bench) -> None:
    watch = bench.watch()
    bench.dut.feed(b"before\n" + OOPS + b"Call trace:\n")
    with pytest.raises(
        KernelError, match=r"^kernel oops on pi4b-1 \(device under test\) at \S+Z: \[7.1\] Unable to handle kernel"
    ) as caught:
        watch.check()
    assert [line.partition(" ")[2] for line in caught.value.excerpt.splitlines()] == [
        "before",
        OOPS.decode().strip(),
        "Call trace:",
    ]
    assert watch.broken == {"pi4b-1"}


def test_an_event_on_a_peer_is_a_lab_error(bench: Bench) -> None:
    watch = bench.watch()
    bench.peer.feed(OOPS)
    with pytest.raises(
        LabError, match=r"^kernel oops on cm4-1 \(peer\) at (?s:.*)-> the kernel of a peer is not under test"
    ) as caught:
        watch.check()
    assert "Unable to handle kernel" in caught.value.excerpt
    assert watch.broken == {"cm4-1"}


@pytest.mark.parametrize("node", ["dut", "peer"])
def test_under_voltage_anywhere_makes_the_measurement_invalid(bench: Bench, node: str) -> None:
    watch = bench.watch()
    record: ConsoleRecord = getattr(bench, node)
    # It ended at once, and throttled the measurement meanwhile.
    record.feed(LOW + NORMAL)
    expected = rf"^under-voltage on {record.node} \(.*\) at (?s:.*)-> check the power supply of {record.node}"
    with pytest.raises(InvalidMeasurement, match=expected) as caught:
        watch.check()
    assert "Undervoltage" in caught.value.excerpt
    assert watch.broken == set()


def test_an_under_voltage_before_the_test_counts_only_if_it_lasts(bench: Bench) -> None:
    bench.dut.feed(LOW + NORMAL)
    bench.watch().check()
    bench.dut.feed(LOW)
    for _ in range(2):
        with pytest.raises(
            InvalidMeasurement,
            match=r"^under-voltage on pi4b-1 .* since before the test, reported at ",
        ):
            bench.watch().check()


def test_an_under_voltage_before_a_boot_of_ours_counts_only_if_it_lasts(bench: Bench) -> None:
    watch = bench.watch()
    for voltage in (LOW + NORMAL, LOW):
        bench.dut.feed(voltage)
        with pytest.raises(InvalidMeasurement):
            watch.interrupt()
        with pytest.raises(InvalidMeasurement):
            watch.check()
        watch.restarted("pi4b-1", LocalShell())
        if voltage != LOW:
            watch.check()
    with pytest.raises(InvalidMeasurement):
        watch.check()


def test_a_kernel_error_before_a_boot_of_ours_still_counts(bench: Bench) -> None:
    watch = bench.watch()
    bench.dut.feed(OOPS)
    with pytest.raises(KernelError):
        watch.interrupt()
    watch.restarted("pi4b-1", LocalShell())
    with pytest.raises(KernelError):
        watch.check()


def test_a_restart_counts_only_during_the_test(bench: Bench) -> None:
    banner = b"[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd083]\n"
    bench.dut.feed(banner)
    watch = bench.watch()
    watch.check()
    bench.dut.feed(banner)
    with pytest.raises(KernelError, match=re.escape("pi4b-1 (device under test) restarted by itself at ")):
        watch.check()


def test_an_oops_during_the_boot_is_raised_in_the_test(bench: Bench) -> None:
    bench.dut.feed(OOPS)
    with pytest.raises(KernelError):
        bench.watch().check()


def test_check_raises_again_and_interrupt_raises_once(bench: Bench) -> None:
    watch = bench.watch()
    bench.dut.feed(OOPS)
    raised: list[PinetError] = []
    for _ in range(2):
        with pytest.raises(KernelError) as caught:
            watch.check()
        raised.append(caught.value)
    assert raised[0] is raised[1]
    watch.interrupt()
    # The excerpt of the first finding contains its consequences.
    bench.dut.feed(b"Kernel panic - not syncing: Oops: Fatal exception\n")
    watch.interrupt()
    watch.last_look()


def test_a_disarmed_watch_does_not_interrupt_but_still_checks(bench: Bench) -> None:
    watch = bench.watch()
    watch.disarm()
    bench.dut.feed(OOPS)
    watch.interrupt()
    with pytest.raises(KernelError):
        watch.last_look()


def test_the_earlier_of_two_findings_is_raised(bench: Bench) -> None:
    watch = bench.watch()
    bench.peer.feed(OOPS)
    bench.dut.feed(OOPS)
    with pytest.raises(LabError, match="cm4-1"):
        watch.check()
    assert watch.broken == {"cm4-1", "pi4b-1"}


def test_only_messages_since_the_start_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    (tmp_path / "dmesg").write_text(f"#!/bin/sh\ncat {log}\n")
    (tmp_path / "dmesg").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    log.write_text("[    1.5] Internal error: Oops: 96000004 [#1] SMP\n[   12.250000] eth0: link is up\n")
    kernel = SshKernelLog("pi", LocalShell("pi"))
    kernel.look()
    assert not kernel.record.findings
    with log.open("a") as file:
        file.write("[  100.000001] Unable to handle kernel paging request at virtual address 0000\n")
    kernel.look()
    kernel.look()
    (found,) = kernel.record.findings
    assert (found.kind, found.node) == (KernelEventKind.OOPS, "pi")
    assert "[100.000001] Unable to handle kernel paging request" in str(found)


BROKEN = {
    KernelEventKind.PANIC: [
        "[    2.716043] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(179,2)",
        "[  101.225610] Kernel panic - not syncing: Oops: Fatal exception in interrupt",
        "[ 9214.000311][    C3] Kernel panic - not syncing: Fatal exception in interrupt",
        "pi4b-1 login: [  55.9] Kernel panic - not syncing: sysrq triggered crash",
    ],
    KernelEventKind.OOPS: [
        "[   61.180020] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010",
        "[   61.180020] Unable to handle kernel paging request at virtual address ffffffc008b0d000",
        "[   61.180102] Internal error: Oops: 0000000096000005 [#1] PREEMPT SMP",
        "[   61.180102] Internal error: Oops - BUG: 00000000f2000800 [#1] SMP ARM",
        "[   12.000001] Internal error: synchronous external abort: 0000000096000210 [#1] SMP",
        "Unable to handle kernel NULL pointer dereference at virtual address 00000024 when read",
        "[  100.1] kernel BUG at net/core/skbuff.c:2214!",
        "[  712.448102] BUG: scheduling while atomic: swapper/0/0/0x00000100",
        "[  712.448102] BUG: Bad page state in process iperf3  pfn:1a2b3",
        "[   3.2][  T123] BUG: sleeping function called from invalid context at kernel/locking/mutex.c:585",
        "BUG: unable to handle page fault for address: ffff888000000000",
        "pi4b-1 login: BUG: spinlock bad magic on CPU#1, kworker/1:0/17",
        "[ 33.1] Oops [#1]",
    ],
    KernelEventKind.HUNG_TASK: [
        "[  363.571013] INFO: task kworker/0:1:12 blocked for more than 120 seconds.",
        "[  363.571013] INFO: task jbd2/mmcblk0p2-:87 blocked for more than 241 seconds.",
        "[  363.5] INFO: task dd:991 blocked in I/O wait for more than 122 seconds.",
    ],
    KernelEventKind.LOCKUP: [
        "[   88.124011] watchdog: BUG: soft lockup - CPU#2 stuck for 26s! [kworker/2:1:40]",
        "[   88.124011] watchdog: Watchdog detected hard LOCKUP on cpu 1",
        "[   90.0] BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!",
    ],
    KernelEventKind.RCU_STALL: [
        "[  142.004512] rcu: INFO: rcu_preempt self-detected stall on CPU",
        "[  142.004512] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "[  142.0] rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 3-...D } 5250 jiffies s: 61",
        "[  142.0] rcu: rcu_preempt kthread starved for 5254 jiffies! g1297 f0x0 RCU_GP_WAIT_FQS(5)",
    ],
    KernelEventKind.WATCHDOG: ["[  61.5] watchdog0: pretimeout event", "[  61.5] softdog: Initiating system reboot"],
    KernelEventKind.NETDEV_WATCHDOG: [
        "[ 4242.100012] NETDEV WATCHDOG: eth0 (bcmgenet): transmit queue 0 timed out",
        "[ 4242.100012] NETDEV WATCHDOG: eth0 (macb): transmit queue 0 timed out 5004 ms",
        "[ 4242.1] bcmgenet fd580000.ethernet eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 2 timed out 2045 ms",
    ],
    KernelEventKind.RESTART: [
        "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd083]",
        "[    0.000000][    T0] Booting Linux on physical CPU 0x0",
    ],
}
SUPPLY = {
    KernelEventKind.UNDER_VOLTAGE: [
        "[   31.215501] Under-voltage detected! (0x00050005)",
        "[   31.215501] hwmon hwmon1: Undervoltage detected!",
    ],
    KernelEventKind.VOLTAGE_NORMAL: [
        "[   35.375531] Voltage normalised (0x00000000)",
        "[   35.375531] hwmon hwmon1: Voltage normalised",
    ],
}
HARMLESS = [
    "",
    "pi4b-1 login: ",
    "[    0.000000] Kernel command line: console=ttyAMA0,115200 panic=10 oops=panic",
    "[    2.716050] ---[ end Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(179,2) ]---",
    "[    0.612001] bcm2835-wdt bcm2835-wdt: Broadcom BCM2835 watchdog timer",
    "[   12.110201] systemd[1]: Using hardware watchdog 'Broadcom BCM2835 Watchdog timer', version 0",
    "[  600.991120] watchdog: watchdog0: watchdog did not stop!",
    "[    0.101201] NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
    "[    1.332008] rcu: \tRCU event tracing is enabled.",
    "[    5.101] NET: Registered PF_PACKET protocol family",
    "[    1.1] hwmon hwmon1: registered",
    "DEBUG: iperf3 says nothing",
    "[    6.2] bcmgenet fd580000.ethernet eth0: Link is Up - 1Gbps/Full - flow control rx/tx",
    "[ 4242.100015] WARNING: CPU: 3 PID: 0 at net/sched/sch_generic.c:525 dev_watchdog+0x1f0/0x1f8",
]


@pytest.mark.parametrize(("kind", "line"), [(k, line) for k, lines in BROKEN.items() for line in lines])
def test_a_broken_kernel_is_recognised(kind: KernelEventKind, line: str) -> None:
    assert recognise(line) is kind
    assert kind.blames_kernel


@pytest.mark.parametrize(("kind", "line"), [(k, line) for k, lines in SUPPLY.items() for line in lines])
def test_supply_faults_do_not_blame_the_kernel(kind: KernelEventKind, line: str) -> None:
    assert recognise(line) is kind
    assert not kind.blames_kernel


@pytest.mark.parametrize("line", HARMLESS)
def test_similar_lines_are_no_kernel_events(line: str) -> None:
    assert recognise(line) is None


def test_every_kind_has_an_example() -> None:
    assert {*BROKEN, *SUPPLY} == set(KernelEventKind)


def test_control_sequences_are_removed_from_a_line() -> None:
    raw = b"\x1b[1;31m[   12.5]\x1b[0m \x1b]0;title\x07Kernel panic\x08 - not \xff syncing\r\r"
    assert plain_line(raw) == "[   12.5] Kernel panic - not � syncing"
    assert plain_line(b"\t indented\tkept \r") == "\t indented\tkept"
