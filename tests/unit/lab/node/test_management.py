"""The way of our ssh connection into a node, from the output of its shell.

The lines have the format of ``ip`` (iproute2 6.1) and /sys (kernel 6.1).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LinkError
from pytest_pinet.lab.node.management import FoundManagement, check_declared, find_management, parse
from pytest_pinet.model.forms import Management
from pytest_pinet.model.lab import Node
from tests.support.board_tree import BoardTree

ADDRESSES = (
    "address lo 127.0.0.1/8\naddress eth0 192.168.1.7/24\naddress eth0 fe80::1/64\naddress wlan0 192.168.1.8/24\n"
)


def found(server: str, more: str = "", route: str = "") -> FoundManagement:
    return parse(f"server {server}\n{route and 'route ' + route}\n{ADDRESSES}{more}")


def test_ssh_by_the_address_of_a_nic_uses_this_nic() -> None:
    way = found("192.168.1.7", route="192.168.1.2 from 192.168.1.7 dev eth0 uid 0     cache")
    assert (way.device, way.carriers, way.vlan, way.wifi) == ("eth0", frozenset({"eth0"}), None, False)


@pytest.mark.parametrize("server", ["fe80::1%eth0", "::ffff:192.168.1.7", "fe80::1"])
def test_addresses_are_found_in_every_form(server: str) -> None:
    assert found(server).device == "eth0"


def test_a_bridge_is_carried_by_all_its_ports() -> None:
    more = "address br0 10.0.0.7/24\nlower br0 eth0\nlower br0 eth1\npart eth0 /sys/devices/virtual/net/br0\n"
    way = found("10.0.0.7", more)
    assert (way.device, way.carriers, way.parts) == ("br0", frozenset({"br0", "eth0", "eth1"}), {"eth0": "br0"})


def test_the_nic_of_an_nfs_root_carries_the_node_as_much_as_ssh(node: Node) -> None:
    root = "root eth0\n"
    by_wifi = found("192.168.1.8", f"{root}wifi wlan0\n")
    assert (by_wifi.device, by_wifi.carriers) == ("wlan0", frozenset({"wlan0", "eth0"}))
    assert (str(by_wifi.of(node)), str(found("192.168.1.8", "wifi wlan0\n").of(node))) == ("same", "wifi")
    assert by_wifi.words(node) == "comes in by wlan0 (Wi-Fi) and uses eth0; the root file system uses eth0"
    vlan = "address eth0.7 10.7.0.7/24\nlower eth0.7 eth0\neth0.7  VID: 7\t REORDER_HDR: 1\n"
    assert str(found("10.7.0.7", vlan).of(node)) == "vlan:7"
    assert str(found("10.7.0.7", vlan + root).of(node)) == "same"
    assert str(found("10.7.0.7", vlan + root.replace("eth0", "eth0.7")).of(node)) == "vlan:7"


@pytest.mark.parametrize(
    ("mount", "words", "devices"),
    [
        ("10.0.0.1:/srv / nfs4 rw,vers=4.2,addr=10.0.0.1 0 0", "", {"eth0"}),
        ("overlayroot / overlay rw,lowerdir=/nfs 0 0", "root=/dev/nfs nfsroot=10.0.0.1:/srv", {"eth0"}),
        ("overlayroot / overlay rw,lowerdir=/nfs 0 0", "root=/dev/nfs", {"eth0", "eth1", "wlan0"}),
        ("overlayroot / overlay rw,lowerdir=/sd 0 0", "root=/dev/mmcblk0p2", set()),
    ],
)
def test_the_nic_of_an_nfs_root_is_found_also_below_an_overlay(
    tmp_path: Path, mount: str, words: str, devices: set[str]
) -> None:
    tree = BoardTree(tmp_path)
    for device in ("eth0", "eth1", "wlan0", "lo"):
        tree.plain(device, "b8:27:eb:00:00:01")
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/self/mounts").write_text(f"{mount}\n")
    (tmp_path / "proc/cmdline").write_text(f"{words} rootwait\n")
    ip = tmp_path / "bin/ip"
    ip.write_text('#!/bin/sh\n[ "$*" != "-o route get 10.0.0.1" ] || echo "10.0.0.1 dev eth0 src 10.0.0.2 uid 0"\n')
    ip.chmod(0o755)
    assert find_management(tree.shell(), {}, str(tmp_path)).carriers == devices


def test_a_vlan_on_a_bond_is_carried_by_the_nics_of_the_bond() -> None:
    more = (
        "address bond0.40 10.0.0.7/24\nlower bond0.40 bond0\nlower bond0 eth0\nlower bond0 eth1\n"
        "7: bond0.40@bond0: <BROADCAST,UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default qlen 1000\\    "
        "link/ether dc:a6:32:00:00:01 brd ff:ff:ff:ff:ff:ff promiscuity 0 \\    vlan protocol 802.1Q id 40 "
        "<REORDER_HDR> addrgenmode eui64 numtxqueues 1\n"
    )
    way = found("10.0.0.7", more)
    assert (way.carriers, way.vlan) == (frozenset({"bond0.40", "bond0", "eth0", "eth1"}), 40)


def test_the_number_of_a_vlan_is_found_without_iproute2() -> None:
    more = "address mgmt 10.0.0.7/24\nlower mgmt eth0\nmgmt  VID: 4000\t REORDER_HDR: 1  dev->priv_flags: 1\n"
    assert found("10.0.0.7", more).vlan == 4000


def test_a_nic_that_has_a_vlan_shares_the_hardware_of_the_vlan() -> None:
    more = "address eth0.5 10.0.0.7/24\nlower eth0.5 eth0\nlower eth0.6 eth0\naddress eth0.6 10.0.1.7/24\n"
    assert found("10.0.0.7", more).carriers == {"eth0.5", "eth0", "eth0.6"}


def test_the_way_back_counts_if_it_uses_another_nic() -> None:
    way = found("192.168.1.8", "wifi wlan0\n", "192.168.1.2 from 192.168.1.8 dev eth0 uid 0     cache")
    assert (way.device, way.carriers, way.wifi) == ("wlan0", frozenset({"wlan0", "eth0"}), True)


@pytest.mark.parametrize("server", ["127.0.0.1", "203.0.113.9", ""])
def test_a_connection_by_a_relay_uses_no_nic(server: str) -> None:
    way = found(server, route="127.0.0.1 from 127.0.0.1 dev lo uid 0")
    assert (way.device, way.carriers) == ("", frozenset())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    file = tmp_path / "lab.yaml"
    file.write_text(
        """\
