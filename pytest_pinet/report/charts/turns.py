"""A chart of one direction of an A/B change: the goodput of each turn, in the order of the turns."""

from __future__ import annotations

from statistics import fmean

from pytest_pinet.model.record.change import ChangeRecord
from pytest_pinet.report.charts.axis import AxisScale, rate_range
from pytest_pinet.report.charts.paper import SMALL, Paper
from pytest_pinet.report.text_wrap import rate

_STEP, _MARGIN, _TOP, _BOTTOM = 22, 14, 10, 56
_HEIGHT = 74
# A, the known-good build, is hollow; B, the build under test, is filled. Both are readable without colour.
_DOTS = {"A": "s-line hollow", "B": "f-hue0"}


def turns_chart(change: ChangeRecord, way: str) -> Paper | None:
    """Draw each turn's letter, its dot if it has a result, and a line per build's mean. Return None without results."""
    rates = _rates(change, way)
    if not rates:
        return None
    turns = {turn.number: turn.side for turn in change.turns}
    order = sorted(turns)
    words = ", ".join(f"{rates[n][0]} {rate(rates[n][1])}" for n in order if n in rates)
    paper = Paper(2 * _MARGIN + _STEP * (len(order) - 1), _HEIGHT, f"Turns: {words}")
    ys = AxisScale(*rate_range((bps for _, bps in rates.values()), least=0.02), _BOTTOM, _TOP)
    for side, look in (("A", "s-line thin dash"), ("B", "s-hue0 thin")):
        if own := [bps for known, bps in rates.values() if known == side]:
            paper.line([(4, ys(fmean(own))), (paper.width - 4, ys(fmean(own)))], look)
    for index, number in enumerate(order):
        x = _MARGIN + _STEP * index
        paper.text(x, _HEIGHT - 4, turns[number], "f-muted", SMALL, "middle")
        if number in rates:
            side, bps = rates[number]
            paper.dot(x, ys(bps), _DOTS[side], name=f"turn {number}, {side}: {rate(bps)}")
    return paper


def _rates(change: ChangeRecord, way: str) -> dict[int, tuple[str, float]]:
    """Return for each turn its build and the mean level of its connections that count."""
    found = {}
    for turn in change.turns:
        each = [one.level_bps for one in turn.connections.get(way, ()) if not one.excluded]
        if levels := [level for level in each if level is not None]:
            found[turn.number] = turn.side, fmean(levels)
    return found
