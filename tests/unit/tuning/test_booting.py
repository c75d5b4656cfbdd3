"""Settings that need a boot: the lines that they add to the boot files, and the values after the boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.model.tuning import SettingOutcome, Tuned, Tuning
from pytest_pinet.tuning import boot_settings
from pytest_pinet.tuning.registry import read_tuning
from pytest_pinet.tuning.setting import BootLines
from tests.support.tuning_node import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_settings_add_lines_to_config_txt_and_words_to_the_command_line() -> None:
    tuning = read_tuning(
        {"arm_freq": 2000, "over_voltage": 6, "kernel": "pci=pcie_bus_perf quiet", "dtparam": "eee=off"}
    )
    assert boot_settings.lines_of(tuning) == BootLines(
        ("arm_freq=2000", "over_voltage=6", "dtoverlay=", "dtparam=eee=off"), ("pci=pcie_bus_perf", "quiet")
    )
    assert boot_settings.lines_of(Tuning()) == BootLines()


def test_a_word_for_the_command_line_is_added_once() -> None:
    assert BootLines().with_parameters(["quiet", "a=1"]).with_parameters(["a=1", "b"]).cmdline == ("quiet", "a=1", "b")


def told(bench: Bench, before: str | None, **settings: object) -> Tuned:
    tuning = read_tuning(settings)
    found = {}
    if before is not None:
        bench.command("vcgencmd", f"#!/bin/sh\necho {before}\n")
        found = boot_settings.found(bench.place, tuning)
    (one,) = boot_settings.read_back(bench.place, tuning, found)
    return one


def test_the_firmware_tells_what_it_took(bench: Bench) -> None:
    tuning = read_tuning({"arm_freq": 2000})
    bench.command("vcgencmd", "#!/bin/sh\necho arm_freq=1500\n")
    before = boot_settings.found(bench.place, tuning)
    for now, outcome in (
        ("2000", SettingOutcome.APPLIED),
        ("1800", SettingOutcome.CLAMPED),
        ("1500", SettingOutcome.REJECTED),
    ):
        bench.command("vcgencmd", f"#!/bin/sh\necho arm_freq={now}\n")
        (one,) = boot_settings.read_back(bench.place, tuning, before)
        assert (one.outcome, one.before, one.found) == (outcome, "1500", now)
    bench.command("vcgencmd", "#!/bin/sh\necho arm_freq=2000\n")
    (one,) = boot_settings.read_back(bench.place, tuning, boot_settings.found(bench.place, tuning))
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
    found = boot_settings.found(bench.place, tuning)
    bench.file("/proc/cmdline", f"console=tty1 {PERFORMANCE} quiet")
    tell_payload(bench, now)
    (one,) = boot_settings.read_back(bench.place, tuning, found)
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
    (one,) = boot_settings.read_back(bench.place, tuning, {})
    assert one.outcome is SettingOutcome.UNSUPPORTED
    assert one.why == "cannot read the payload size of PCIe packets to eth0 (lspci -vv of pciutils, as root)"
    tell_payload(bench, 512)
    (one,) = boot_settings.read_back(bench.place, tuning, {})
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
