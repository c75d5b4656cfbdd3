"""Charts of one run: throughput over time, and the turns of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from markupsafe import Markup, escape

from pytest_pinet.model.record.change import ChangeRecord
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.charts.paper import (
    COLOURS,
    HUES,
    SMALL,
    TITLE,
    Area,
    AxisScale,
    Paper,
    draw_axis,
    draw_levels,
    value_range,
    width_of,
)
from pytest_pinet.report.terminal import ResultRow
from pytest_pinet.report.text_wrap import rate

_WIDTH, _ROW, _HEAD = 900, 22, 74
_LEFT, _RIGHT, _LONGEST = 300, 690, 42
# A larger chart is unreadable. The worst rows come first, so that only good ones are left out.
_MOST = 80
_AREA = Area(66, 70, 744, 266)
# A gap between two connections. The real time between them is not known.
_GAP_S = 0.4
_DASHES = ("", "dash", "dots")


def overview_chart(rows: Sequence[ResultRow], title: str, note: str) -> Paper:
    """Draw the overview. ``rows`` are sorted, worst first. A dashed tick on each bar shows the limit."""
    shown = rows[:_MOST]
    rest = len(rows) - len(shown)
    paper = Paper(_WIDTH, _HEAD + _ROW * len(shown) + (34 if rest else 16), title, note)
    paper.text(14, 24, title, "f-ink bold", TITLE)
    paper.text(14, 41, note, "f-muted", SMALL)
    xs = AxisScale(0, 1, _LEFT, _RIGHT)
    bottom = _HEAD + _ROW * len(shown)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        paper.line([(xs(tick), _HEAD - 6), (xs(tick), bottom)], "s-grid thin")
        paper.text(xs(tick), _HEAD - 10, f"{tick * 100:g} %", "f-muted", SMALL, "middle")
    paper.text(_RIGHT + 46, _HEAD - 10, "of the physical limit", "f-muted", SMALL)
    for number, row in enumerate(shown):
        _bar(paper, xs, _HEAD + _ROW * number, row)
    if rest:
        paper.text(14, bottom + 20, f"and {rest} more results, none of them worse", "f-muted", SMALL)
    return paper


def _bar(paper: Paper, xs: AxisScale, top: float, row: ResultRow) -> None:
    label = f"{row.label} {row.direction}".strip()
    short = label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"
    base = top + 15
    paper.text(_LEFT - 8, base, short, "f-ink", SMALL, "end")
    share = row.share
    if share is not None:
        paper.box(xs(0), top + 4, xs(min(share, 1.05)) - xs(0), _ROW - 9, f"f-{COLOURS[row.verdict]}")
    if row.limit_bps is not None and row.oracle_bps:
        x = xs(min(row.limit_bps / row.oracle_bps, 1.05))
        paper.line([(x, top + 1), (x, top + _ROW - 2)], "s-ink strong dash")
    value = rate(row.goodput_bps, "no value") if row.figure is None else row.figure[0]
    paper.mark(_RIGHT + 38, top + 11, row.verdict)
    paper.text(_RIGHT + 50, base, f"{row.verdict}, {value}", "f-ink", SMALL)


@dataclass(frozen=True)
class _Line:
    """One line of the chart: a direction or a flow."""

    name: str
    record: DirectionRecord
    look: str


def throughput_chart(result: ResultRecord) -> Paper:
    """Draw the rates at the receivers by interval, all connections in sequence. The warm-up is faint."""
    records: Mapping[str, DirectionRecord] = {flow.name: flow for flow in result.flows} or result.directions
    lines = [
        _Line(name, record, f"s-hue{index % HUES} {_DASHES[index // HUES % len(_DASHES)]}".strip())
        for index, (name, record) in enumerate(records.items())
    ]
    begins, total_s = _begins([line.record for line in lines])
    rows = (len(lines) + 2) // 3
    paper = Paper(_WIDTH, int(_AREA.bottom) + 62 + 17 * rows, f"Throughput of {result.id} over time", _words(result))
    paper.text(14, 24, result.id, "f-ink bold", TITLE)
    paper.text(14, 41, "goodput at the receiver over time; faint: warm-up, not counted", "f-muted", SMALL)
    levels = _levels(lines)
    rates = [sample.bps for line in lines for sample in line.record.samples if sample.seconds > 0]
    ys = draw_axis(paper, _AREA, [*rates, *(bps for bps, _, _ in levels)])
    xs = AxisScale(0, max(total_s, 0.1), _AREA.left, _AREA.right)
    _time_axis(paper, xs, begins)
    _events(paper, xs, begins, lines)
    draw_levels(paper, _AREA, ys, levels)
    for line in lines:
        _draw(paper, xs, ys, begins, line)
    for index, line in enumerate(lines):
        x, y = _AREA.left + index % 3 * 270, _AREA.bottom + 56 + 17 * (index // 3)
        paper.line([(x, y - 4), (x + 26, y - 4)], f"{line.look} strong")
        paper.text(x + 32, y, f"{line.name} {rate(line.record.goodput_bps)}", "f-ink", SMALL)
    return paper


def _begins(records: Sequence[DirectionRecord]) -> tuple[dict[int, float], float]:
    """Return the start of each connection on the axis, and the end of the last one, in seconds."""
    lasts: dict[int, float] = {}
    for record in records:
        for number, one in enumerate(record.connections, 1):
            for sample in one.samples:
                lasts[number] = max(lasts.get(number, 0.0), sample.start_s + sample.seconds)
    begins, at = {}, 0.0
    for number in sorted(lasts):
        begins[number] = at
        at += lasts[number] + _GAP_S
    return begins, max(at - _GAP_S, 0.0)


def _levels(lines: Sequence[_Line]) -> list[tuple[float, str, str]]:
    """Return the limits and physical limits, each once."""
    found: dict[tuple[float, str], str] = {}
    for line in lines:
        if line.record.limit_bps is not None:
            found[line.record.limit_bps, "limit"] = "s-limit plain dash"
        if line.record.oracle_bps:
            found[line.record.oracle_bps, "physical"] = "s-oracle plain dots"
    return [(bps, f"{word} {rate(bps)}", look) for (bps, word), look in found.items()]


def _time_axis(paper: Paper, xs: AxisScale, begins: Mapping[int, float]) -> None:
    y = _AREA.bottom
    paper.line([(_AREA.left, y), (_AREA.right, y)], "s-line thin")
    for tick in xs.ticks(9):
        paper.line([(xs(tick), y), (xs(tick), y + 5)], "s-line thin")
        paper.text(xs(tick), y + 17, f"{tick:g}", "f-muted", SMALL, "middle")
    paper.text(_AREA.right, y + 32, "seconds of traffic", "f-muted", SMALL, "end")
    if len(begins) > 1:
        free = float("-inf")
        for number, begin in begins.items():
            x = xs(begin)
            if number > 1:
                middle = xs(begin - _GAP_S / 2)
                paper.line([(middle, _AREA.top), (middle, y)], "s-muted thin dash")
            if x >= free:
                paper.text(x + 2, y + 32, f"#{number}", "f-muted", SMALL)
                free = x + width_of(f"#{number}") + 4


def _draw(paper: Paper, xs: AxisScale, ys: AxisScale, begins: Mapping[int, float], line: _Line) -> None:
    """Draw a line of steps, because a rate holds for a whole interval. Each connection has its own line."""
    for number, one in enumerate(line.record.connections, 1):
        pieces: dict[bool, list[tuple[float, float]]] = {}
        for sample in (sample for sample in one.samples if sample.seconds > 0):
            begin, y = begins[number] + sample.start_s, ys(sample.bps)
            pieces.setdefault(sample.warmup, []).extend([(xs(begin), y), (xs(begin + sample.seconds), y)])
        for warmup, points in pieces.items():
            faint = " faint" if warmup or one.excluded else ""
            paper.line(points, f"{line.look} {'thin' if one.excluded else 'strong'}{faint}")


def _events(paper: Paper, xs: AxisScale, begins: Mapping[int, float], lines: Sequence[_Line]) -> None:
    """Draw each event during traffic as a stripe with its kind."""
    seen = {}
    for line in lines:
        for number, one in enumerate(line.record.connections, 1):
            for event in one.events if number in begins else ():
                seen[number, event.kind, round(event.start_s, 1)] = event
    for (number, kind, _), event in seen.items():
        x = xs(begins[number] + event.start_s)
        width = max(xs(event.seconds) - xs(0), 2)
        paper.box(x, _AREA.top, width, _AREA.bottom - _AREA.top, "f-broken faint")
        paper.text(x + 2, _AREA.top + 11, kind, "f-ink", SMALL)


def _words(result: ResultRecord) -> str:
    return " ".join(
        f"{name}: {rate(one.goodput_bps)} over {len(one.connections)} connections, {one.verdict}."
        for name, one in result.directions.items()
    )


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
        texts = "".join(
            f'<text x="{self._x(tick)}" y="12" text-anchor="middle">{escape(text)} %</text>'
            for tick, text in self.scale.labels(0.01, most=7)
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
    # The build of each turn, and the mean level of its connections that count.
    rates = {turn.number: (turn.side, fmean(levels)) for turn in change.turns if (levels := turn.levels(way))}
    if not rates:
        return None
    turns = {turn.number: turn.side for turn in change.turns}
    order = sorted(turns)
    words = ", ".join(f"{rates[n][0]} {rate(rates[n][1])}" for n in order if n in rates)
    paper = Paper(2 * _MARGIN + _STEP * (len(order) - 1), _HEIGHT, f"Turns: {words}")
    ys = AxisScale(*value_range((bps for _, bps in rates.values()), least=0.02), _BOTTOM, _TOP)
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


def change_bar(change: float, widest: float) -> Paper:
    """Draw the change. The bar of ``widest`` is as long as the paper allows."""
    paper = Paper(2 * (_BAR_HALF + _BAR_MARGIN), _BAR_HEIGHT, f"{change:+.2f}")
    middle = _BAR_HALF + _BAR_MARGIN
    length = max(abs(change) / widest * _BAR_HALF, _LEAST_BAR) if widest else 0.0
    start, look = (middle, "f-bad") if change > 0 else (middle - length, "f-good")
    paper.box(start, 2, length, _BAR_HEIGHT - 4, look)
    paper.line([(middle, 0), (middle, _BAR_HEIGHT)], "s-line thin")
    return paper
