"""Preconditions that make a result invalid, read from a folder like /sys and judged."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.evidence.nics import read_board
from pytest_pinet.evidence.preconditions import read, read_all
from pytest_pinet.execution.shell import Completed
from pytest_pinet.judge.preconditions import broke_during, broken, notes
from pytest_pinet.model.evidence import Conditions, PcieLink, Throttling, Trouble
from pytest_pinet.model.hardware import Bus, FoundBoard, FoundNic
from tests.support.board_tree import BoardTree
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


PI4_ETHERNET = "/scb/ethernet@7d580000"
USB_PORTS = "platform/scb/fd500000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0/usb2/2-1"
LAN7515 = "/soc/usb@7e980000/usb-port@1/usb-port@1/ethernet@1"
LAN7515_PLACE = "platform/soc/3f980000.usb/usb1/1-1/1-1.1/1-1.1.1"


def pi4(root: Path) -> BoardTree:
    tree = BoardTree(root, "Raspberry Pi 4 Model B Rev 1.4")
    tree.own_nic(PI4_ETHERNET)
    mac = "dc:a6:32:01:02:03"
    own = tree.nic("end0", "platform/scb/fd580000.ethernet", mac, "bcmgenet", "platform", "fd580000.ethernet", mac)
    tree.node_of(own, PI4_ETHERNET)
    usb = tree.nic(
        "enxa0cec8010203", f"{USB_PORTS}/2-1:1.0", "a0:ce:c8:01:02:03", "ax88179_178a", "usb", "usb-0000:01:00.0-1"
    )
    (usb.parent / "speed").write_text("5000\n")
    tree.plain("lo", "00:00:00:00:00:00")
    return tree


def read_tree(tree: BoardTree) -> FoundBoard:
    return read_board(tree.shell(), str(tree.root))


def test_a_pi_4_with_a_usb_adapter(tmp_path: Path) -> None:
    found = read_tree(pi4(tmp_path))
    assert found.model == "Raspberry Pi 4 Model B Rev 1.4"
    assert list(found.nics.values()) == [
        FoundNic(
            "end0", "dc:a6:32:01:02:03", "dc:a6:32:01:02:03", "bcmgenet", "platform", "fd580000.ethernet", is_own=True
        ),
        FoundNic(
            "enxa0cec8010203", "a0:ce:c8:01:02:03", None, "ax88179_178a", "usb", "usb-0000:01:00.0-1", usb_mbps=5000.0
        ),
    ]


def test_the_onboard_nic_of_a_pi_3b_plus_is_a_usb_device_with_a_node_of_its_own(tmp_path: Path) -> None:
    tree = BoardTree(tmp_path, "Raspberry Pi 3 Model B Plus Rev 1.3")
    tree.own_nic(LAN7515)
    own = tree.nic(
        "eth1", f"{LAN7515_PLACE}/1-1.1.1:1.0", "b8:27:eb:01:02:03", "lan78xx", "usb", "usb-3f980000.usb-1.1.1"
    )
    # The kernel gives the node to the USB device. ``device`` of the NIC is an interface of this device.
    tree.node_of(own.parent, LAN7515)
    other = tree.nic(
        "eth0", f"{LAN7515_PLACE[:-1]}2/1-1.1.2:1.0", "00:80:0f:01:02:03", "lan78xx", "usb", "usb-3f980000.usb-1.1.2"
    )
    assert other.parent != own.parent
    assert {nic.device: nic.is_own for nic in read_tree(tree).nics.values()} == {"eth0": False, "eth1": True}


def test_a_usb_adapter_behind_a_hub_is_not_onboard(tmp_path: Path) -> None:
    tree = BoardTree(tmp_path)
    tree.own_nic("/soc/usb@7e980000/usb-port@1")
    place = "platform/soc/3f980000.usb/usb1/1-1/1-1.2/1-1.2:1.0"
    folder = tree.nic("eth0", place, "00:e0:4c:01:02:03", "r8152", "usb", "usb-3f980000.usb-1.2")
    # The hub has the node.
    tree.node_of(folder.parent.parent, "/soc/usb@7e980000/usb-port@1")
    assert not read_tree(tree).nics["eth0"].is_own


def test_without_ethtool_sysfs_names_the_driver_and_the_place_of_all_but_usb_nics(tmp_path: Path) -> None:
    tree = pi4(tmp_path)
    (tmp_path / "bin/ethtool").write_text("#!/bin/sh\nexit 127\n")
    nics = read_tree(tree).nics
    assert (nics["end0"].driver, nics["end0"].bus_info) == ("bcmgenet", "fd580000.ethernet")
    assert (nics["enxa0cec8010203"].driver, nics["enxa0cec8010203"].bus_info) == ("ax88179_178a", None)


def test_a_pcie_card_reports_its_link(tmp_path: Path) -> None:
    tree = BoardTree(tmp_path)
    card = tree.nic("eth1", "pci0000:00/0000:01:00.0", "00:e0:4c:01:02:03", "r8169", "pci", "0000:01:00.0")
    (card / "current_link_speed").write_text("5.0 GT/s PCIe\n")
    (card / "current_link_width").write_text("1\n")
    nic = read_tree(tree).nics["eth1"]
    assert (nic.bus, nic.bus_info, nic.pcie_gts, nic.pcie_lanes) == ("pci", "0000:01:00.0", 5.0, 1)


def test_a_vlan_has_the_address_of_its_nic_and_is_known_as_a_vlan(tmp_path: Path) -> None:
    tree = pi4(tmp_path)
    vlan = tree.plain("end0.4000", "dc:a6:32:01:02:03")
    (vlan / "lower_end0").symlink_to(tmp_path / "sys/class/net/end0")
    nics = read_tree(tree).nics
    assert (nics["end0.4000"].is_stacked, nics["end0"].is_stacked) == (True, False)


def test_a_machine_without_device_tree_and_a_nic_without_bus(tmp_path: Path) -> None:
    tree = BoardTree(tmp_path)
    tree.plain("eth0", "02:00:00:00:00:01")
    # As ethtool prints it for veth.
    (tmp_path / "ethtool").mkdir()
    (tmp_path / "ethtool/eth0-i").write_text("driver: veth\nversion: 1.0\nexpansion-rom-version: \nbus-info: \n")
    (tmp_path / "ethtool/eth0-P").write_text("Permanent address: not set\n")
    found = read_tree(tree)
    assert found == FoundBoard(None, {"eth0": FoundNic("eth0", "02:00:00:00:00:01", None, "veth")})


def test_a_place_alone_tells_the_kind_of_bus(tmp_path: Path) -> None:
    """The boards of the virtual lab have no hardware in /sys, but their ethtool reports a place."""
    tree = BoardTree(tmp_path)
    kinds = {"usb-xhci-hcd.0-2": "usb", "0000:01:00.0": "pci", "fd580000.ethernet": "platform"}
    (tmp_path / "ethtool").mkdir()
    for number, place in enumerate(kinds):
        tree.plain(f"eth{number}", f"02:00:00:00:00:0{number}")
        (tmp_path / f"ethtool/eth{number}-i").write_text(f"driver: x\nbus-info: {place}\n")
    assert [nic.bus for nic in read_tree(tree).nics.values()] == list(kinds.values())
