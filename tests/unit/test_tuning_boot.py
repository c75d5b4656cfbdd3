"""Settings that take a boot: edits of the boot files, their originals beside them, and what is read after the boot."""

from __future__ import annotations

from pathlib import Path

import pytest
from tuning_bench import Bench

from pytest_pinet.errors import LabError
from pytest_pinet.model.tuning import Outcome, Tuned
from pytest_pinet.tuning import boot_files, booting
from pytest_pinet.tuning.registry import read_tuning
from pytest_pinet.tuning.setting import NoKnob

CONFIG = """\
# For more options and information see http://rptl.io/configtxt
dtparam=audio=on
[cm4]
otg_mode=1
dtoverlay=vc4-kms-v3d"""
CMDLINE = "console=tty1 root=PARTUUID=1-02 rootwait quiet\n"
OC = read_tuning({"arm_freq": 2000, "over_voltage": 6, "kernel": "pci=pcie_bus_perf quiet", "dtparam": "eee=off"})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    card(found).mkdir(parents=True)
    (card(found) / "config.txt").write_text(CONFIG)
    (card(found) / "cmdline.txt").write_text(CMDLINE)
    return found


def card(bench: Bench) -> Path:
    return bench.root / "boot" / "firmware"


def folders(bench: Bench) -> tuple[str, ...]:
    return tuple(f"{bench.root}{folder}" for folder in boot_files.FOLDERS)


def files(bench: Bench) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(card(bench).iterdir())}


def test_lines_hold_for_every_board_and_the_command_line_stays_one_line(bench: Bench) -> None:
    booting.prepare(bench.shell, OC, folders(bench))
    now = files(bench)
    assert now["config.txt"] == (
        f"{CONFIG}\n\n# By pytest-pinet, for a test: how this file was stands beside it\n[all]\n"
        "arm_freq=2000\nover_voltage=6\ndtoverlay=\ndtparam=eee=off\n"
    )
    assert now["cmdline.txt"] == "console=tty1 root=PARTUUID=1-02 rootwait quiet pci=pcie_bus_perf\n"
    assert (now["config.txt.pytest-pinet"], now["cmdline.txt.pytest-pinet"]) == (CONFIG, CMDLINE)


def test_both_files_are_put_back_as_they_were(bench: Bench) -> None:
    booting.prepare(bench.shell, OC, folders(bench))
    assert boot_files.left_behind(bench.shell, folders(bench)) == str(card(bench))
    assert boot_files.put_back(bench.shell, folders(bench))
    assert files(bench) == {"cmdline.txt": CMDLINE, "config.txt": CONFIG}
    assert not boot_files.put_back(bench.shell, folders(bench))


def test_the_next_settings_start_from_the_original(bench: Bench) -> None:
    booting.prepare(bench.shell, OC, folders(bench))
    booting.prepare(bench.shell, read_tuning({"arm_freq": 1800}), folders(bench))
    now = files(bench)
    assert "arm_freq=1800" in now["config.txt"]
    assert "2000" not in now["config.txt"]
    assert now["cmdline.txt"] == CMDLINE
    booting.prepare(bench.shell, read_tuning({}), folders(bench))
    assert files(bench) == {"cmdline.txt": CMDLINE, "config.txt": CONFIG}


def test_older_images_have_them_in_boot(bench: Bench) -> None:
    for path in card(bench).iterdir():
        path.rename(bench.root / "boot" / path.name)
    booting.prepare(bench.shell, OC, folders(bench))
    assert "arm_freq=2000" in (bench.root / "boot" / "config.txt").read_text()
    assert boot_files.put_back(bench.shell, folders(bench))


def test_a_file_that_was_not_there_is_gone_again(bench: Bench) -> None:
    (card(bench) / "cmdline.txt").unlink()
    booting.prepare(bench.shell, OC, folders(bench))
    assert files(bench)["cmdline.txt"] == "pci=pcie_bus_perf quiet\n"
    boot_files.put_back(bench.shell, folders(bench))
    assert files(bench) == {"config.txt": CONFIG}


def test_a_crash_between_the_two_files_is_mended(bench: Bench) -> None:
    (card(bench) / "cmdline.txt.pytest-pinet").write_text(CMDLINE)
    (card(bench) / "config.txt.pytest-pinet.new").write_text("half a fi")
    (card(bench) / "config.txt.new").write_text("somebody else's")
    assert boot_files.put_back(bench.shell, folders(bench))
    assert files(bench) == {"cmdline.txt": CMDLINE, "config.txt": CONFIG, "config.txt.new": "somebody else's"}


def test_a_card_that_cannot_be_written_is_told(bench: Bench) -> None:
    bench.command("mv", '#!/bin/sh\necho "mv: cannot move: Read-only file system" >&2; exit 1\n')
    with pytest.raises(LabError, match=r"node cannot change \S+/config.txt: Read-only file system"):
        booting.prepare(bench.shell, OC, folders(bench))
    assert files(bench)["config.txt"] == CONFIG


