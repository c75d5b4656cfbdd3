"""Charts of the results of a run: all of them as bars, and the throughput during one measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.report.charts.paper import (
    COLOURS,
    HUES,
    SMALL,
    TITLE,
    Area,
    AxisScale,
    Paper,
    draw_levels,
    draw_rate_axis,
    width_of,
)
from pytest_pinet.report.terminal import ResultRow
from pytest_pinet.report.text_wrap import rate, rate_or

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
    value = rate_or(row.goodput_bps, "no value")
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
    lines = _lines(result)
    begins, total_s = _begins([line.record for line in lines])
    rows = (len(lines) + 2) // 3
    paper = Paper(_WIDTH, int(_AREA.bottom) + 62 + 17 * rows, f"Throughput of {result.id} over time", _words(result))
    paper.text(14, 24, result.id, "f-ink bold", TITLE)
    paper.text(14, 41, "goodput at the receiver over time; faint: warm-up, not counted", "f-muted", SMALL)
    levels = _levels(lines)
    rates = [bps for line in lines for sample in line.record.samples if (bps := _bps(sample)) is not None]
    ys = draw_rate_axis(paper, _AREA, [*rates, *(bps for bps, _, _ in levels)])
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


def _lines(result: ResultRecord) -> list[_Line]:
    records: Mapping[str, DirectionRecord] = {flow.name: flow for flow in result.flows} or result.directions
    return [
        _Line(name, record, f"s-hue{index % HUES} {_DASHES[index // HUES % len(_DASHES)]}".strip())
        for index, (name, record) in enumerate(records.items())
    ]


def _bps(sample: Sample) -> float | None:
    return sample.bytes * 8 / sample.seconds if sample.seconds > 0 else None


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
                free = x + width_of(f"#{number}", SMALL) + 4


def _draw(paper: Paper, xs: AxisScale, ys: AxisScale, begins: Mapping[int, float], line: _Line) -> None:
    """Draw a line of steps, because a rate holds for a whole interval. Each connection has its own line."""
    for number, one in enumerate(line.record.connections, 1):
        pieces: dict[bool, list[tuple[float, float]]] = {}
        for sample in one.samples:
            bps = _bps(sample)
            if bps is None:
                continue
            begin = begins[number] + sample.start_s
            points = pieces.setdefault(sample.warmup, [])
            points += [(xs(begin), ys(bps)), (xs(begin + sample.seconds), ys(bps))]
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
