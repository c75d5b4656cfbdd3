"""Shapes on a plane, in pixels, and their SVG; the height and width of all text are known, so that nothing overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from pytest_pinet.pictures.style import FONT, STYLE
from pytest_pinet.report.fit import plain

# The advance of monospaced fonts is 0.55 em (Consolas) to 0.602 em (Menlo, DejaVu).
_ADVANCE = 0.61
# Above and below the baseline.
_ASCENT, _DESCENT = 0.76, 0.24
_HEAD = 9.0
# Sizes of text.
SMALL, NORMAL, STRONG, TITLE = 11.0, 12.0, 13.0, 18.0


def text_width(text: str, size: float) -> float:
    """How wide a text is at most."""
    return len(plain(text)) * size * _ADVANCE


@dataclass(frozen=True)
class Rect:
    """An area; ``x`` and ``y`` are its top left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def overlaps(self, other: Rect) -> bool:
        """Whether they have more than an edge in common."""
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom

    def holds(self, other: Rect) -> bool:
        """Whether the other one lies in this one."""
        return self.x <= other.x and other.right <= self.right and self.y <= other.y and other.bottom <= self.bottom


@dataclass(frozen=True)
class Box:
    """A rectangle; ``kind`` is its class in the style sheet, ``name`` what stands for it when it is pointed at."""

    rect: Rect
    kind: str
    name: str = ""
    radius: float = 6.0

    def svg(self) -> str:
        r = self.rect
        return (
            f'<rect class="{self.kind}" x="{r.x:g}" y="{r.y:g}" width="{r.width:g}" height="{r.height:g}" '
            f'rx="{self.radius:g}">{_title(self.name)}</rect>'
        )


@dataclass(frozen=True)
class Label:
    """A line of text; ``y`` is its baseline, ``anchor`` (start, middle, end) where ``x`` is in it."""

    x: float
    y: float
    text: str
    kind: str = "ink"
    size: float = 12.0
    anchor: str = "start"

    @property
    def rect(self) -> Rect:
        width = text_width(self.text, self.size)
        left = self.x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return Rect(left, self.y - _ASCENT * self.size, width, (_ASCENT + _DESCENT) * self.size)

    def svg(self) -> str:
        place = f'x="{self.x:g}" y="{self.y:g}" font-size="{self.size:g}" text-anchor="{self.anchor}"'
        return f'<text class="{self.kind}" {place}>{escape(plain(self.text))}</text>'


@dataclass(frozen=True)
class Line:
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    kind: str = "cable"
    width: float = 1.5
    name: str = ""

    def svg(self) -> str:
        points = " ".join(f"{x:g},{y:g}" for x, y in self.points)
        look = f'class="{self.kind}" stroke-width="{self.width:g}"'
        return f'<polyline {look} points="{points}">{_title(self.name)}</polyline>'


@dataclass(frozen=True)
class Arrow:
    """A curve with a head at its end; ``both``: at its beginning, too.

    It leaves and arrives horizontally, pulled towards ``bend`` (the x of both control points), or vertically where
    ``bend`` is None.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    bend: float | None
    kind: str
    both: bool = False
    name: str = ""

    @property
    def heads(self) -> tuple[tuple[float, float], ...]:
        """Where the tips are."""
        return (self.end, self.start) if self.both else (self.end,)

    def svg(self) -> str:
        (x1, y1), (x2, y2) = self._shaft(self.start, self.both), self._shaft(self.end, True)
        if self.bend is None:
            path = f"M{x1:g} {y1:g}L{x2:g} {y2:g}"
        else:
            path = f"M{x1:g} {y1:g}C{self.bend:g} {y1:g} {self.bend:g} {y2:g} {x2:g} {y2:g}"
        curve = f'<path class="flow {self.kind}" d="{path}">{_title(self.name)}</path>'
        return curve + "".join(self._head(tip) for tip in self.heads)

    def _back(self, tip: tuple[float, float]) -> tuple[float, float]:
        """The direction from a tip along its shaft."""
        if self.bend is None:
            other = self.start if tip is self.end else self.end
            return 0.0, 1.0 if other[1] > tip[1] else -1.0
        return (1.0 if self.bend > tip[0] else -1.0), 0.0

    def _shaft(self, tip: tuple[float, float], headed: bool) -> tuple[float, float]:
        """Where the line ends: within the head, whose tip would else be blunt."""
        dx, dy = self._back(tip)
        length = _HEAD - 1 if headed else 0.0
        return tip[0] + dx * length, tip[1] + dy * length

    def _head(self, tip: tuple[float, float]) -> str:
        (dx, dy), half = self._back(tip), _HEAD * 0.45
        base = (tip[0] + dx * _HEAD, tip[1] + dy * _HEAD)
        corners = (tip, (base[0] - dy * half, base[1] + dx * half), (base[0] + dy * half, base[1] - dx * half))
        return f'<polygon class="head {self.kind}" points="{" ".join(f"{x:g},{y:g}" for x, y in corners)}"/>'


Shape = Box | Label | Line | Arrow


@dataclass(frozen=True)
class Drawing:
    """Shapes, those behind first, on a sheet of paper; ``title`` is what it shows."""

    title: str
    width: float
    height: float
    shapes: Sequence[Shape] = field(default_factory=tuple)

    def svg(self) -> str:
        """A whole SVG file that needs nothing else."""
        size = f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{escape(FONT)}">',
            f"<title>{escape(plain(self.title))}</title>",
            f"<style>{STYLE}</style>",
            '<rect class="paper" width="100%" height="100%"/>',
            *(shape.svg() for shape in self.shapes),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def _title(name: str) -> str:
    return f"<title>{escape(plain(name))}</title>" if name else ""
