"""Preconditions that make a result invalid, read from a folder like /sys and judged."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.evidence.preconditions import read, read_all
from pytest_pinet.execution.shell import Completed
from pytest_pinet.judge.preconditions import broke_during, broken, notes
from pytest_pinet.model.evidence import Conditions, PcieLink, Throttling, Trouble
from pytest_pinet.model.hardware import Bus
from tests.support.local_shell import LocalShell

FINE = Conditions("pi4b-1", "eth1")
GEN1, GEN2, WIDE = PcieLink(2.5, 1), PcieLink(5.0, 1), PcieLink(8.0, 8)


def sysfs(root: Path, device: str, files: Mapping[str, str]) -> str:
    """Write a tree with these files, where ``class/net/eth1/device`` points to ``device``."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    link = root / "class/net/eth1/device"
    link.parent.mkdir(parents=True, exist_ok=True)
    (root / device).mkdir(parents=True, exist_ok=True)
    link.symlink_to(root / device)
    return str(root)


def pcie(current: tuple[str, str], nic: tuple[str, str], slot: tuple[str, str]) -> dict[str, str]:
    port, card = "devices/pci0000:00/0000:00:00.0", "devices/pci0000:00/0000:00:00.0/0000:01:00.0"
    return {
        f"{card}/current_link_speed": current[0],
        f"{card}/current_link_width": current[1],
        f"{card}/max_link_speed": nic[0],
        f"{card}/max_link_width": nic[1],
        f"{port}/max_link_speed": slot[0],
        f"{port}/max_link_width": slot[1],
    }


CARD = "devices/pci0000:00/0000:00:00.0/0000:01:00.0"


def test_the_pcie_link_is_held_against_what_nic_and_slot_can(tmp_path: Path) -> None:
    # A card with eight lanes in a board's single lane.
    files = pcie(("5.0 GT/s PCIe", "1"), ("8.0 GT/s PCIe", "8"), ("5.0 GT/s PCIe", "1"))
    found = read(LocalShell("cm4-1"), "eth1", sysfs=sysfs(tmp_path, CARD, files))
    assert (found.pcie, found.pcie_best) == (GEN2, GEN2)
    assert broken(found) == []


@pytest.mark.parametrize(
    ("current", "slot", "runs_at", "best"),
    [
        (("2.5 GT/s PCIe", "1"), ("5.0 GT/s PCIe", "1"), "2.5 GT/s x1", "5 GT/s x1"),
        (("5.0 GT/s PCIe", "1"), ("5.0 GT/s PCIe", "4"), "5 GT/s x1", "5 GT/s x4"),
    ],
)
def test_a_pcie_link_that_trained_down_is_broken(
    tmp_path: Path, current: tuple[str, str], slot: tuple[str, str], runs_at: str, best: str
) -> None:
    files = pcie(current, ("8.0 GT/s PCIe", "8"), slot)
    (trouble,) = broken(read(LocalShell("cm4-1"), "eth1", sysfs=sysfs(tmp_path, CARD, files)))
    assert trouble.text == f"the PCIe link of cm4-1 eth1 runs at {runs_at}, though both its ends support {best}"
    assert trouble.act.startswith("reseat the card")


def test_a_pcie_link_that_does_not_tell_is_not_judged(tmp_path: Path) -> None:
    files = pcie(("Unknown", "0"), ("Unknown", "255"), ("5.0 GT/s PCIe", "1"))
    found = read(LocalShell(), "eth1", sysfs=sysfs(tmp_path, CARD, files))
    assert found.pcie is found.pcie_best is None
    assert broken(found) == []


@pytest.mark.parametrize(
    ("speed", "bus", "said"),
    [
        ("5000", Bus.USB3, []),
        ("480", Bus.USB2, []),
        ("480", Bus.USB3, ["the USB NIC eth1 of pi4b-1 runs at 480 Mbit/s instead of 5000 Mbit/s"]),
        ("12", Bus.USB2, ["the USB NIC eth1 of pi4b-1 runs at 12 Mbit/s instead of 480 Mbit/s"]),
        ("480", None, []),
    ],
)
def test_a_usb_nic_on_a_slower_bus_is_broken(tmp_path: Path, speed: str, bus: Bus | None, said: list[str]) -> None:
    device = "devices/pci0000:00/usb2/2-1/2-1:1.0"
    root = sysfs(tmp_path, device, {"devices/pci0000:00/usb2/2-1/speed": speed})
    found = read(LocalShell("pi4b-1"), "eth1", sysfs=root)
    assert found.usb_mbps == float(speed)
    assert [one.text for one in broken(found, bus=bus)] == said


def test_the_nic_of_a_chip_has_no_bus_to_judge(tmp_path: Path) -> None:
    root = sysfs(tmp_path, "devices/platform/scb/fd580000.ethernet", {"devices/platform/scb/speed": "480"})
    found = read(LocalShell("pi4b-1"), "eth1", sysfs=root)
    assert found == Conditions("pi4b-1", "eth1")


