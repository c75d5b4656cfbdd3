"""A forest plot of a change: all metrics on one axis, each with its change, its interval and the tolerated band."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.charts.axis import AxisScale, tick_text
from pytest_pinet.report.charts.paper import COLOURS

# A change, and its interval.
Change = tuple[float | None, tuple[float, float] | None]
# A change smaller than this is drawn small.
_LEAST = 0.01


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
