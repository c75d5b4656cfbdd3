"""What a lab can measure: requests, combinations, and their endpoints."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.errors import ConfigError
from pytest_pinet.lab.link.link import BENCHMARK_NET, addresses
from pytest_pinet.matrix.endpoints import EndpointSelector, NotEnoughNodes, capacity
from pytest_pinet.matrix.expansion import Missing, Request, combinations, marker_name, select_combinations
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.forms import Management
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.topology import KINDS, parse_topology
from pytest_pinet.session.arguments import read_marker
from pytest_pinet.tuning.registry import read_tunings
from tests.support import doctor_lab
from tests.support.diagram_labs import lab_of, virtual_lab
from tests.support.link_stand_in import key


@pytest.fixture(scope="module")
def lab() -> Lab:
    return virtual_lab()


def ask(boards: str = "*", nics: str = "*", topology: str = "pair") -> Request:
    return Request((boards,), (nics,), (parse_topology(topology),), ())


def found(lab: Lab, request: Request) -> list[Combination]:
    return [c for c in combinations(lab, request) if isinstance(c, Combination)]


def test_two_nodes_of_one_model_make_one_combination(lab: Lab) -> None:
    assert [c.id for c in found(lab, ask("pi3b"))] == ["pi3b:onboard/pair", "pi3b:ax88179/pair"]


def test_a_nic_can_be_named_by_chip_or_product(lab: Lab) -> None:
    for name in ("rtl8153", "cablecreation-rtl8153", "rtl81*"):
        assert "pi4b:rtl8153/pair" in [c.id for c in found(lab, ask("pi4b", name))]
    assert [c.id for c in found(lab, ask("pi4b", "genet"))] == ["pi4b:onboard/pair"]


def test_a_peer_is_another_node_that_does_not_limit_the_measurement(lab: Lab) -> None:
    for combination in found(lab, ask()):
        dut, peer = combination.dut.interface, combination.peer.interface
        assert dut.node != peer.node
        best = max(capacity(i) for i in lab.interfaces() if i.node != dut.node)
        assert capacity(peer) >= min(capacity(dut), best), combination
        if dut.bus is not Bus.USB2:
            assert peer.bus not in (Bus.USB2, Bus.USB3), combination


def test_peers_are_distributed_over_the_lab(lab: Lab) -> None:
    uses = Counter(node.name for c in found(lab, ask()) for node in c.nodes)
    assert max(uses.values()) <= 5, uses
    pairs = [frozenset(node.name for node in c.nodes) for c in found(lab, ask())]
    assert any(not a & b for a in pairs for b in pairs), "two combinations can be measured at once"


def test_a_node_alone_on_its_switch_has_no_peer(lab: Lab) -> None:
    alone = Lab(lab.name, lab.file, {"pi5-1": lab.nodes["pi5-1"]}, lab.switches)
    with pytest.raises(NotEnoughNodes):
        EndpointSelector(alone).peer(alone.interfaces()[0])
    (missing, _) = combinations(alone, ask())
    assert isinstance(missing, Missing)
    assert missing.reason == (
        "pair needs 2 nodes that reach each other over switch sw1, but lab virtual has only pi5-1 there: add a "
        "board, or the machine that runs pytest as a node with `runner: true`"
    )


def test_nodes_are_leased_in_a_fixed_order(lab: Lab) -> None:
    for combination in found(lab, ask()):
        places = [node.place for node in combination.nodes]
        assert places == sorted(places)


def test_marker_names_are_identifiers() -> None:
    assert marker_name("board", "pi3b+") == "board_pi3bplus"
    assert marker_name("nic", "usb-802.11n").isidentifier()


def test_a_limit_of_a_marker_is_for_its_board_and_nic(lab: Lab) -> None:
    request = read_marker("test_it", [pytest.mark.pinet(board="pi4b", nic=["genet", "ax88179"], min="94%").mark])
    (first, *_) = found(lab, request)
    (limit,) = request.limits_for(first)
    assert (limit.scope.board, limit.scope.nic) == ("pi4b", "onboard")
    assert limit.scope.matches(key("pi4b", "onboard"))


def test_each_argument_comes_from_the_nearest_marker_that_has_it() -> None:
    near, far = pytest.mark.pinet(nic="onboard").mark, pytest.mark.pinet(board="pi5", nic="*", min="90%").mark
    request = read_marker("test_it", [near, far])
    assert (request.boards, request.nics) == (("pi5",), ("onboard",))
    assert str(request.limits[0].minimum) == "90%"


@pytest.fixture(scope="module")
def one_port() -> Lab:
    return labfile.load(Path(__file__).parents[3] / "lab" / "single-port.yaml")


def test_a_setting_that_cuts_the_management_is_skipped_with_its_reason(one_port: Lab) -> None:
    tunings = read_tunings([{}, {"rps": "all"}, {"timestamps": "off"}, {"mtu": 9000}, {"eee": "off"}])
    request = Request(("pi4b",), ("*",), (parse_topology("pair"),), (), tunings=tunings)
    cells = combinations(one_port, request)
    assert [cell.id for cell in cells if isinstance(cell, Combination)] == [
        "pi4b:onboard/pair",
        "pi4b:onboard/pair/rps=all",
        "pi4b:onboard/pair/timestamps=off",
    ]
    assert [(cell.id, cell.reason) for cell in cells if isinstance(cell, Missing)] == [
        (
            f"pi4b:onboard/pair/{key}",
            f"{key.partition('=')[0]} may take down the link of pi4b-1:onboard, which also carries the connection to "
            "this node",
        )
        for key in ("mtu=9000", "eee=off")
    ]


def test_a_setting_of_all_ends_is_skipped_if_only_the_peer_shares_its_interface(one_port: Lab) -> None:
    nodes = dict(one_port.nodes)
    nodes["pi4b-1"] = replace(nodes["pi4b-1"], management=None)
    mixed = replace(one_port, nodes=nodes)
    (cell,) = combinations(
        mixed, Request(("pi4b",), ("*",), (parse_topology("pair"),), (), tunings=read_tunings({"mtu": 9000}))
    )
    assert isinstance(cell, Missing)
    assert "the link of pi4b-2:onboard" in cell.reason
    (cell,) = combinations(
        mixed, Request(("pi4b",), ("*",), (parse_topology("pair"),), (), tunings=read_tunings({"ring_rx": 64}))
    )
    assert isinstance(cell, Combination)


def test_a_chain_needs_ports_that_may_be_moved(lab: Lab) -> None:
    def reason(node: str) -> str:
        nodes = dict(lab.nodes)
        nodes[node] = replace(nodes[node], management=Management.parse("vlan:40"))
        ends = EndpointSelector(replace(lab, nodes=nodes))
        with pytest.raises(NotEnoughNodes) as caught:
            ends.combination(nodes["pi4b-1"].interface("usb"), parse_topology("chain"))
        return str(caught.value)

    assert reason("pi4b-1") == (
        "a chain moves all its ports to other VLANs, but pi4b-1:onboard has management: vlan:40"
    )


def ids(*names: str) -> list[str]:
    return [one.id for one in select_combinations(virtual_lab(), names)]


def test_without_names_all_pairs_are_selected() -> None:
    found = ids()
    assert found[0] == "pi3b:onboard/pair"
    assert len(found) == 9
    assert {name.rpartition("/")[2] for name in found} == {"pair"}


def test_a_glob_selects_each_match_once() -> None:
    assert ids("pi4b:onboard/pair", "pi4b:*/pair") == ["pi4b:onboard/pair", "pi4b:ax88179/pair", "pi4b:rtl8153/pair"]


def test_a_glob_can_name_another_topology() -> None:
    assert ids("pi3b:onboard/incast:3", "pi3b:on*/outcast:2") == ["pi3b:onboard/incast:3", "pi3b:onboard/outcast:2"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pi4b:onboard/pears", "no combination 'pi4b:onboard/pears' in lab virtual; did you mean 'pi4b:onboard/pair'?"),
        ("pi9*:onboard/pair", "no combination of lab virtual matches 'pi9*:onboard/pair'; did you mean 'pi5:onboard/"),
        ("pi4b:*", "'pi4b:*' names no topology; expected an id such as 'pi4b:onboard/pair' or a glob such as"),
    ],
)
def test_an_unknown_name_is_refused_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ids(name)
    assert message in str(raised.value)


def test_a_lab_of_one_node_has_no_pairs(tmp_path: Path) -> None:
    text = doctor_lab.LAB_FILE.partition("    two:")[0]
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    from pytest_pinet.config.labfile import load

    with pytest.raises(ConfigError, match=r"no two nodes that reach each other: add a board, or .* `runner: true`"):
        select_combinations(load(file), ())


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


def ends_of(lab: Lab, node: str, topology: str, interface: str = "onboard") -> Combination:
    return EndpointSelector(lab).combination(lab.nodes[node].interface(interface), parse_topology(topology))


def names(combination: Combination) -> list[str]:
    return [str(end) for end in combination.ends]


def test_a_peer_on_the_same_switch_is_preferred(tmp_path: Path) -> None:
    found = ends_of(lab_of(tmp_path, TWO_SWITCHES + UPLINK), "a", "pair")
    assert names(found) == ["a:onboard", "b:onboard"]
    assert found.uplinks == ((),)
    assert found.places == ("a", "b")


def test_a_peer_behind_an_uplink_is_used_and_the_uplink_is_leased(tmp_path: Path) -> None:
    found = ends_of(lab_of(tmp_path, TWO_SWITCHES + UPLINK), "a", "incast:3")
    assert names(found) == ["a:onboard", "b:onboard", "c:onboard", "d:onboard"]
    assert [uplink.name for uplink in found.uplinks[0]] == ["trunk"]
    assert found.places == ("a", "b", "c", "d", "trunk")


def test_without_an_uplink_the_lab_has_too_few_nodes(tmp_path: Path) -> None:
    reason = "incast:3 needs 4 nodes that reach each other over switch left, but lab lab has only a and b there"
    with pytest.raises(NotEnoughNodes, match=reason):
        ends_of(lab_of(tmp_path, TWO_SWITCHES), "a", "incast:3")


def test_pairs_stay_on_their_switch(tmp_path: Path) -> None:
    found = ends_of(lab_of(tmp_path, TWO_SWITCHES + UPLINK), "a", "pairs:2")
    assert names(found) == ["a:onboard", "b:onboard", "c:onboard", "d:onboard"]
    assert found.uplinks == ((), ())


def test_an_uplink_carries_one_segment(tmp_path: Path) -> None:
    text = (TWO_SWITCHES + UPLINK).replace("right/p2", "left/p4").replace("left/p3", "right/p2")
    # a and d are on the left switch, b and c on the right. a's pair stays left; its second and first NIC must go right.
    moved = text.replace("left/p4", "right/p4")
    with pytest.raises(NotEnoughNodes, match="chain needs uplink trunk for two segments, but an uplink carries"):
        ends_of(lab_of(tmp_path, moved), "a", "chain")


def test_a_chain_forwards_between_two_nics_of_one_node(lab: Lab) -> None:
    found = ends_of(lab, "pi4b-1", "chain", "usb")
    assert names(found)[0] == "pi4b-1:usb"
    assert found.ends[2].node.name == "pi4b-1"
    assert len(found.nodes) == 3


def test_a_chain_needs_a_second_nic(lab: Lab) -> None:
    with pytest.raises(NotEnoughNodes, match="a chain forwards between two NICs of one node, but pi3b-2 has only one"):
        ends_of(lab, "pi3b-2", "chain")


@pytest.mark.parametrize("topology", [kind if kind != "pairs" else "pairs:3" for kind in KINDS])
def test_each_node_takes_part_once(lab: Lab, topology: str) -> None:
    found = ends_of(lab, "pi4b-1", topology)
    assert len({end.node.name for end in found.ends}) == found.topology.nodes


def test_the_choice_is_the_same_every_time(lab: Lab) -> None:
    for topology in ("pair", "pairs:3", "incast:4", "chain", "mesh:4"):
        assert ends_of(lab, "pi5-1", topology) == ends_of(lab, "pi5-1", topology)


@pytest.mark.parametrize("topology", ["pair", "pairs:3", "incast:5", "mesh:3", "opposed"])
def test_all_ends_of_a_segment_share_one_subnet(lab: Lab, topology: str) -> None:
    found = addresses(ends_of(lab, "pi4b-1", topology))
    assert len(set(found)) == len(found) == parse_topology(topology).ends
    (network,) = {address.network for address in found}
    assert network.subnet_of(BENCHMARK_NET)
    assert all(address.ip in list(network.hosts()) for address in found)


def test_a_pair_has_a_subnet_of_two_addresses(lab: Lab) -> None:
    assert {address.network.prefixlen for address in addresses(ends_of(lab, "pi4b-1", "pair"))} == {30}


def test_the_two_sides_of_a_forwarding_node_are_two_subnets(lab: Lab) -> None:
    dut, near, second, far = addresses(ends_of(lab, "pi4b-1", "chain"))
    assert dut.network == near.network != second.network == far.network


def test_a_fast_peer_over_an_uplink_is_preferred_to_a_slow_one_nearby(tmp_path: Path) -> None:
    slow = (TWO_SWITCHES + UPLINK).replace("b: {board: pi4b, ", "b: {board: pi3b, ")
    found = ends_of(lab_of(tmp_path, slow), "a", "pair")
    assert names(found) == ["a:onboard", "c:onboard"]
    assert found.places == ("a", "c", "trunk")


def test_in_further_pairs_the_slower_end_is_the_device_under_test(lab: Lab) -> None:
    for topology in ("opposed", "pairs:3"):
        found = ends_of(lab, "cm4-1", topology, "pcie")
        assert names(found)[:2] == ["cm4-1:pcie", "pi5-1:pcie"], "the fastest opposite of the fastest"
        for first, second in zip(found.ends[2::2], found.ends[3::2], strict=True):
            assert capacity(first.interface) <= capacity(second.interface)