pinet:
  switches:
    sw1: {backend: fixed, ports: p1-p4}
  nodes:
    a:
      board: pi4b
      interfaces: {usb: {nic: ax88179, port: sw1/p2}, onboard: {port: sw1/p1}}
"""
    )
    return load(file).nodes["a"]


def declared(node: Node, text: str) -> Node:
    return replace(node, management=Management.parse(text))


BY_ETH0 = FoundManagement("eth0", frozenset({"eth0"}))
BY_ETH1 = FoundManagement("eth1", frozenset({"eth1"}))
BY_VLAN = FoundManagement("eth0.40", frozenset({"eth0", "eth0.40"}), vlan=40)
BY_WIFI = FoundManagement("wlan0", frozenset({"wlan0"}), wifi=True)
BY_RELAY = FoundManagement()


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("same", BY_ETH0),
        ("vlan:40", BY_VLAN),
        ("wifi", BY_WIFI),
        ("separate", BY_RELAY),
        ("separate", FoundManagement("eth9", frozenset({"eth9"}))),
    ],
)
def test_what_the_lab_file_says_and_what_is_found_agree(node: Node, text: str, way: FoundManagement) -> None:
    check_declared(declared(node, text), way)


@pytest.mark.parametrize(
    ("text", "way", "says"),
    [
        ("separate", BY_ETH0, "`management: separate` for a, but ssh comes in by eth0\n  -> write `management: same`"),
        (
            "same",
            BY_WIFI,
            "`management: same` of eth0 for a, but ssh comes in by wlan0 (Wi-Fi)\n  -> write `management: wifi`",
        ),
        (
            "same",
            BY_RELAY,
            "but ssh comes in by a relay, not by an interface of the node\n  -> write `management: separate`",
        ),
        ("same", BY_VLAN, "but ssh comes in by eth0.40 (VLAN 40) and uses eth0\n  -> write `management: vlan:40`"),
        ("vlan:41", BY_VLAN, "`management: vlan:41` of eth0 for a, but ssh comes in by eth0.40 (VLAN 40)"),
        ("wifi", BY_ETH0, "`management: wifi` for a, but ssh comes in by eth0\n"),
        ("separate", BY_WIFI, "but ssh comes in by wlan0 (Wi-Fi)\n  -> write `management: wifi`"),
        ("same", BY_ETH1, "`management: same` of eth0 for a, but ssh comes in by eth1\n  -> make a:onboard carry ssh"),
    ],
)
def test_a_contradiction_is_one_sentence(node: Node, text: str, way: FoundManagement, says: str) -> None:
    with pytest.raises(LinkError) as caught:
        check_declared(declared(node, text), way)
    assert says in str(caught.value)
    assert "NetworkService" in str(caught.value)


def test_a_lab_file_that_says_nothing_contradicts_nothing(node: Node) -> None:
    check_declared(node, BY_ETH0)


def test_the_shared_interface_is_the_onboard_one_or_else_the_first(node: Node) -> None:
    assert node.carrying is None
    assert str(declared(node, "same").carrying) == "a:onboard"
    without = replace(node, interfaces=node.interfaces[:1])
    assert str(declared(without, "vlan:40").carrying) == "a:usb"
    assert declared(node, "wifi").carrying is None
