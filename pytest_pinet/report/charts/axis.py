"""Axes: the position of values on paper, ticks, and the vertical axis of all rate charts with its horizontal lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_pinet.model.quantities import unit_of
from pytest_pinet.report.charts.paper import NORMAL, SMALL, Paper


@dataclass(frozen=True)
class AxisScale:
    """A linear scale: maps values from ``low`` to ``high`` to pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (value - self.low) / span * (self.end - self.start) if span else (self.start + self.end) / 2

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values within the scale, about ``most`` of them."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        step = _step(span / most)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _step(least: float) -> float:
    """Return the smallest round number (1, 2 or 5 times a power of ten) that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def tick_text(value: float, factor: float, step: float) -> str:
    """Return the label of a tick in a unit of the size ``factor``, with enough digits to distinguish neighbours."""
    digits = max(0, -math.floor(math.log10(step / factor) + 1e-9)) if step > 0 else 0
    return f"{value / factor + 0.0:.{digits}f}"


def rate_range(values: Iterable[float], room: float = 0.06, least: float = 0.02) -> tuple[float, float]:
    """Return the range of an axis for these rates (bit/s), with a margin of ``room``.

    The range does not begin at 0 if the rates are close together, so that a step of a few percent is visible. It is
    never smaller than ``least`` of the largest rate, because noise would look like steps.
    """
    known = list(values)
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    lacking = high * least - (high - low)
    if lacking > 0:
        low, high = low - lacking / 2, high + lacking / 2
    margin = (high - low) * room or 1.0
    low = low - margin if low > 0 else 0.0
    # If the lowest rate is near 0, an axis that does not begin at 0 is only confusing.
    return (0.0 if low < high * 0.25 else low), high + margin


@dataclass(frozen=True)
class Area:
    """The area of a chart's data on its paper."""

    left: float
    top: float
    right: float
    bottom: float


def draw_rate_axis(paper: Paper, area: Area, rates: Iterable[float]) -> AxisScale:
    """Draw the axis for these rates (bit/s) and return its scale. Its label says if it does not begin at 0."""
    low, high = rate_range(rates)
    scale = AxisScale(low, high, area.bottom, area.top)
    # One unit for all numbers of an axis, so that they can be compared.
    unit, factor = unit_of(high)
    ticks = scale.ticks()
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    for tick in ticks:
        y = scale(tick)
        paper.line([(area.left, y), (area.right, y)], "s-grid thin")
        paper.text(area.left - 6, y + 4, tick_text(tick, factor, step), "f-muted", SMALL, "end")
    zero = "" if low == 0 else ", axis does not begin at 0"
    paper.text(area.left - 52, area.top - 9, f"{unit}{zero}", "f-muted", SMALL)
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
