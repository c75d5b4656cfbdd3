"""A drawing surface for charts, in pixels, with SVG output; the look of charts, and their axes.

A page may override the colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pytest_pinet.model.quantities import unit_of
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.text_wrap import written

FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Helvetica, Arial, sans-serif"

# The contrast with the paper is at least 4.5 for text and 3 for marks.
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "muted": "#59636e", "grid": "#d8dee4", "line": "#57606a",
    "band": "#b7d7f5", "good": "#1a7f37", "better": "#0969da", "near": "#9a6700", "bad": "#cf222e",
    "unsure": "#8250df", "broken": "#bc4c00", "limit": "#a40e26", "oracle": "#57606a",
    "hue0": "#0969da", "hue1": "#bc4c00", "hue2": "#8250df", "hue3": "#1a7f37", "hue4": "#bf3989", "hue5": "#0e7490",
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "muted": "#9da7b3", "grid": "#30363d", "line": "#9da7b3",
    "band": "#1c3f63", "good": "#3fb950", "better": "#58a6ff", "near": "#d29922", "bad": "#ff7b72",
    "unsure": "#bc8cff", "broken": "#f0883e", "limit": "#ff938a", "oracle": "#9da7b3",
    "hue0": "#58a6ff", "hue1": "#f0883e", "hue2": "#bc8cff", "hue3": "#3fb950", "hue4": "#f778ba", "hue5": "#39c5cf",
}  # fmt: skip
HUES = 6

# The colour name of each verdict. The verdict's mark is readable without colour.
COLOURS = {
    Verdict.PASS: "good",
    Verdict.IMPROVED: "better",
    Verdict.MARGINAL: "near",
    Verdict.FAIL: "bad",
    Verdict.INCONCLUSIVE: "unsure",
    Verdict.INVALID: "broken",
    Verdict.ERROR: "broken",
    Verdict.SKIPPED: "muted",
}
_ADVANCE = 0.6
# The margin of an axis, as a share of the range of its values.
_ROOM = 0.06
SMALL, NORMAL, TITLE = 11, 12, 15


def variables(colours: dict[str, str]) -> str:
    """Return the colours as CSS variables."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def rules() -> str:
    """Return the style sheet of all charts, without the colours."""
    named = "".join(f".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name});fill:none}}" for name in LIGHT)
    return (
        f"{named}.thin{{stroke-width:1}}.plain{{stroke-width:1.6}}.strong{{stroke-width:2.4}}"
        ".dash{stroke-dasharray:6 4}.dots{stroke-dasharray:1.5 3.5;stroke-linecap:round}.faint{opacity:.45}"
        ".bold{font-weight:600}.hollow{fill:var(--paper);stroke-width:2}"
    )


def width_of(text: str) -> float:
    """Return an upper estimate of the width of a small text."""
    return len(text) * SMALL * _ADVANCE


