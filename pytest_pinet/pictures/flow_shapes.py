"""The arrows of a combination's traffic: from port to port, and inside a node that forwards."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.combination import Combination
from pytest_pinet.pictures.arrows import Arrow as Flow
from pytest_pinet.pictures.drawing import Arrow, Shape
from pytest_pinet.pictures.stack import ROW, Plug, Stack
from pytest_pinet.pictures.style import HUES

# Pixels between the heads of arrows at one port.
APART = 12.0

_Hop = tuple[int, int]


def flow_shapes(combination: Combination, flows: Sequence[Flow], placed: Stack) -> list[Shape]:
    """An arrow for each part of each flow's way, in the colour of its group of ports."""
    plugs = [placed.plugs[end.interface] for end in combination.ends]
    hops = [(hop, flow.both) for flow in flows for hop in flow.hops]
    ways = [hop for hop, _ in hops]
    shapes: list[Shape] = []
    for (a, b), both in hops:
        group = next(i for i, segment in enumerate(combination.topology.segments) if a in segment) % HUES
        start, end = (_attached(plugs, ways, at, (a, b)) for at in (a, b))
        name = f"{combination.ends[a]} {'to and from' if both else 'to'} {combination.ends[b]}"
        shapes.append(Arrow(start, end, _bend(plugs, start, end, (a, b)), f"hue{group}", both, name))
    for flow in flows:
        for a, b in flow.forwarded:
            shapes.append(_inside(combination, placed, a, b, flow.both))
    return shapes


def _attached(plugs: Sequence[Plug], ways: Sequence[_Hop], at: int, hop: _Hop) -> tuple[float, float]:
    """Where an arrow meets a port: all that do so stand in the order of their other ends."""
    here = [way for way in ways if at in way]
    here.sort(key=lambda way: plugs[_other(way, at)].y)
    plug = plugs[at]
    apart = min(APART, plug.height / (len(here) + 1))
    return plug.x, plug.y + (here.index(hop) - (len(here) - 1) / 2) * apart


def _other(hop: _Hop, at: int) -> int:
    return hop[1] if hop[0] == at else hop[0]


def _bend(plugs: Sequence[Plug], start: tuple[float, float], end: tuple[float, float], hop: _Hop) -> float:
    """Half way across; an arrow that returns to its own side swings out the more, the farther it goes."""
    a, b = (plugs[index] for index in hop)
    if a.right != b.right:
        return (start[0] + end[0]) / 2
    out = min(40 + 0.45 * abs(start[1] - end[1]), 150.0)
    return start[0] - out if a.right else start[0] + out


def _inside(combination: Combination, placed: Stack, a: int, b: int, both: bool) -> Arrow:
    node = placed.nodes[combination.ends[a].node.name]
    ys = [placed.plugs[combination.ends[index].interface].y for index in (a, b)]
    # Beside the node's words, from below the one row to above the other.
    x = node.right - 28
    step = ROW / 2 if ys[1] > ys[0] else -ROW / 2
    name = f"{combination.ends[a]} {'to and from' if both else 'to'} {combination.ends[b]}, forwarded"
    return Arrow((x, ys[0] + step), (x, ys[1] - step), None, "inside", both, name)