def test_throttling_is_read_from_sysfs(tmp_path: Path) -> None:
    files = {"devices/platform/soc/soc:firmware/get_throttled": "50005"}
    found = read(LocalShell("pi4b-1"), "eth1", sysfs=sysfs(tmp_path, "devices/x", files))
    assert found.throttling == Throttling(0x50005)
    assert broken(found) == [
        Trouble(
            "pi4b-1 is limited by its firmware: under-voltage and throttled",
            "give it a stronger power supply, a shorter cable, or cooling",
        )
    ]


def test_throttling_is_read_with_vcgencmd_if_it_is_installed(tmp_path: Path) -> None:
    tool = tmp_path / "vcgencmd"
    tool.write_text("#!/bin/sh\n[ $1 = get_throttled ] && echo throttled=0x20000\n")
    tool.chmod(0o755)
    found = read(LocalShell("pi4b-1", env={"PATH": f"{tmp_path}:/usr/bin:/bin"}), "lo")
    assert found.throttling == Throttling(0x20000)
    assert broken(found) == []
    assert notes([found, found]) == ["pi4b-1 had capped clock since it was booted"]


@pytest.mark.parametrize(("alarm", "said"), [("1", ["pi4b-1 has under-voltage"]), ("0", [])])
def test_a_voltage_monitor_is_read(tmp_path: Path, alarm: str, said: list[str]) -> None:
    root = sysfs(tmp_path, "devices/x", {"class/hwmon/hwmon1/in0_lcrit_alarm": alarm})
    found = read(LocalShell("pi4b-1"), "eth1", sysfs=root)
    assert [one.text for one in broken(found)] == said


def test_one_reading_does_not_wait_and_has_no_processor_load(tmp_path: Path) -> None:
    sleep = tmp_path / "sleep"
    sleep.write_text(f"#!/bin/sh\ntouch {tmp_path}/slept\n")
    sleep.chmod(0o755)
    shell = LocalShell(env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert read(shell, "lo").cpu_busy is None
    assert not (tmp_path / "slept").exists()
    read(shell, "lo", busy_s=0.1)
    assert (tmp_path / "slept").exists()


def test_a_device_that_is_not_there_tells_nothing() -> None:
    found = read(LocalShell("a"), "eth77")
    assert (found.end, found.device, found.pcie, found.usb_mbps) == ("a", "eth77", None, None)


def test_several_ends_are_read_at_once_with_their_other_work() -> None:
    # No reading ends before all have begun.
    together = threading.Barrier(3, timeout=60)

    class Waiting(LocalShell):
        def run(self, command: str, timeout_s: float = 10.0) -> Completed:
            together.wait()
            return super().run(command, timeout_s)

    found = read_all([(Waiting(name), "lo") for name in ("a", "b", "c")])
    assert [one.end for one in found] == ["a", "b", "c"]
    assert all(one.cpu_busy is not None and 0 <= one.cpu_busy <= 1 for one in found)


def test_an_end_that_is_busy_breaks_the_preconditions() -> None:
    # Its first line of /proc/stat has no idle time.
    script = 'echo "cpu=cpu 0 0 0 0 0 0 0 0"; echo "cpu_after=cpu 10 0 0 0 0 0 0 0"'

    class Busy(LocalShell):
        def run(self, command: str, timeout_s: float = 10.0) -> Completed:
            return super().run(script, timeout_s)

    (found,) = read_all([(Busy(), "lo")])
    assert found.cpu_busy == 1
    assert broken(found)


@pytest.mark.parametrize(
    ("busy", "invalid", "noted"), [(None, 0, 0), (0.05, 0, 0), (0.4, 0, 1), (0.9, 0, 1), (0.95, 1, 0)]
)
def test_a_busy_peer_is_noted_and_too_busy_a_one_is_broken(busy: float | None, invalid: int, noted: int) -> None:
    peer = Conditions("pi5-1", "eth0", cpu_busy=busy)
    assert len(broken(peer)) == invalid
    assert len(notes([peer])) == noted
    if invalid:
        assert broken(peer)[0].text.startswith("the processors of pi5-1 were 95 % busy with other work before")


def test_unknown_values_meet_all_preconditions() -> None:
    assert broken(FINE, Bus.USB3) == []
    assert broken(FINE) == []
    assert notes([FINE]) == []


def test_all_unmet_preconditions_are_reported() -> None:
    assert len(broken(replace(FINE, pcie=GEN1, pcie_best=WIDE, under_voltage=True))) == 2


def test_under_voltage_that_ended_during_the_traffic_is_reported() -> None:
    before = replace(FINE, throttling=Throttling(0x40000))
    assert broke_during(before, before) == []
    after = replace(FINE, throttling=Throttling(0x50000))
    assert [one.text for one in broke_during(before, after)] == ["pi4b-1 had under-voltage during the traffic"]
    assert broke_during(before, replace(FINE, throttling=Throttling(0x50001)))[0].text.startswith(
        "pi4b-1 is limited by its firmware: under-voltage"
    )
    assert broke_during(FINE, after) == []
