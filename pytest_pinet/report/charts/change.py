"""The drawings of a change: a forest plot of all metrics, the turns of one, and a bar for one function.

In the forest plot, all metrics are on one axis, each with its change, its interval and the tolerated band.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from markupsafe import Markup, escape

from pytest_pinet.model.record.change import ChangeRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.charts.paper import COLOURS, SMALL, AxisScale, Paper, rate_range, tick_text
from pytest_pinet.report.text_wrap import rate

# A change, and its interval.
Change = tuple[float | None, tuple[float, float] | None]
# A change smaller than this is drawn small.
_LEAST = 0.01
_STEP, _MARGIN, _TOP, _BOTTOM = 22, 14, 10, 56
_HEIGHT = 74
# A, the known-good build, is hollow; B, the build under test, is filled. Both are readable without colour.
_DOTS = {"A": "s-line hollow", "B": "f-hue0"}
_BAR_HALF, _BAR_HEIGHT, _BAR_MARGIN = 70, 16, 2
# A smaller bar could not be seen.
_LEAST_BAR = 1.0


@dataclass(frozen=True)
class Forest:
    """The axis of all metrics, in percent of its width, and their different tolerances."""

    scale: AxisScale
    tolerances: Sequence[float]

    @classmethod
    def of(cls, changes: Iterable[Change], tolerances: Iterable[float | None]) -> Forest:
        """Return the axis on which all of these changes fit."""
        known = sorted({tolerance for tolerance in tolerances if tolerance is not None})
        widest = max([_LEAST, *known])
        shown = [-widest, widest]
        for change, interval in changes:
            shown += [change or 0.0, *(interval or ())]
        margin = (max(shown) - min(shown)) * 0.06
        return cls(AxisScale(min(shown) - margin, max(shown) + margin, 0, 100), known)

    def row(self, change: Change, verdict: Verdict, tolerance: float | None) -> Markup:
        """Return the plot of one metric, with the band of its tolerance."""
        value, interval = change
        colour = COLOURS[verdict]
        parts = []
        if interval is not None:
            low, high = (self._x(part) for part in interval)
            parts = [
                f'<line x1="{low}" x2="{high}"/>',
                *(f'<line x1="{x}" x2="{x}" y1="-5" y2="5"/>' for x in (low, high)),
            ]
        mark = f'<use href="#m-{verdict}" x="{self._x(value)}"/>' if value is not None else ""
        lines = f'<g class="s-{colour} strong">{"".join(parts)}</g>{mark}'
        # As tall as the row, so that the band is one piece.
        back = self._back(tolerance)
        return Markup(
            f'<svg class="forest" aria-hidden="true">{back}<svg y="50%" overflow="visible">{lines}</svg></svg>'
        )

    def axis(self) -> Markup:
        """Return the labels of the axis, in percent."""
        ticks = self.scale.ticks(7)
        step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.01
        texts = "".join(
            f'<text x="{self._x(tick)}" y="12" text-anchor="middle">{escape(tick_text(tick, 0.01, step))} %</text>'
            for tick in ticks
        )
        return Markup(f'<svg class="forest" height="16" aria-hidden="true">{texts}</svg>')

    def _back(self, tolerance: float | None) -> str:
        """Return the tolerated band, the ticks and the line of no change."""
        band = ""
        if tolerance:
            low, high = self.scale(-tolerance), self.scale(tolerance)
            band = f'<rect class="f-band" x="{low:.2f}%" width="{high - low:.2f}%" height="100%"/>'
        ticks = "".join(
            f'<line class="s-grid thin" x1="{self._x(tick)}" x2="{self._x(tick)}" y2="100%"/>'
            for tick in self.scale.ticks(7)
        )
        return f'{band}{ticks}<line class="s-line" x1="{self._x(0)}" x2="{self._x(0)}" y2="100%"/>'

    def _x(self, part: float) -> str:
        return f"{self.scale(part):.2f}%"


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


def change_bar(change: float, widest: float) -> Paper:
    """Draw the change. The bar of ``widest`` is as long as the paper allows."""
    paper = Paper(2 * (_BAR_HALF + _BAR_MARGIN), _BAR_HEIGHT, f"{change:+.2f}")
    middle = _BAR_HALF + _BAR_MARGIN
    length = max(abs(change) / widest * _BAR_HALF, _LEAST_BAR) if widest else 0.0
    start, look = (middle, "f-bad") if change > 0 else (middle - length, "f-good")
    paper.box(start, 2, length, _BAR_HEIGHT - 4, look)
    paper.line([(middle, 0), (middle, _BAR_HEIGHT)], "s-line thin")
    return paper
