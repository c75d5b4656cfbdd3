"""Finding the NICs of the lab file on a board, and the sentences about differences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.catalogue import load as load_catalogue
from pytest_pinet.config.labfile import load
from pytest_pinet.judge.hardware import Mismatch, compare_board, compare_nic, find
from pytest_pinet.model.hardware import FoundBoard, FoundNic
from pytest_pinet.model.lab import Node

# A Pi 3B+ with two USB adapters: its onboard NIC is on USB, too.
LAB = """\
pinet:
  switches:
    s: {backend: fixed, ports: p1-p9}
  nodes:
    pi:
      board: pi3b+
      interfaces:
        onboard: {port: s/p1}
        asix: {nic: ax88179, port: s/p2, WAY1}
        realtek: {nic: rtl8153, port: s/p3, WAY2}
"""
OWN = FoundNic("eth0", "b8:27:eb:00:00:01", None, "lan78xx", "usb", "usb-3f980000.usb-1.1.1", is_own=True)
ASIX = FoundNic("eth1", "a0:ce:c8:00:00:02", None, "ax88179_178a", "usb", "usb-3f980000.usb-1.1.2")
REALTEK = FoundNic("eth2", "00:e0:4c:00:00:03", None, "r8152", "usb", "usb-3f980000.usb-1.1.3")


def board(*nics: FoundNic) -> FoundBoard:
    return FoundBoard("Raspberry Pi 3 Model B Plus Rev 1.3", {nic.device: nic for nic in nics or (OWN, ASIX, REALTEK)})


# The adapters were found in the other order, so the kernel exchanged their names.
EXCHANGED = board(OWN, replace(REALTEK, device="eth1"), replace(ASIX, device="eth2"))


def node(folder: Path, asix: str = "device: eth1", realtek: str = "device: eth2", text: str = LAB) -> Node:
    file = folder / "lab.yaml"
    file.write_text(text.replace("WAY1", asix).replace("WAY2", realtek))
    return load(file).nodes["pi"]


def differences(node: Node, name: str, found: FoundBoard) -> list[str]:
    nic = find(node.interface(name), found)
    assert isinstance(nic, FoundNic), nic
    return [one.message for one in compare_nic(node, node.interface(name), nic, found)]


@pytest.mark.parametrize("name", ["onboard", "asix", "realtek"])
def test_nics_as_in_the_lab_file_have_no_difference(tmp_path: Path, name: str) -> None:
    assert differences(node(tmp_path), name, board()) == []


@pytest.mark.parametrize(
    "ways",
    [
        (f"mac: '{ASIX.mac}'", f"mac: '{REALTEK.mac}'"),
        (f"bus_info: {ASIX.bus_info}", f"bus_info: {REALTEK.bus_info}"),
        (f"mac: '{ASIX.mac}', bus_info: {ASIX.bus_info}", f"mac: '{REALTEK.mac}', driver: [r8152, r8153]"),
        ("bus: usb", "bus: usb, driver: [r8152, r8153]"),
    ],
)
@pytest.mark.parametrize("found", [board(), EXCHANGED], ids=["in order", "exchanged"])
def test_an_address_finds_a_nic_whatever_its_name(tmp_path: Path, ways: tuple[str, str], found: FoundBoard) -> None:
    pi = node(tmp_path, *ways)
    for name, driver in (("asix", "ax88179_178a"), ("realtek", "r8152")):
        nic = find(pi.interface(name), found)
        assert isinstance(nic, FoundNic)
        assert nic.driver == driver
        assert compare_nic(pi, pi.interface(name), nic, found) == []


def test_driver_and_bus_find_no_nic_if_none_or_several_fit(tmp_path: Path) -> None:
    pi = node(tmp_path, realtek="bus: usb")
    where = pi.interfaces[2].where
    none = find(pi.interface("realtek"), board(ASIX, replace(REALTEK, bus="pci")))
    assert isinstance(none, Mismatch)
    assert none.message.startswith("there is no NIC with driver r8152 on bus usb; the NICs there: eth1 (driver ax88179")
    assert none.act == (
        f"plug the NIC in, load its driver, or correct `driver:` and `bus:` in {where}; "
        "`pinet discover` prints the lines for the lab file"
    )
    several = find(pi.interface("realtek"), board(OWN, REALTEK, replace(REALTEK, device="eth3", mac=ASIX.mac)))
    assert several == Mismatch(
        "more than one NIC with driver r8152 on bus usb: "
        "eth2 (driver r8152, bus_info usb-3f980000.usb-1.1.3, MAC 00:e0:4c:00:00:03) and "
        "eth3 (driver r8152, bus_info usb-3f980000.usb-1.1.3, MAC a0:ce:c8:00:00:02)",
        f"give this NIC its `mac:` instead of `bus:` in {where}; `pinet discover` prints the lines for the lab file",
    )


def test_by_driver_and_bus_an_adapter_with_the_chip_of_the_onboard_nic_is_not_taken_for_it(tmp_path: Path) -> None:
    text = LAB.replace("ax88179", "evb").replace("port: s/p1", "port: s/p1, bus: usb")
    text = text.replace("pinet:\n", "pinet:\n  nics: {evb: {driver: lan78xx, bus: usb2, speeds_mbps: [1000]}}\n")
    pi = node(tmp_path, "bus: usb", text=text)
    evb = replace(ASIX, driver="lan78xx")
    assert [find(pi.interface(name), board(OWN, evb)) for name in ("onboard", "asix")] == [OWN, evb]
    # Without the alias of the device tree, both fit both.
    blind = board(replace(OWN, is_own=False), evb)
    assert all(isinstance(find(pi.interface(name), blind), Mismatch) for name in ("onboard", "asix"))


def test_a_virtio_nic_is_on_the_bus_pci(tmp_path: Path) -> None:
    text = LAB.replace("ax88179", "v").replace("pi3b+", "pi5")
    text = text.replace("pinet:\n", "pinet:\n  nics: {v: {driver: virtio_net, bus: pcie2x1, speeds_mbps: [1000]}}\n")
    virtio = FoundNic("eth7", "02:00:00:00:00:07", None, "virtio_net", "virtio", "0000:00:02.0")
    assert find(node(tmp_path, "bus: pci", text=text).interface("asix"), board(OWN, virtio)) == virtio


def test_two_adapters_with_exchanged_names_are_named(tmp_path: Path) -> None:
    pi = node(tmp_path)
    assert differences(pi, "asix", EXCHANGED) == [
        "eth1 has driver r8152, but ax88179 needs ax88179_178a; it fits pi:realtek, so their names may be exchanged"
    ]
    assert differences(pi, "realtek", EXCHANGED) == [
        "eth2 has driver ax88179_178a, but rtl8153 needs r8152; it fits pi:asix, so their names may be exchanged"
    ]


def test_two_adapters_of_one_kind_that_exchanged_their_sockets_are_told_apart_by_the_address(tmp_path: Path) -> None:
    text = LAB.replace("rtl8153", "ax88179")
    ways = [f"mac: '{nic.mac}', bus_info: {nic.bus_info}" for nic in (ASIX, REALTEK)]
    second = replace(REALTEK, driver="ax88179_178a")
    swapped = board(OWN, replace(ASIX, bus_info=second.bus_info), replace(second, bus_info=ASIX.bus_info))
    pi = node(tmp_path, ways[0], ways[1], text=text)
    for name, other in (("asix", "realtek"), ("realtek", "asix")):
        (message,) = differences(pi, name, swapped)
        assert "is at bus_info usb-3f980000.usb-1.1." in message
        assert message.endswith(f"; it fits pi:{other}, so their names may be exchanged")


def test_an_adapter_in_another_socket_is_a_difference(tmp_path: Path) -> None:
    pi = node(tmp_path, f"mac: '{ASIX.mac}', bus_info: usb-3f980000.usb-1.2")
    assert differences(pi, "asix", board()) == [
        "eth1 is at bus_info usb-3f980000.usb-1.1.2, but the lab file has ax88179 at usb-3f980000.usb-1.2"
    ]


def test_a_vanished_nic_is_named_with_the_nics_that_are_there(tmp_path: Path) -> None:
    gone = board(OWN, ASIX)
    for way, what in (
        ("device: eth2", "network device eth2"),
        (f"mac: '{REALTEK.mac}'", "NIC with MAC 00:e0:4c:00:00:03"),
        (f"bus_info: {REALTEK.bus_info}", "NIC with bus_info usb-3f980000.usb-1.1.3"),
    ):
        pi = node(tmp_path, realtek=way)
        missing = find(pi.interface("realtek"), gone)
        assert isinstance(missing, Mismatch)
        assert missing.message == (
            f"there is no {what}; the NICs there: "
            "eth0 (driver lan78xx, bus_info usb-3f980000.usb-1.1.1, MAC b8:27:eb:00:00:01), "
            "eth1 (driver ax88179_178a, bus_info usb-3f980000.usb-1.1.2, MAC a0:ce:c8:00:00:02)"
        )
        key = way.partition(":")[0]
        assert missing.act.startswith(
            f"plug the NIC in, load its driver, or correct `{key}:` in {pi.interfaces[2].where}"
        )


def test_the_onboard_nic_is_found_by_the_device_tree(tmp_path: Path) -> None:
    found = board(replace(ASIX, device="eth0"), replace(OWN, device="eth1"), REALTEK)
    nic = find(node(tmp_path).interface("onboard"), found)
    assert isinstance(nic, FoundNic)
    assert nic.device == "eth1"
    # Without a device tree, and with the name in the lab file, the name decides.
    blind = board(replace(OWN, is_own=False), ASIX, REALTEK)
    assert find(node(tmp_path).interface("onboard"), blind) == blind.nics["eth0"]
    named = node(tmp_path, text=LAB.replace("port: s/p1", "port: s/p1, device: eth0"))
    assert find(named.interface("onboard"), found) == found.nics["eth0"]


def test_an_adapter_with_the_chip_of_the_onboard_nic_is_not_taken_for_it(tmp_path: Path) -> None:
    text = LAB.replace("port: s/p1", "port: s/p1, device: eth0").replace("ax88179", "evb")
    text = text.replace("pinet:\n", "pinet:\n  nics: {evb: {driver: lan78xx, bus: usb2, speeds_mbps: [1000]}}\n")
    evb = replace(ASIX, driver="lan78xx")
    exchanged = board(replace(evb, device="eth0"), replace(OWN, device="eth1"), REALTEK)
    pi = node(tmp_path, text=text)
    assert differences(pi, "onboard", exchanged) == [
        "eth0 is not the board's own NIC, which is eth1; it fits pi:asix, so their names may be exchanged"
    ]
    assert differences(pi, "asix", exchanged) == [
        "eth1 is the board's own NIC, but the lab file has evb; it fits pi:onboard, so their names may be exchanged"
    ]


def test_a_vlan_with_the_same_address_is_not_the_nic(tmp_path: Path) -> None:
    pi = node(tmp_path, f"mac: '{ASIX.mac}'")
    vlan = FoundNic("eth1.7", ASIX.mac, None, "802.1Q VLAN Support", is_stacked=True)
    assert find(pi.interface("asix"), board(OWN, vlan, ASIX, REALTEK)) == ASIX


def test_the_permanent_address_counts_before_the_present_one(tmp_path: Path) -> None:
    pi = node(tmp_path, f"mac: '{ASIX.mac}'")
    # A network manager gave the adapters random addresses, one of them that of the other.
    asix = replace(ASIX, mac="02:00:00:00:00:09", permanent_mac=ASIX.mac)
    realtek = replace(REALTEK, mac=ASIX.mac, permanent_mac=REALTEK.mac)
    assert find(pi.interface("asix"), board(OWN, realtek, asix)) == asix


def test_two_nics_with_one_address_are_not_chosen_from(tmp_path: Path) -> None:
    pi = node(tmp_path, f"bus_info: {ASIX.bus_info}")
    twins = board(OWN, ASIX, replace(ASIX, device="eth3", mac="a0:ce:c8:00:00:04"))
    found = find(pi.interface("asix"), twins)
    assert isinstance(found, Mismatch)
    assert found.message.startswith("more than one NIC with bus_info usb-3f980000.usb-1.1.2: eth1 (")
    assert found.act.startswith("give this NIC its `mac:` in ")
    # The driver decides, if only one has it.
    assert find(pi.interface("asix"), board(ASIX, replace(ASIX, device="eth3", driver="cdc_ncm"))) == ASIX


def test_what_the_node_or_the_catalogue_does_not_know_is_not_compared(tmp_path: Path) -> None:
    pi = node(tmp_path)
    assert differences(pi, "asix", board(OWN, FoundNic("eth1"), REALTEK)) == []
    unknown = node(tmp_path, text=LAB.replace("ax88179", "usb-100m"))
    assert differences(unknown, "asix", board()) == []


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("pib", "Raspberry Pi Model B Rev 2"),
        ("pi2b", "Raspberry Pi 2 Model B Rev 1.2"),
        ("pi3b", "Raspberry Pi 3 Model B Rev 1.2"),
        ("pi3b+", "Raspberry Pi 3 Model B Plus Rev 1.3"),
        ("pi3b+", "Raspberry Pi 3 Model B+"),
        ("pi4b", "Raspberry Pi 4 Model B Rev 1.5"),
        ("pi400", "Raspberry Pi 400 Rev 1.0"),
        ("cm4", "Raspberry Pi Compute Module 4 Rev 1.1"),
        ("cm4", "Raspberry Pi Compute Module 4 IO Board"),
        ("pi5", "Raspberry Pi 5 Model B Rev 1.0"),
        ("pi500", "Raspberry Pi 500 Rev 1.0"),
        ("cm5", "Raspberry Pi Compute Module 5 Rev 1.0"),
        ("cm5", "Raspberry Pi Compute Module 5 Lite Rev 1.0"),
        ("cm5", "Raspberry Pi Compute Module 5 on Raspberry Pi Compute Module 5 IO Board"),
    ],
)
def test_each_model_fits_its_board_and_no_other(tmp_path: Path, name: str, model: str) -> None:
    pi = node(tmp_path)
    fits = [b.name for b in load_catalogue().boards.values() if not compare_board(replace(pi, board=b), model)]
    assert fits == [name]


def test_another_board_is_named_with_the_line(tmp_path: Path) -> None:
    pi = node(tmp_path)
    (found,) = compare_board(pi, "Raspberry Pi 4 Model B Rev 1.5")
    assert found.message == (
        "the board is a 'Raspberry Pi 4 Model B Rev 1.5', the lab file has pi3b+ (Raspberry Pi 3 Model B+)"
    )
    assert found.act == f"correct `board:` in {tmp_path / 'lab.yaml'}:5, or connect the right board"
    assert compare_board(pi, None) == []


def test_a_new_board_is_compared_only_with_its_model(tmp_path: Path) -> None:
    text = LAB.replace("board: pi3b+", "board: mine")
    text = text.replace(
        "pinet:\n", "pinet:\n  boards: {mine: {BOARD clock_mhz: 9, cores: 1, buses: [usb2], onboard: genet}}\n"
    )
    assert compare_board(node(tmp_path, text=text.replace("BOARD", "")), "Any") == []
    known = node(tmp_path, text=text.replace("BOARD", "model: Banana Pi,"))
    assert [compare_board(known, model) == [] for model in ("Banana Pi Rev 1.2", "Banana Pi 2")] == [True, False]