class Paper:
    """Shapes in drawing order. Screen readers read ``title`` and ``description``."""

    def __init__(self, width: int, height: int, title: str, description: str = "") -> None:
        self.width, self.height = width, height
        self._title, self._description = title, description
        self._shapes: list[str] = []

    def line(self, points: Iterable[tuple[float, float]], look: str) -> None:
        """Draw a line through points. ``look`` is CSS classes such as ``s-limit dash``."""
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self._shapes.append(f'<path class="{look}" d="M{path}"/>')

    def box(self, x: float, y: float, width: float, height: float, look: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
        self._shapes.append(f'<rect class="{look}" {place}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        look: str = "f-ink",
        size: int = NORMAL,
        anchor: str = "start",
        turned: float = 0,
    ) -> None:
        """Draw a line of text. ``y`` is its baseline, ``turned`` the degrees clockwise around its anchor."""
        turn = f' transform="rotate({turned:g} {x:.1f} {y:.1f})"' if turned else ""
        place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turn}'
        self._shapes.append(f'<text class="{look}" {place}>{written(text)}</text>')

    def dot(self, x: float, y: float, look: str, size: float = 4.5, name: str = "") -> None:
        """Draw a circle. ``name`` is its tooltip."""
        about = f"<title>{written(name)}</title>" if name else ""
        self._shapes.append(f'<circle class="{look}" cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}">{about}</circle>')

    def mark(self, x: float, y: float, verdict: Verdict, name: str = "", size: float = 4.5) -> None:
        """Draw the mark of a verdict. Its shape identifies the verdict without colour. ``name`` is its tooltip."""
        colour, r = COLOURS[verdict], size
        if verdict in (Verdict.PASS, Verdict.INCONCLUSIVE):
            look, radius = (f"f-{colour}", r * 0.8) if verdict is Verdict.PASS else (f"s-{colour} hollow", r)
            self.dot(x, y, look, radius, name)
            return
        about = f"<title>{written(name)}</title>" if name else ""
        if verdict is Verdict.FAIL:
            cross = f"M{x - r:.1f} {y - r:.1f}l{2 * r:g} {2 * r:g}m0 {-2 * r:g}l{-2 * r:g} {2 * r:g}"
            shape = f'<path class="s-{colour}" stroke-width="{r * 0.65:.1f}" d="{cross}">{about}</path>'
        else:
            corners = {
                Verdict.MARGINAL: ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
                Verdict.IMPROVED: ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
                Verdict.ERROR: ((0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
            }.get(verdict, ((-1, -1), (1, -1), (1, 1), (-1, 1)))
            look = f"f-{colour}" if verdict in (Verdict.MARGINAL, Verdict.IMPROVED) else f"s-{colour} hollow"
            points = " ".join(f"{x + dx * r:.1f},{y + dy * r:.1f}" for dx, dy in corners)
            shape = f'<polygon class="{look}" points="{points}">{about}</polygon>'
        self._shapes.append(shape)

    @property
    def shapes(self) -> str:
        return "".join(self._shapes)

    def svg(self) -> str:
        """Return a complete SVG file. The paper is always white, because the surrounding page may be dark."""
        style = f"<style>svg{{{variables(LIGHT)}}}{rules()}</style>"
        head = self._open(' xmlns="http://www.w3.org/2000/svg"', True)
        return f"{head}{style}{self._body()}</svg>\n"

    def inline(self, label: bool = True) -> str:
        """Return SVG for a page with the style sheet and the colours. Without ``label``, screen readers skip it."""
        return f"{self._open('', label)}{self._body()}</svg>"

    def _open(self, namespace: str, label: bool) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        names = f"<title>{written(self._title)}</title>" if label else ""
        names += f"<desc>{written(self._description)}</desc>" if label and self._description else ""
        role = 'role="img"' if label else 'aria-hidden="true" focusable="false"'
        aria = f' aria-label="{written(self._title)}"' if label else ""
        return f'<svg{namespace} {size} {role}{aria} font-family="{escape(FONT)}">{names}'

    def _body(self) -> str:
        return f'<rect class="f-paper" width="{self.width}" height="{self.height}"/>{self.shapes}'


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

    def labels(self, factor: float, most: int = 6) -> list[tuple[float, str]]:
        """Return the ticks with their texts in a unit of this size, with enough digits to distinguish neighbours."""
        ticks = self.ticks(most)
        step = ticks[1] - ticks[0] if len(ticks) > 1 else self.high - self.low
        digits = max(0, -math.floor(math.log10(step / factor) + 1e-9)) if step > 0 else 0
        return [(tick, f"{tick / factor + 0.0:.{digits}f}") for tick in ticks]


def _step(least: float) -> float:
    """Return the smallest round number (1, 2 or 5 times a power of ten) that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def value_range(values: Iterable[float], least: float = 0.02) -> tuple[float, float]:
    """Return the range of an axis for these values, with a margin.

    The range does not begin at 0 if the values are close together, so that a step of a few percent is visible. It is
    never smaller than ``least`` of the largest value, because noise would look like steps.
    """
    known = list(values)
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    lacking = high * least - (high - low)
    if lacking > 0:
        low, high = low - lacking / 2, high + lacking / 2
    margin = (high - low) * _ROOM or 1.0
    low = low - margin if low > 0 else 0.0
    # If the lowest value is near 0, an axis that does not begin at 0 is only confusing.
    return (0.0 if low < high * 0.25 else low), high + margin


@dataclass(frozen=True)
class Area:
    """The area of a chart's data on its paper."""

    left: float
    top: float
    right: float
    bottom: float


def draw_axis(paper: Paper, area: Area, values: Iterable[float], unit: str = "bit/s") -> AxisScale:
    """Draw the axis for values of this unit and return its scale. Its label says if it does not begin at 0."""
    low, high = value_range(values)
    scale = AxisScale(low, high, area.bottom, area.top)
    # One unit for all numbers of an axis, so that they can be compared.
    unit, factor = unit_of(high, unit)
    for tick, text in scale.labels(factor):
        y = scale(tick)
        paper.line([(area.left, y), (area.right, y)], "s-grid thin")
        paper.text(area.left - 6, y + 4, text, "f-muted", SMALL, "end")
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
