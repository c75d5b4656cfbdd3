"""Trend charts of one direction: a mark per run, with interval, limit, baseline band and builds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from pytest_pinet.history.differences import name_of
from pytest_pinet.history.points import LIMIT, ORACLE, VALUE, LevelChange, Point, PointList
from pytest_pinet.model.figures import GOODPUT
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.charts.paper import (
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
from pytest_pinet.report.text_wrap import count, value_text
from pytest_pinet.report.trends import FigureSeries

_WIDTH, _HEIGHT = 900, 372
_SPARK_WIDTH, _SPARK_HEIGHT = 150, 32
_LEFT, _TOP, _BOTTOM = 66, 70, 266
_RUNS, _SPARK_RUNS = 60, 30
# The labels of builds are slanted, and at least so many pixels apart.
_APART = 24.0


def trend_chart(series: FigureSeries) -> Paper:
    """Draw the newest runs, oldest left, evenly spaced whatever time is between them."""
    dots = PointList(series.points[-_RUNS:])
    runs = {dot.run for dot in dots}
    series = replace(series, points=dots, changes=tuple(shift for shift in series.changes if shift.run in runs))
    area = Area(_LEFT, _TOP, _WIDTH - 156, _BOTTOM)
    paper = Paper(_WIDTH, _HEIGHT, f"Trend of {series.figure}", trend_words(series))
    paper.text(14, 24, series.figure, "f-ink bold", TITLE)
    emulated = "; emulated" if any(dot.emulated for dot in dots) else ""
    what = "goodput at the receiver" if series.kind == GOODPUT else series.kind.name
    paper.text(14, 41, f"{what}, {count(len(dots), 'run')}{emulated}", "f-muted", SMALL)
    xs = AxisScale(-0.5, max(len(dots), 1) - 0.5, area.left, area.right)
    band = series.band
    values = [one for dot in dots for one in (dot.value, dot.limit, dot.oracle) if one is not None]
    values += [one for dot in dots for one in dot.interval or ()]
    ys = draw_axis(paper, area, [*values, *(band or ())], series.kind.unit)
    if band is not None:
        low, _, high = band
        paper.box(area.left, ys(high), area.right - area.left, ys(low) - ys(high), "f-band faint")
    _levels(paper, area, xs, ys, series)
    _shifts(paper, area, xs, series, dots)
    _builds(paper, area, xs, dots, series.changes)
    _figures(paper, xs, ys, dots)
    x = 14.0
    shown = [verdict for verdict in reversed(SEVERITY) if verdict in {dot.verdict for dot in dots}]
    for verdict in shown:
        paper.mark(x, _HEIGHT - 14, verdict)
        paper.text(x + 9, _HEIGHT - 10, verdict.value, "f-ink", SMALL)
        x += min(width_of(verdict.value) + 30, (paper.width - 20) / len(shown))
    return paper


def sparkline(series: FigureSeries) -> Paper:
    """Draw a chart of the size of a word: the newest runs, their limit dashed, and the mark of the newest run."""
    limits, values = (series.points.column(name)[-_SPARK_RUNS:] for name in (LIMIT, VALUE))
    paper = Paper(_SPARK_WIDTH, _SPARK_HEIGHT, f"Trend of {series.figure}")
    low, high = value_range([one for one in (*limits, *values) if one is not None], least=0.05)
    xs = AxisScale(0, max(len(values) - 1, 1), 6, _SPARK_WIDTH - 8)
    ys = AxisScale(low, high, _SPARK_HEIGHT - 5, 5)
    _course(paper, xs, ys, limits, "s-limit thin dash")
    _course(paper, xs, ys, values, "s-hue0 plain")
    if values:
        newest = series.latest
        y = ys(newest.value) if newest.value is not None else _SPARK_HEIGHT - 7
        paper.mark(xs(len(values) - 1), y, newest.verdict, size=4)
    return paper


def _course(paper: Paper, xs: AxisScale, ys: AxisScale, values: Sequence[float | None], look: str) -> None:
    known = [(xs(index), ys(value)) for index, value in enumerate(values) if value is not None]
    if len(known) > 1:
        paper.line(known, look)


def trend_words(series: FigureSeries) -> str:
    """Return a description of the chart in one or two sentences."""
    values, runs, show = series.measured, count(len(series.points), "run"), series.kind.show
    if not values:
        return f"{runs}, none measured a value."
    words = [
        f"{runs} from {series.points[0].time:%Y-%m-%d} to {series.points[-1].time:%Y-%m-%d}, "
        f"{show(min(values))} to {show(max(values))}, newest {show(values[-1])}."
    ]
    words += [f"{shift_words(shift)}." for shift in series.changes]
    return " ".join(words)


def shift_words(shift: LevelChange) -> str:
    """Return the size of a level change and the builds before and after it."""
    before, after = shift.kind.show(shift.before), shift.kind.show(shift.after)
    return f"{shift.relative * 100:+.1f} %, {before} to {after}, {cause(shift)}"


def cause(shift: LevelChange) -> str:
    """Return the builds before and after a level change, or what else differed."""
    before, after = name_of(shift.build_before), name_of(shift.build_after)
    if shift.gradual:
        return f"drifted from {before} until {after}"
    if shift.differs:
        return f"with {'; '.join(shift.differs)}"
    return f"with the same build {after}" if after == before else f"with {after} (before: {before})"


def short_names(releases: Collection[str]) -> dict[str, str]:
    """Return the version of each kernel release, with the last part (``g1a2b3c4``) where versions would be equal."""
    versions = Counter(release.partition("-")[0] for release in releases)
    return {
        release: version if versions[version] == 1 else f"{version} {re.split(r'[-+]', release)[-1]}"
        for release in releases
        for version in [release.partition("-")[0]]
    }


def _levels(paper: Paper, area: Area, xs: AxisScale, ys: AxisScale, series: FigureSeries) -> None:
    """Draw limit and physical limit of each run. The labels show the newest values."""
    named = []
    for of, word, look in ((LIMIT, "limit", "s-limit plain dash"), (ORACLE, "physical", "s-oracle plain dots")):
        known = [(index, value) for index, value in enumerate(series.points.column(of)) if value is not None]
        if known:
            paper.line([(xs(index + side), ys(value)) for index, value in known for side in (-0.5, 0.5)], look)
            named.append((known[-1][1], f"{word} {series.kind.show(known[-1][1])}"))
    if series.band is not None:
        named.append((series.band[1], f"baseline {series.kind.show(series.band[1])}"))
    draw_levels(paper, area, ys, [(value, text, "thin") for value, text in named])


def _shifts(paper: Paper, area: Area, xs: AxisScale, series: FigureSeries, dots: Sequence[Point]) -> None:
    """Draw a line before the first run at each new level, with the change in percent."""
    runs = [dot.run for dot in dots]
    for shift in series.changes:
        x = xs(runs.index(shift.run) - 0.5)
        paper.line([(x, area.top), (x, area.bottom)], "s-ink plain")
        text = f"{shift.relative * 100:+.1f} %"
        right = x + width_of(text) + 6 < area.right
        paper.text(x + (4 if right else -4), area.top + 11, text, "f-ink bold", SMALL, "start" if right else "end")


def _builds(paper: Paper, area: Area, xs: AxisScale, dots: Sequence[Point], shifts: Sequence[LevelChange]) -> None:
    """Write the name of each build below its first run, if there is room. Builds that changed the level come first."""
    y = area.bottom
    paper.line([(area.left, y), (area.right, y)], "s-line thin")
    moved = {shift.run for shift in shifts}
    firsts = [i for i, dot in enumerate(dots) if i == 0 or dot.build_name != dots[i - 1].build_name]
    names = short_names({dot.build_name.partition(" ")[0] for dot in dots})
    placed: list[float] = []
    for index in sorted(firsts, key=lambda i: (dots[i].run not in moved, i)):
        x = xs(index)
        if any(abs(x - other) < _APART for other in placed):
            continue
        placed.append(x)
        paper.line([(x, y), (x, y + 5)], "s-line thin")
        name = names[dots[index].build_name.partition(" ")[0]]
        look = "f-ink bold" if dots[index].run in moved else "f-muted"
        paper.text(x + 3, y + 15, name, look, SMALL, "end", -35)


def _figures(paper: Paper, xs: AxisScale, ys: AxisScale, dots: Sequence[Point]) -> None:
    _course(paper, xs, ys, [dot.value for dot in dots], "s-line thin faint")
    # If marks would overlap, draw them smaller, and intervals without end caps.
    roomy = xs(1) - xs(0) > 8
    for index, dot in enumerate(dots):
        x = xs(index)
        if dot.interval is not None:
            low, high = map(ys, dot.interval)
            paper.line([(x, low), (x, high)], "s-line plain")
            for y in (low, high) if roomy else ():
                paper.line([(x - 3, y), (x + 3, y)], "s-line plain")
        # A run without a value has its mark on the axis.
        y = ys(dot.value) if dot.value is not None else _BOTTOM - 6
        value = value_text(dot.value, dot.kind, "no value")
        name = f"{dot.time:%Y-%m-%d %H:%M} {dot.build_name}: {value}, {dot.verdict}"
        paper.mark(x, y, dot.verdict, name, 4.5 if roomy or dot.verdict not in (Verdict.PASS, Verdict.FAIL) else 3)