def test_a_machine_that_boots_otherwise(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(NoKnob, match="node has no config"):
        booting.prepare(bench.shell, OC, folders(bench))


def test_boot_files_that_may_not_be_read_are_told_with_the_reason(bench: Bench) -> None:
    why = "sudo: a password is required"
    bench.command("sudo", f"#!/bin/sh\necho '{why}' >&2; exit 1\n")
    bench.command("id", "#!/bin/sh\necho 1000\n")
    with pytest.raises(NoKnob, match="node does not let its boot files be read: a password is required"):
        booting.prepare(bench.shell, OC, folders(bench))


def told(bench: Bench, before: str | None, **settings: object) -> Tuned:
    tuning = read_tuning(settings)
    found = {}
    if before is not None:
        bench.command("vcgencmd", f"#!/bin/sh\necho {before}\n")
        found = booting.found(bench.place, tuning)
    (one,) = booting.read_back(bench.place, tuning, found)
    return one


def test_the_firmware_tells_what_it_took(bench: Bench) -> None:
    tuning = read_tuning({"arm_freq": 2000})
    bench.command("vcgencmd", "#!/bin/sh\necho arm_freq=1500\n")
    before = booting.found(bench.place, tuning)
    for now, outcome in (("2000", Outcome.APPLIED), ("1800", Outcome.CLAMPED), ("1500", Outcome.REJECTED)):
        bench.command("vcgencmd", f"#!/bin/sh\necho arm_freq={now}\n")
        (one,) = booting.read_back(bench.place, tuning, before)
        assert (one.outcome, one.before, one.found) == (outcome, "1500", now)
    bench.command("vcgencmd", "#!/bin/sh\necho arm_freq=2000\n")
    (one,) = booting.read_back(bench.place, tuning, booting.found(bench.place, tuning))
    assert one.outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(("hexadecimal", "asked"), [("0xc350", 50_000), ("0xffff3cb0", -50_000)])
def test_the_firmware_may_tell_it_in_hexadecimal(bench: Bench, hexadecimal: str, asked: int) -> None:
    bench.command("vcgencmd", f"#!/bin/sh\necho over_voltage_delta={hexadecimal}\n")
    one = told(bench, None, over_voltage_delta=asked)
    assert (one.outcome, one.found) == (Outcome.APPLIED, str(asked))


def test_without_the_firmware_s_tool_the_kernel_tells_the_clock(bench: Bench) -> None:
    bench.command("vcgencmd", "#!/bin/sh\nexit 127\n")
    one = told(bench, None, force_turbo=1)
    assert (one.outcome, one.why) == (
        Outcome.UNSUPPORTED,
        "nothing tells force_turbo on node ('vcgencmd get_config force_turbo')",
    )
    bench.file("/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "2000000")
    assert told(bench, None, arm_freq=2000).outcome is Outcome.APPLIED


LSPCI = """\
00:00.1 Host bridge: a device without PCI Express
\t\tFlags: fast devsel

00:00.0 PCI bridge: Broadcom Inc. BCM2711 PCIe Bridge (rev 20)
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr- NonFatalErr-
\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
\t\tLnkSta:\tSpeed 5GT/s, Width x1

01:00.0 Ethernet controller: Aquantia Corp. AQC107
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr- NonFatalErr-
\t\t\tMaxPayload 256 bytes, MaxReadReq 256 bytes
"""


def test_a_kernel_parameter_is_on_the_command_line_and_payloads_stand_beside_it(bench: Bench) -> None:
    bench.command("lspci", f"#!/bin/sh\ncat <<'END'\n{LSPCI}END\n")
    bench.file("/proc/cmdline", "console=tty1 pci=pcie_bus_perf quiet")
    one = told(bench, None, kernel="pci=pcie_bus_perf")
    assert one.outcome is Outcome.APPLIED
    assert one.found == "pci=pcie_bus_perf; MaxPayload 256 (00:00.0), 256 (01:00.0)"
    bench.file("/proc/cmdline", "console=tty1")
    assert (
        told(bench, "x", kernel="pci=pcie_bus_perf").why == "it stands in the boot files, and the boot changed nothing"
    )


def test_the_generation_of_a_pcie_link(bench: Bench) -> None:
    assert told(bench, None, pcie_gen=3).why == "eth0 is not on PCIe"
    card_ = bench.root / "sys/devices/platform/axi/1000110000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0"
    card_.mkdir(parents=True)
    (card_ / "current_link_speed").write_text("8.0 GT/s PCIe\n")
    link = bench.root / "sys/class/net/eth0/device"
    link.parent.mkdir(parents=True)
    link.symlink_to(card_)
    assert told(bench, None, pcie_gen=3).outcome is Outcome.APPLIED
    assert told(bench, None, dtparam="pciex1_gen=3").outcome is Outcome.APPLIED
    assert told(bench, None, pcie_gen=2).outcome is Outcome.CLAMPED


def test_what_nothing_tells_is_not_claimed(bench: Bench) -> None:
    one = told(bench, None, dtparam="audio=off")
    assert one.outcome is Outcome.UNSUPPORTED
    assert one.why == "it is in config.txt, and nothing known tells whether dtparam audio works"
