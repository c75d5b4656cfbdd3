"""Board and NICs of a node, read from folders like the /sys and /proc of a Raspberry Pi.

The paths of device tree and sysfs follow bcm2711-rpi-4-b.dts, bcm283x-rpi-lan7515.dtsi and the drivers in Linux.
"""

from __future__ import annotations

from pathlib import Path

from pytest_pinet.evidence.nics import read_board
from pytest_pinet.model.hardware import FoundBoard, FoundNic
from tests.support.board_tree import BoardTree

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


def read(tree: BoardTree) -> FoundBoard:
    return read_board(tree.shell(), str(tree.root))


def test_a_pi_4_with_a_usb_adapter(tmp_path: Path) -> None:
    found = read(pi4(tmp_path))
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
    assert {nic.device: nic.is_own for nic in read(tree).nics.values()} == {"eth0": False, "eth1": True}


def test_a_usb_adapter_behind_a_hub_is_not_onboard(tmp_path: Path) -> None:
    tree = BoardTree(tmp_path)
    tree.own_nic("/soc/usb@7e980000/usb-port@1")
    place = "platform/soc/3f980000.usb/usb1/1-1/1-1.2/1-1.2:1.0"
    folder = tree.nic("eth0", place, "00:e0:4c:01:02:03", "r8152", "usb", "usb-3f980000.usb-1.2")
    # The hub has the node.
    tree.node_of(folder.parent.parent, "/soc/usb@7e980000/usb-port@1")
    assert not read(tree).nics["eth0"].is_own


def test_without_ethtool_sysfs_names_the_driver_and_the_place_of_all_but_usb_nics(tmp_path: Path) -> None:
    tree = pi4(tmp_path)
    (tmp_path / "bin/ethtool").write_text("#!/bin/sh\nexit 127\n")
    nics = read(tree).nics
    assert (nics["end0"].driver, nics["end0"].bus_info) == ("bcmgenet", "fd580000.ethernet")
    assert (nics["enxa0cec8010203"].driver, nics["enxa0cec8010203"].bus_info) == ("ax88179_178a", None)


def test_a_pcie_card_reports_its_link(tmp_path: Path) -> None:
    tree = BoardTree(tmp_path)
    card = tree.nic("eth1", "pci0000:00/0000:01:00.0", "00:e0:4c:01:02:03", "r8169", "pci", "0000:01:00.0")
    (card / "current_link_speed").write_text("5.0 GT/s PCIe\n")
    (card / "current_link_width").write_text("1\n")
    nic = read(tree).nics["eth1"]
    assert (nic.bus, nic.bus_info, nic.pcie_gts, nic.pcie_lanes) == ("pci", "0000:01:00.0", 5.0, 1)


def test_a_vlan_has_the_address_of_its_nic_and_is_known_as_a_vlan(tmp_path: Path) -> None:
    tree = pi4(tmp_path)
    vlan = tree.plain("end0.4000", "dc:a6:32:01:02:03")
    (vlan / "lower_end0").symlink_to(tmp_path / "sys/class/net/end0")
    nics = read(tree).nics
    assert (nics["end0.4000"].is_stacked, nics["end0"].is_stacked) == (True, False)


def test_a_machine_without_device_tree_and_a_nic_without_bus(tmp_path: Path) -> None:
    tree = BoardTree(tmp_path)
    tree.plain("eth0", "02:00:00:00:00:01")
    # As ethtool prints it for veth.
    (tmp_path / "ethtool").mkdir()
    (tmp_path / "ethtool/eth0-i").write_text("driver: veth\nversion: 1.0\nexpansion-rom-version: \nbus-info: \n")
    (tmp_path / "ethtool/eth0-P").write_text("Permanent address: not set\n")
    found = read(tree)
    assert found == FoundBoard(None, {"eth0": FoundNic("eth0", "02:00:00:00:00:01", None, "veth")})


def test_a_place_alone_tells_the_kind_of_bus(tmp_path: Path) -> None:
    """The boards of the virtual lab have no hardware in /sys, but their ethtool reports a place."""
    tree = BoardTree(tmp_path)
    kinds = {"usb-xhci-hcd.0-2": "usb", "0000:01:00.0": "pci", "fd580000.ethernet": "platform"}
    (tmp_path / "ethtool").mkdir()
    for number, place in enumerate(kinds):
        tree.plain(f"eth{number}", f"02:00:00:00:00:0{number}")
        (tmp_path / f"ethtool/eth{number}-i").write_text(f"driver: x\nbus-info: {place}\n")
    assert [nic.bus for nic in read(tree).nics.values()] == list(kinds.values())
