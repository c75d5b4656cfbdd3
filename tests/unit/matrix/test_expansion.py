"""The combinations of a lab, and the choice of the peer."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.matrix.endpoints import EndpointSelector, NotEnoughNodes, capacity
from pytest_pinet.matrix.expansion import Missing, Request, combinations, marker_name
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.forms import Management
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.session.arguments import read_marker
from pytest_pinet.tuning.registry import read_tunings
from tests.support.link_stand_in import key


@pytest.fixture(scope="module")
def lab() -> Lab:
    return labfile.load(Path(__file__).parents[3] / "lab" / "virtual.yaml")


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
