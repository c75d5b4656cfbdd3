"""A lab as SVG: its switches in the middle, the nodes around them, each cable from port to port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.model.lab import Lab, Node
from pytest_pinet.pictures.drawing import Drawing
from pytest_pinet.pictures.lab_text import domain_members, lab_summary
from pytest_pinet.pictures.sheet import head_height, sheet
from pytest_pinet.pictures.stack import Panel, Row, Seat, Trunk
from pytest_pinet.pictures.stacking import stack
from pytest_pinet.pictures.words import count, free_ports, ranges
from pytest_pinet.report.fit import wrap

_MIDDLE = 90.0
_FREE_WIDTH, _FREE_LINES = 46, 3


def lab_drawing(lab: Lab, domains: Mapping[str, Sequence[str]]) -> Drawing:
    """The picture; ``domains`` are the nodes of each contention domain."""
    order = list(lab.switches)
    homes: dict[str, list[Node]] = {name: [] for name in order}
    for node in lab.nodes.values():
        homes[node.interfaces[0].port.switch].append(node)
    panels = [_panel(lab, name, homes[name], order, domains) for name in order]
    trunks = []
    for uplink in lab.uplinks.values():
        upper, lower = sorted(order.index(port.switch) for port in uplink.ports)
        trunks.append(Trunk(upper, lower, uplink))
    facts = [lab_summary(lab).partition(": ")[2]]
    if domains:
        named = "; ".join(f"{name}: {domain_members(lab, members)}" for name, members in domains.items())
        facts.append(f"one measurement at a time in each contention domain: {named}")
    placed = stack(panels, trunks, head_height(facts), _MIDDLE, centered=False)
    return sheet(f"lab {lab.name}", facts, placed.rect, (*placed.shapes, *placed.labels))


def _panel(
    lab: Lab, name: str, nodes: Sequence[Node], order: Sequence[str], domains: Mapping[str, Sequence[str]]
) -> Panel:
    switch = lab.switches[name]
    seats = [_seat(lab, node, order, domains) for node in nodes]
    total = sum(seat.height for seat in seats)
    # As many to the left as make about half of the height, in the order of the file.
    left: list[Seat] = []
    while len(left) < len(seats) and sum(seat.height for seat in left) + seats[len(left)].height / 2 <= total / 2:
        left.append(seats[len(left)])
    free = ranges(free_ports(lab, name))
    foot = wrap(f"free: {', '.join(free)}", width=_FREE_WIDTH, lines=_FREE_LINES) if free else []
    subtitle = f"{switch.backend}, {count(len(switch.ports), 'port')}"
    return Panel(f"switch {name}", subtitle, tuple(left), tuple(seats[len(left) :]), foot=tuple(foot))


def _seat(lab: Lab, node: Node, order: Sequence[str], domains: Mapping[str, Sequence[str]]) -> Seat:
    rows = tuple(Row(interface, order.index(interface.port.switch)) for interface in node.interfaces)
    # A domain of all nodes stands in the head.
    own = [name for name, members in domains.items() if node.name in members and set(members) != set(lab.nodes)]
    return Seat(node, rows, f"domain {', '.join(own)}" if own else "")
