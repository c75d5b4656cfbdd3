"""The vertical axis of all rate charts: ticks with one unit, grid lines, and horizontal lines such as limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_pinet.report.charts.paper import NORMAL, SMALL, Paper
from pytest_pinet.report.charts.scale import AxisScale, RateUnit, rate_range


@dataclass(frozen=True)
class Area:
    """The area of a chart's data on its paper."""

    left: float
    top: float
    right: float
    bottom: float


def draw_rate_axis(paper: Paper, area: Area, rates: Iterable[float]) -> AxisScale:
    """Draw the axis for these rates (bit/s) and return its scale.

    The unit label says if the axis does not begin at 0.
    """
    low, high = rate_range(rates)
    scale = AxisScale(low, high, area.bottom, area.top)
    unit = RateUnit.of(high)
    ticks = scale.ticks()
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    for tick in ticks:
        y = scale(tick)
        paper.line([(area.left, y), (area.right, y)], "s-grid thin")
        paper.text(area.left - 6, y + 4, unit.number(tick, step), "f-muted", SMALL, "end")
    zero = "" if low == 0 else ", axis does not begin at 0"
    paper.text(area.left - 52, area.top - 9, f"{unit.name}{zero}", "f-muted", SMALL)
    return scale


def draw_levels(paper: Paper, area: Area, scale: AxisScale, levels: Sequence[tuple[float, str, str]]) -> None:
    """Draw horizontal lines (rate, label, look) with labels at the right edge. Labels never overlap."""
    places = sorted((scale(bps), text, look) for bps, text, look in levels)
    previous = float("-inf")
    for y, text, look in places:
        paper.line([(area.left, y), (area.right, y)], look)
        at = max(y + 4, previous + NORMAL + 1)
        paper.text(area.right + 6, at, text, "f-ink", SMALL)
        previous = at
