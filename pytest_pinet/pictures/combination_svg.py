"""What a combination uses of a lab, as SVG: the groups of switch ports, who is on them, and who sends to whom."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.traffic import Direction
from pytest_pinet.pictures.arrows import Arrow as Flow
from pytest_pinet.pictures.arrows import arrows
from pytest_pinet.pictures.drawing import Drawing
from pytest_pinet.pictures.flow_shapes import APART, flow_shapes
from pytest_pinet.pictures.held import held, held_lines
from pytest_pinet.pictures.sheet import head_height, sheet
from pytest_pinet.pictures.stack import ROW, Panel, Row, Seat, Trunk
from pytest_pinet.pictures.stacking import stack
from pytest_pinet.pictures.style import HUES
from pytest_pinet.pictures.words import switches, traffic, wiring

_MIDDLE = 240.0
# The highest that many arrows may make each port of a mesh.
_MOST = 120.0
# With more ends in a segment each takes one line only.
_ROOMY = 12


def combination_drawing(
    lab: Lab, combination: Combination, direction: Direction, domains: Sequence[str] = ()
) -> Drawing:
    """The picture; ``domains`` are the contention domains that the combination measures in."""
    flows = arrows(combination.topology, direction)
    panels, trunks = _panels(lab, combination, flows)
    facts = [f"lab {lab.name}: {traffic(combination, direction)}"]
    facts += [f"limit {line}" for line in held_lines(held(combination, lab.limits))]
    facts.append(f"leases {', '.join(combination.places)}")
    if domains:
        facts.append(f"nothing else is measured meanwhile in contention {_domains(domains)}")
    placed = stack(panels, trunks, head_height(facts), _MIDDLE, centered=True)
    drawn = flow_shapes(combination, flows, placed)
    return sheet(combination.id, facts, placed.rect, (*placed.shapes, *drawn, *placed.labels))


def _domains(names: Sequence[str]) -> str:
    return f"{'domain' if len(names) == 1 else 'domains'} {', '.join(names)}"


def _left(combination: Combination, segment: Sequence[int]) -> set[int]:
    """The ends of a segment that are drawn on the left: the first of two, the middle of a star, half of a mesh."""
    if combination.topology.kind == "mesh":
        return set(segment[: (len(segment) + 1) // 2])
    return {segment[0]}


def _panels(lab: Lab, combination: Combination, flows: Sequence[Flow]) -> tuple[list[Panel], list[Trunk]]:
    """A panel for each switch of each segment, and the uplinks in between."""
    panels: list[Panel] = []
    trunks: list[Trunk] = []
    for index, segment in enumerate(combination.topology.segments):
        uplinks = combination.uplinks[index]
        numbers = {name: len(panels) + position for position, name in enumerate(switches(combination, index))}
        left = _left(combination, segment)
        for name, number in numbers.items():
            here = [end for end in segment if combination.ends[end].interface.port.switch == name]
            panels.append(
                Panel(
                    f"group {index + 1}",
                    f"switch {name}: {wiring(lab, name)}",
                    tuple(_seat(combination, end, number, flows) for end in here if end in left),
                    tuple(_seat(combination, end, number, flows) for end in here if end not in left),
                    f"group{index % HUES}",
                )
            )
        for cable in uplinks:
            upper, lower = sorted(numbers[port.switch] for port in cable.ports)
            trunks.append(Trunk(upper, lower, cable))
    return panels, trunks


def _seat(combination: Combination, end: int, panel: int, flows: Sequence[Flow]) -> Seat:
    height = max(ROW, APART * (1 + sum(flow.touches(end) for flow in flows)))
    if combination.topology.kind == "mesh":
        height = min(height, _MOST)
    row = Row(combination.ends[end].interface, panel, height, under_test=end == 0)
    if combination.topology.ends > _ROOMY and combination.topology.shared:
        return Seat(combination.ends[end].node, (row,), compact=True)
    return Seat(combination.ends[end].node, (row,), ("under test, " if end == 0 else "") + _part(end, flows))


def _part(end: int, flows: Sequence[Flow]) -> str:
    """What an end does: it sends, receives or forwards."""
    sends = any(end == flow.path[0] or (flow.both and end == flow.path[-1]) for flow in flows)
    receives = any(end == flow.path[-1] or (flow.both and end == flow.path[0]) for flow in flows)
    return " and ".join(word for word, does in (("sends", sends), ("receives", receives)) if does) or "forwards"
