"""Draws a combination in DOT: the groups of switch ports, their interfaces, and the flows between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.traffic import Direction
from pytest_pinet.report.diagrams.arrows import arrows
from pytest_pinet.report.diagrams.dot import edge, graph, quoted
from pytest_pinet.report.diagrams.held import held, held_lines
from pytest_pinet.report.diagrams.labels import group, nic, speed, switches, traffic

# One colour per group of ports. With more groups the colours repeat.
_HUES = ("#0969da", "#1a7f37", "#8250df", "#bc4c00", "#0e7490", "#bf3989")


def combination_dot(lab: Lab, combination: Combination, direction: Direction, domains: Sequence[str]) -> str:
    """Return the DOT text. ``domains`` are the contention domains that the combination measures in."""
    facts = [f"lab {lab.name}: {traffic(combination, direction)}"]
    facts += [f"limit {line}" for line in held_lines(held(combination, lab.limits))]
    facts.append(f"leases {', '.join(combination.places)}")
    facts += [f"contention domains, nothing else is measured there meanwhile: {', '.join(domains)}"] if domains else []
    body = [line for index in range(len(combination.topology.segments)) for line in _group(lab, combination, index)]
    return graph(combination.id, facts, [*body, *_flows(combination, direction)])


def _group(lab: Lab, combination: Combination, index: int) -> Iterator[str]:
    """Yield a box with the ends of a group of ports, and with its switches if uplinks connect several."""
    label, hue = quoted(group(lab, combination, index)), _HUES[index % len(_HUES)]
    yield f'subgraph "cluster group {index + 1}" {{ label={label}; color="{hue}"; fontcolor="{hue}"'
    for number in combination.topology.segments[index]:
        yield _end(combination, number)
    names = switches(combination, index)
    ids = {name: quoted(f"group {index + 1} switch {name}") for name in names}
    if len(names) > 1:
        yield from (f"{ids[name]} [label={quoted(f'switch {name}')}]" for name in names)
    for cable in combination.uplinks[index]:
        one, other = sorted(cable.ports, key=lambda port: names.index(port.switch))
        yield edge(ids[one.switch], ids[other.switch], cable.speed_mbps, f"uplink {cable.name}: {one} to {other}")
    yield "}"


def _end(combination: Combination, number: int) -> str:
    end = combination.ends[number]
    interface = end.interface
    lines = [
        f"{interface}{', under test' if number == 0 else ''}",
        f"{end.node.board.name}, {nic(interface)}, {interface.device}",
        f"{interface.port}, {speed(interface.speed_mbps)}",
    ]
    fill = ', style=filled, fillcolor="#fff1c2"' if number == 0 else ""
    return f"{quoted(str(end))} [label={quoted(*lines)}{fill}]"


def _flows(combination: Combination, direction: Direction) -> Iterator[str]:
    """Yield an arrow for each part of each flow's path, in the colour of its group of ports."""
    for flow in arrows(combination.topology, direction):
        ways = [(hop, False) for hop in flow.hops] + [(hop, True) for hop in flow.forwarded]
        for (sender, receiver), inside in ways:
            index = next(i for i, segment in enumerate(combination.topology.segments) if sender in segment)
            look = (
                f"style=dashed, label={quoted(f'forwarded inside {combination.ends[sender].node.name}')}"
                if inside
                else f'color="{_HUES[index % len(_HUES)]}"'
            )
            both = "dir=both, " if flow.both else ""
            yield f"{quoted(str(combination.ends[sender]))} -> {quoted(str(combination.ends[receiver]))} [{both}{look}]"
