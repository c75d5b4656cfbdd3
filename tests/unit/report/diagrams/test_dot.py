"""Labs and combinations in DOT: every node, port, cable, uplink and domain is there, and an arrow per flow."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from pytest_pinet.matrix.inventory import combination
from pytest_pinet.model.lab import Lab, PortRef
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.model.traffic import Direction
from pytest_pinet.report.diagrams.dot import combination_dot, lab_dot
from pytest_pinet.report.diagrams.text import nic, speed
from tests.support.diagram_labs import FIFTY, SWITCHES, lab_of, virtual_lab

_EDGE = re.compile(r'"(.+?)"(?::(\w+):([ew]))? -> "(.+?)"(?::(\w+):([ew]))? \[(.*)\]')
_NODE = re.compile(r'"([^>]+)" \[(.*)\]')


@pytest.fixture(params=["virtual", "several", "fifty"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    if request.param == "virtual":
        return virtual_lab()
    return lab_of(tmp_path, {"several": SWITCHES, "fifty": FIFTY}[request.param])


def nodes(dot: str) -> dict[str, str]:
    """Return the attributes of each node by its id."""
    found = [(match[1], match[2]) for line in dot.splitlines() if (match := _NODE.fullmatch(line))]
    assert len(dict(found)) == len(found), "each node stands there once"
    return dict(found)


def flows(dot: str) -> list[tuple[str, str, str]]:
    """Return sender, receiver and attributes of each arrow."""
    edges = [match for line in dot.splitlines() if (match := _EDGE.fullmatch(line))]
    return [(edge[1], edge[4], edge[7]) for edge in edges if "dir=none" not in edge[7]]


def cables(dot: str) -> list[tuple[set[str], str]]:
    """Return the text of both ends and the attributes of each cable."""
    boxes = nodes(dot)

    def end(node: str, port: str) -> str:
        (text,) = re.findall(rf'<td[^>]* port="{port}"[^>]*>(.*?)</td>', boxes[node])
        return f"{node} {text}"

    edges = [match for line in dot.splitlines() if (match := _EDGE.fullmatch(line))]
    return [({end(e[1], e[2]), end(e[4], e[5])}, e[7]) for e in edges if "dir=none" in e[7]]


def plug(port: PortRef) -> str:
    return f"switch {port.switch} {escape(port.port)}"


def test_a_lab_shows_every_node_port_cable_uplink_and_domain(lab: Lab) -> None:
    dot = lab_dot(lab, lab.domains)
    assert set(nodes(dot)) == {f"node {name}" for name in lab.nodes} | {f"switch {name}" for name in lab.switches}
    expected = [
        (f"node {i.node} {i.name}: {nic(i)}, {i.device}", plug(i.port), f'label="{speed(i.speed_mbps)}"')
        for i in lab.interfaces()
    ]
    expected += [
        (plug(cable.ports[0]), plug(cable.ports[1]), f'label="{cable.name}, {speed(cable.speed_mbps)}"')
        for cable in lab.uplinks.values()
    ]
    found = cables(dot)
    assert len(found) == len(expected)
    for one, other, label in expected:
        (attributes,) = [attributes for ends, attributes in found if ends == {one, other}]
        assert label in attributes
    for domain, members in lab.domains.items():
        assert f"{domain}: {'all nodes' if len(members) == len(lab.nodes) else ', '.join(members)}" in dot


def test_free_ports_and_domains_stand_beside_their_switch_and_node(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, SWITCHES)
    boxes = nodes(lab_dot(lab, lab.domains))
    assert "free: p3-p22<" in boxes["switch core"]
    assert "domain air<" in boxes["node c"]
    switch = lab.switches["rack-a"]
    unusual = replace(lab, switches={**lab.switches, "rack-a": replace(switch, ports=(*switch.ports, '<a&"b">'))})
    assert "&lt;a&amp;&quot;b&quot;&gt;" in nodes(lab_dot(unusual, lab.domains))["switch rack-a"]


def test_nodes_stand_on_both_sides_of_their_switch() -> None:
    edges = [match for line in lab_dot(virtual_lab(), {}).splitlines() if (match := _EDGE.fullmatch(line))]
    sides = Counter("left" if edge[1].startswith("node ") else "right" for edge in edges)
    assert sides == {"left": 7, "right": 4}


def test_a_combination_names_ends_ports_rates_limit_and_leases() -> None:
    lab = virtual_lab()
    dot = combination_dot(lab, combination(lab, "pi4b:onboard/incast:5"), Direction.RX, ["host"])
    boxes = nodes(dot)
    assert len(boxes) == 6
    assert boxes["pi4b-1:onboard"].startswith(
        'label="pi4b-1:onboard, under test\\lpi4b, genet, eth0\\lsw1/p4, 1 Gbit/s\\l"'
    )
    assert 'label="pi3b-2:onboard\\lpi3b, lan9514 on usb2, eth0\\lsw1/p3, 100 Mbit/s\\l"' in boxes["pi3b-2:onboard"]
    head = next(line for line in dot.splitlines() if line.startswith("label="))
    assert "lab virtual: 5 flows at once, rx as seen from pi4b-1:onboard" in head
    assert re.search(r"limit rx 94% \(\S+virtual.yaml:\d+\)", head)
    assert "leases cm4-1, pi3b-1, pi3b-2, pi4b-1, pi4b-2, pi5-1" in head
    assert "contention domains (no other measurement runs there): host" in head


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        (name, direction)
        for name in ("pair", "pairs:3", "opposed", "incast:5", "outcast:4", "mesh:3", "mesh:6")
        for direction in parse_topology(name).directions
    ],
)
def test_every_flow_has_an_arrow_to_its_receiver(name: str, direction: Direction) -> None:
    lab = virtual_lab()
    found = combination(lab, f"pi4b:onboard/{name}")
    expected = Counter(
        (str(found.ends[run.a]), str(found.ends[run.b]))
        if way is Direction.TX
        else (str(found.ends[run.b]), str(found.ends[run.a]))
        for run in found.topology.runs(direction)
        for way in run.direction.parts
    )
    drawn = flows(combination_dot(lab, found, direction, ()))
    both = [(receiver, sender) for sender, receiver, look in drawn if "dir=both" in look]
    assert Counter([(sender, receiver) for sender, receiver, _ in drawn] + both) == expected


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        (Direction.TX, ["pi5-1:onboard to pi4b-1:usb", "pi4b-1:onboard to pi4b-2:onboard"]),
        (Direction.RX, ["pi4b-2:onboard to pi4b-1:onboard", "pi4b-1:usb to pi5-1:onboard"]),
    ],
)
def test_a_chain_has_an_arrow_in_each_group_and_one_inside_the_node(direction: Direction, expected: list[str]) -> None:
    lab = virtual_lab()
    drawn = flows(combination_dot(lab, combination(lab, "pi4b:onboard/chain"), direction, ()))
    assert [f"{sender} to {receiver}" for sender, receiver, look in drawn if "dashed" not in look] == expected
    ((sender, receiver, look),) = [flow for flow in drawn if "dashed" in flow[2]]
    inside = (expected[0].split(" to ")[1], expected[1].split(" to ")[0])
    assert (sender, receiver) == inside
    assert 'label="forwarded inside pi4b-1"' in look


def test_groups_and_uplinks_have_their_boxes(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, SWITCHES)
    dot = combination_dot(lab, combination(lab, "pi5:onboard/mesh:5"), Direction.BIDIR, ())
    assert 'label="group 1: fixed wiring on switches rack-a, core; a VLAN of its own on switch rack-b"' in dot
    # The middle switch has none of the ends, but carries their traffic.
    assert {name for name in nodes(dot) if "switch" in name} == {
        f"group 1 switch {name}" for name in ("rack-a", "core", "rack-b")
    }
    assert 'label="uplink trunk-a: rack-a/Gi1/0/8 to core/p23, 1 Gbit/s"' in dot
    assert 'label="uplink trunk-b: core/p24 to rack-b/p8, 10 Gbit/s"' in dot


def test_pairs_have_a_group_each_in_a_colour_of_its_own() -> None:
    lab = virtual_lab()
    dot = combination_dot(lab, combination(lab, "pi4b:onboard/pairs:3"), Direction.TX, ())
    groups = re.findall(r'subgraph "cluster.*" {.*; color="(#\w+)"', dot)
    assert [re.findall(r'color="(#\w+)"', look) for _, _, look in flows(dot)] == [[hue] for hue in groups]
    assert len(set(groups)) == 3
