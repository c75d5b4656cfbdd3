"""Settings that need a boot: edits of the boot files, backups of the originals, and the values after the boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.tuning import boot_files, booting
from pytest_pinet.tuning.registry import read_tuning
from pytest_pinet.tuning.setting import NoKnob
from tests.support.tuning_node import Bench

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
        f"{CONFIG}\n\n# By pytest-pinet, for a test: the original is the file *.pytest-pinet\n[all]\n"
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
    (card(bench) / "config.txt.new").write_text("a foreign file")
    assert boot_files.put_back(bench.shell, folders(bench))
    assert files(bench) == {"cmdline.txt": CMDLINE, "config.txt": CONFIG, "config.txt.new": "a foreign file"}


def test_a_card_that_cannot_be_written_is_reported(bench: Bench) -> None:
    bench.command("mv", '#!/bin/sh\necho "mv: cannot move: Read-only file system" >&2; exit 1\n')
    with pytest.raises(LabError, match=r"node cannot change \S+/config.txt: Read-only file system"):
        booting.prepare(bench.shell, OC, folders(bench))
    assert files(bench)["config.txt"] == CONFIG


def test_a_machine_that_boots_otherwise(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(NoKnob, match="node has no config"):
        booting.prepare(bench.shell, OC, folders(bench))


def test_unreadable_boot_files_are_reported_with_the_reason(bench: Bench) -> None:
    why = "sudo: a password is required"
    bench.command("sudo", f"#!/bin/sh\necho '{why}' >&2; exit 1\n")
    bench.command("id", "#!/bin/sh\necho 1000\n")
    with pytest.raises(NoKnob, match="node does not allow reading its boot files: a password is required"):
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
    for now, outcome in (
        ("2000", SettingOutcome.APPLIED),
        ("1800", SettingOutcome.CLAMPED),
        ("1500", SettingOutcome.REJECTED),
    ):
        bench.command("vcgencmd", f"#!/bin/sh\necho arm_freq={now}\n")
        (one,) = booting.read_back(bench.place, tuning, before)
        assert (one.outcome, one.before, one.found) == (outcome, "1500", now)
    bench.command("vcgencmd", "#!/bin/sh\necho arm_freq=2000\n")
    (one,) = booting.read_back(bench.place, tuning, booting.found(bench.place, tuning))
    assert one.outcome is SettingOutcome.UNCHANGED


@pytest.mark.parametrize(("hexadecimal", "asked"), [("0xc350", 50_000), ("0xffff3cb0", -50_000)])
def test_the_firmware_may_tell_it_in_hexadecimal(bench: Bench, hexadecimal: str, asked: int) -> None:
    bench.command("vcgencmd", f"#!/bin/sh\necho over_voltage_delta={hexadecimal}\n")
    one = told(bench, None, over_voltage_delta=asked)
    assert (one.outcome, one.found) == (SettingOutcome.APPLIED, str(asked))


def test_without_the_firmware_s_tool_the_kernel_tells_the_clock(bench: Bench) -> None:
    bench.command("vcgencmd", "#!/bin/sh\nexit 127\n")
    one = told(bench, None, force_turbo=1)
    assert (one.outcome, one.why) == (
        SettingOutcome.UNSUPPORTED,
        "node does not report force_turbo ('vcgencmd get_config force_turbo')",
    )
    bench.file("/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "2000000")
    assert told(bench, None, arm_freq=2000).outcome is SettingOutcome.APPLIED


# Output of a CM4 with an ASUS XG-C100C, shortened. The second card, behind its own bridge, does not belong to eth0.
LSPCI = """\
00:00.1 Host bridge: a device without PCI Express
\t\tFlags: fast devsel

0000:00:00.0 PCI bridge: Broadcom Inc. BCM2711 PCIe Bridge (rev 20)
\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr- NonFatalErr-
\t\t\tMaxPayload BRIDGE bytes, MaxReadReq 512 bytes
\t\tLnkSta:\tSpeed 5GT/s, Width x1

0000:01:00.0 Ethernet controller: Aquantia Corp. AQC107
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr- NonFatalErr-
\t\t\tMaxPayload CARD bytes, MaxReadReq 256 bytes

