"""The interfaces that represent a combination, also over several switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.lab.link.link import BENCHMARK_NET, addresses
from pytest_pinet.matrix.endpoints import EndpointSelector, NotEnoughNodes, capacity
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.topology import KINDS, parse_topology

TWO_SWITCHES = """\
pinet:
  switches:
    left: {backend: fixed, ports: p1-p8}
    right: {backend: fixed, ports: p1-p8}
  nodes:
    a: {board: pi4b, interfaces: {onboard: {port: left/p1}, usb: {nic: ax88179, port: left/p2}}}
    b: {board: pi4b, interfaces: {onboard: {port: left/p3}}}
    c: {board: pi5, interfaces: {onboard: {port: right/p1}}}
    d: {board: pi5, interfaces: {onboard: {port: right/p2}}}
"""
UPLINK = "  uplinks:\n    trunk: {ports: [left/p8, right/p8], speed: 1 Gbit/s}\n"


@pytest.fixture(scope="module")
def virtual() -> Lab:
    return labfile.load(Path(__file__).parents[3] / "lab" / "virtual.yaml")


def lab(folder: Path, text: str) -> Lab:
    file = folder / "lab.yaml"
    file.write_text(text)
    return labfile.load(file)


def ends_of(lab: Lab, node: str, topology: str, interface: str = "onboard") -> Combination:
    return EndpointSelector(lab).combination(lab.nodes[node].interface(interface), parse_topology(topology))


def names(combination: Combination) -> list[str]:
    return [str(end) for end in combination.ends]


def test_a_peer_on_the_same_switch_is_preferred(tmp_path: Path) -> None:
    found = ends_of(lab(tmp_path, TWO_SWITCHES + UPLINK), "a", "pair")
    assert names(found) == ["a:onboard", "b:onboard"]
    assert found.uplinks == ((),)
    assert found.places == ("a", "b")


def test_a_peer_behind_an_uplink_is_used_and_the_uplink_is_leased(tmp_path: Path) -> None:
    found = ends_of(lab(tmp_path, TWO_SWITCHES + UPLINK), "a", "incast:3")
    assert names(found) == ["a:onboard", "b:onboard", "c:onboard", "d:onboard"]
    assert [uplink.name for uplink in found.uplinks[0]] == ["trunk"]
    assert found.places == ("a", "b", "c", "d", "trunk")


def test_without_an_uplink_the_lab_has_too_few_nodes(tmp_path: Path) -> None:
    reason = "incast:3 needs 4 nodes that reach each other over switch left, but lab lab has only a and b there"
    with pytest.raises(NotEnoughNodes, match=reason):
        ends_of(lab(tmp_path, TWO_SWITCHES), "a", "incast:3")


def test_pairs_stay_on_their_switch(tmp_path: Path) -> None:
    found = ends_of(lab(tmp_path, TWO_SWITCHES + UPLINK), "a", "pairs:2")
    assert names(found) == ["a:onboard", "b:onboard", "c:onboard", "d:onboard"]
    assert found.uplinks == ((), ())


def test_an_uplink_carries_one_segment(tmp_path: Path) -> None:
    text = (TWO_SWITCHES + UPLINK).replace("right/p2", "left/p4").replace("left/p3", "right/p2")
    # a and d are on the left switch, b and c on the right. a's pair stays left; its second and first NIC must go right.
    moved = text.replace("left/p4", "right/p4")
    with pytest.raises(NotEnoughNodes, match="chain needs uplink trunk for two segments, but an uplink carries"):
        ends_of(lab(tmp_path, moved), "a", "chain")


def test_a_chain_forwards_between_two_nics_of_one_node(virtual: Lab) -> None:
    found = ends_of(virtual, "pi4b-1", "chain", "usb")
    assert names(found)[0] == "pi4b-1:usb"
    assert found.ends[2].node.name == "pi4b-1"
    assert len(found.nodes) == 3


def test_a_chain_needs_a_second_nic(virtual: Lab) -> None:
    with pytest.raises(NotEnoughNodes, match="a chain forwards between two NICs of one node, but pi3b-2 has only one"):
        ends_of(virtual, "pi3b-2", "chain")


@pytest.mark.parametrize("topology", [kind if kind != "pairs" else "pairs:3" for kind in KINDS])
def test_each_node_takes_part_once(virtual: Lab, topology: str) -> None:
    found = ends_of(virtual, "pi4b-1", topology)
    assert len({end.node.name for end in found.ends}) == found.topology.nodes


def test_the_choice_is_the_same_every_time(virtual: Lab) -> None:
    for topology in ("pair", "pairs:3", "incast:4", "chain", "mesh:4"):
        assert ends_of(virtual, "pi5-1", topology) == ends_of(virtual, "pi5-1", topology)


@pytest.mark.parametrize("topology", ["pair", "pairs:3", "incast:5", "mesh:3", "opposed"])
def test_all_ends_of_a_segment_share_one_subnet(virtual: Lab, topology: str) -> None:
    found = addresses(ends_of(virtual, "pi4b-1", topology))
    assert len(set(found)) == len(found) == parse_topology(topology).ends
    (network,) = {address.network for address in found}
    assert network.subnet_of(BENCHMARK_NET)
    assert all(address.ip in list(network.hosts()) for address in found)


def test_a_pair_has_a_subnet_of_two_addresses(virtual: Lab) -> None:
    assert {address.network.prefixlen for address in addresses(ends_of(virtual, "pi4b-1", "pair"))} == {30}


def test_the_two_sides_of_a_forwarding_node_are_two_subnets(virtual: Lab) -> None:
    dut, near, second, far = addresses(ends_of(virtual, "pi4b-1", "chain"))
    assert dut.network == near.network != second.network == far.network


def test_a_fast_peer_over_an_uplink_is_preferred_to_a_slow_one_nearby(tmp_path: Path) -> None:
    slow = (TWO_SWITCHES + UPLINK).replace("b: {board: pi4b, ", "b: {board: pi3b, ")
    found = ends_of(lab(tmp_path, slow), "a", "pair")
    assert names(found) == ["a:onboard", "c:onboard"]
    assert found.places == ("a", "c", "trunk")


def test_in_further_pairs_the_slower_end_is_the_device_under_test(virtual: Lab) -> None:
    for topology in ("opposed", "pairs:3"):
        found = ends_of(virtual, "cm4-1", topology, "pcie")
        assert names(found)[:2] == ["cm4-1:pcie", "pi5-1:pcie"], "the fastest opposite of the fastest"
        for first, second in zip(found.ends[2::2], found.ends[3::2], strict=True):
            assert capacity(first.interface) <= capacity(second.interface)