0000:02:00.0 Ethernet controller: another one
\t\tDevCap:\tMaxPayload 128 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr- NonFatalErr-
\t\t\tMaxPayload 128 bytes, MaxReadReq 256 bytes
"""
PERFORMANCE = "pci=pcie_bus_perf"


def tell_payload(bench: Bench, bridge: int, card: int | None = None) -> None:
    text = LSPCI.replace("BRIDGE", str(bridge)).replace("CARD", str(card or bridge))
    bench.command("lspci", f"#!/bin/sh\ncat <<'END'\n{text}END\n")


def plug_in(bench: Bench, beneath: str = "") -> None:
    """Put the NIC behind the first bridge, or behind a USB controller there."""
    folder = bench.root / "sys/devices/platform/scb/fd500000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0" / beneath
    folder.mkdir(parents=True)
    link = bench.root / "sys/class/net/eth0/device"
    link.parent.mkdir(parents=True)
    link.symlink_to(folder)


def after_a_boot(bench: Bench, before: int, now: int) -> Tuned:
    """Return the setting as read before the boot and, with another payload, after it."""
    tuning = read_tuning({"kernel": PERFORMANCE})
    bench.file("/proc/cmdline", "console=tty1")
    tell_payload(bench, before)
    found = booting.found(bench.place, tuning)
    bench.file("/proc/cmdline", f"console=tty1 {PERFORMANCE} quiet")
    tell_payload(bench, now)
    (one,) = booting.read_back(bench.place, tuning, found)
    return one


def test_a_payload_that_grew_on_the_way_to_the_nic_is_applied(bench: Bench) -> None:
    plug_in(bench)
    one = after_a_boot(bench, 128, 512)
    assert one.outcome is SettingOutcome.APPLIED
    assert one.before == "not in /proc/cmdline; MaxPayload 128 (0000:00:00.0), 128 (0000:01:00.0)"
    assert one.found == f"{PERFORMANCE}; MaxPayload 512 (0000:00:00.0), 512 (0000:01:00.0)"


def test_an_unchanged_payload_means_that_the_parameter_has_no_effect(bench: Bench) -> None:
    plug_in(bench)
    one = after_a_boot(bench, 128, 128)
    assert one.outcome is SettingOutcome.UNSUPPORTED
    assert one.why == "the setting had no effect: MaxPayload 128 (0000:00:00.0), 128 (0000:01:00.0)"


def test_a_payload_that_was_the_largest_before_is_unchanged(bench: Bench) -> None:
    plug_in(bench)
    one = after_a_boot(bench, 512, 512)
    assert one.outcome is SettingOutcome.UNCHANGED
    assert one.why.endswith("512 (0000:01:00.0), the largest size that all devices support")


def test_of_a_usb_adapter_the_controller_s_payload_counts(bench: Bench) -> None:
    plug_in(bench, "usb2/2-1/2-1:1.0")
    assert after_a_boot(bench, 128, 256).outcome is SettingOutcome.APPLIED


def test_the_driver_gives_the_address_if_sysfs_does_not(bench: Bench) -> None:
    bench.command("ethtool", "#!/bin/sh\necho 'driver: veth'; echo 'bus-info: 0000:01:00.0'\n")
    assert after_a_boot(bench, 128, 512).outcome is SettingOutcome.APPLIED


def test_a_nic_that_is_not_on_pcie_has_no_payload(bench: Bench) -> None:
    bench.command("ethtool", "#!/bin/sh\necho 'driver: bcmgenet'; echo 'bus-info: fd580000.ethernet'\n")
    one = after_a_boot(bench, 128, 512)
    assert (one.outcome, one.why) == (SettingOutcome.UNSUPPORTED, "eth0 is not on PCIe")


def test_an_unknown_payload_is_unsupported(bench: Bench) -> None:
    plug_in(bench)
    tuning = read_tuning({"kernel": PERFORMANCE})
    bench.file("/proc/cmdline", PERFORMANCE)
    # Output of busybox, and of any user but root.
    bench.command("lspci", "#!/bin/sh\necho '01:00.0 Class 0200: 1d6a:07b1'\n")
    (one,) = booting.read_back(bench.place, tuning, {})
    assert one.outcome is SettingOutcome.UNSUPPORTED
    assert one.why == "cannot read the payload size of PCIe packets to eth0 (lspci -vv of pciutils, as root)"
    tell_payload(bench, 512)
    (one,) = booting.read_back(bench.place, tuning, {})
    assert (one.outcome, one.why.partition(":")[0]) == (SettingOutcome.UNCHANGED, "the value before is not known")


def test_a_kernel_parameter_is_on_the_command_line(bench: Bench) -> None:
    bench.file("/proc/cmdline", "console=tty1 threadirqs quiet")
    assert told(bench, None, kernel="threadirqs").outcome is SettingOutcome.APPLIED
    bench.file("/proc/cmdline", "console=tty1")
    assert told(bench, "x", kernel="threadirqs").why == "it is in the boot files, but the boot did not change the value"


def test_the_generation_of_a_pcie_link(bench: Bench) -> None:
    assert told(bench, None, pcie_gen=3).why == "eth0 is not on PCIe"
    card_ = bench.root / "sys/devices/platform/axi/1000110000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0"
    card_.mkdir(parents=True)
    (card_ / "current_link_speed").write_text("8.0 GT/s PCIe\n")
    link = bench.root / "sys/class/net/eth0/device"
    link.parent.mkdir(parents=True)
    link.symlink_to(card_)
    assert told(bench, None, pcie_gen=3).outcome is SettingOutcome.APPLIED
    assert told(bench, None, dtparam="pciex1_gen=3").outcome is SettingOutcome.APPLIED
    assert told(bench, None, pcie_gen=2).outcome is SettingOutcome.CLAMPED


def test_a_setting_that_cannot_be_read_is_unsupported(bench: Bench) -> None:
    one = told(bench, None, dtparam="audio=off")
    assert one.outcome is SettingOutcome.UNSUPPORTED
    assert one.why == "dtparam audio is in config.txt, but pinet cannot read back whether it works"
