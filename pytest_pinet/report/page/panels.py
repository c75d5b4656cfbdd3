"""The trends as drawings, in percent of the width, and as data for the page's script."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import compress, count, pairwise
from operator import itemgetter, ne
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from markupsafe import Markup

from pytest_pinet.execution.files import exists, is_file
from pytest_pinet.history.differences import names_of
from pytest_pinet.history.points import INTERVAL, LIMIT, ORACLE, REASON, RUN, VALUE, VERDICT, Column, Points
from pytest_pinet.history.trends import COUNTED
from pytest_pinet.model.figures import GOODPUT
from pytest_pinet.model.quantities import unit_of
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict
from pytest_pinet.report.charts.paper import AxisScale, value_range
from pytest_pinet.report.charts.trend import short_names
from pytest_pinet.report.text_wrap import copyable, first_paragraph, written
from pytest_pinet.report.trends import FigureSeries

T = TypeVar("T")
# The height of a panel in pixels, and the units in it in which lines are drawn.
HEIGHT, _FINE = 70, 4
# Without dots for good runs, many runs are readable, and the page is smaller.
_FEW = 60
# The least distance of labels in percent of the width: on wide and on narrow screens.
_WIDE, _NARROW = 7.5, 27.0
# The share of the lowest and highest values that the scale ignores: one bad run would flatten all others.
_OUTLIERS = 0.02


class ChartRun(NamedTuple):
    """A run of a combination."""

    time: datetime
    run: str
    folder: str
    build: Mapping[str, str | None]


class CombinationChart:
    """The panels and the axis of the metrics of one combination.

    ``runs`` are in order, ``index`` has their places, and ``builds`` the place at which each build begins.
    """

    def __init__(self, all_series: Sequence[FigureSeries]) -> None:
        columns = [Column[object](name) for name in ChartRun._fields]
        runs = {
            run.run: run
            for series in all_series
            for run in map(ChartRun._make, zip(*map(series.points.column, columns), strict=True))
        }
        self.runs = sorted(runs.values(), key=itemgetter(0, 1))
        self.index = {one.run: number for number, one in enumerate(self.runs)}
        # Hundreds of runs share the value that describes their build.
        builds = {id(one.build): one.build for one in self.runs}
        names = dict(zip(builds, names_of([*builds.values()]), strict=True))
        self.builds = changes(names[id(one.build)] for one in self.runs)
        self._failed = [
            dot for series in all_series if not (series.traffic or series.measured) for dot in series.points
        ]
        self._moved = {shift.run for series in all_series for shift in series.changes}
        # Metrics of goodput share a scale; other values have one each.
        self._goodput = _scale([series for series in all_series if series.kind == GOODPUT])

    def panel(self, series: FigureSeries, label: str) -> Markup:
        """Return the panel of one metric. ``label`` describes it for a screen reader."""
        ys = self._goodput if series.kind == GOODPUT else _scale([series])
        grid, ticks = _grid(ys, series.kind.unit)
        parts = [grid]
        if series.band is not None:
            low, _, high = series.band
            top = _y(ys, high)
            parts.append(f'<rect class="f-band" y="{top:g}" width="100%" height="{max(_y(ys, low) - top, 2):g}"/>')
        places = self.places(series)
        lines = [_line(corners, look) for corners, look in _lines(ys, series.points, places)]
        inner = (
            f'<svg viewBox="-.5 0 {len(self.runs)} {HEIGHT * _FINE}" preserveAspectRatio="none">{"".join(lines)}</svg>'
        )
        quiet = () if len(self.runs) <= _FEW else (Verdict.PASS,)
        verdicts, values = series.points.column(VERDICT), series.points.column(VALUE)
        marks = "".join(
            self._mark(index, verdict, HEIGHT - 7 if value is None else _y(ys, value))
            for index, verdict, value in zip(places, verdicts, values, strict=True)
            if verdict not in quiet
        )
        parts.append(f'<svg class="zoom">{inner}{self._shifts(series)}{marks}</svg>')
        # Above the lines, which would strike them through.
        parts.append(ticks)
        return Markup(
            f'<svg class="plot" height="{HEIGHT}" role="img" aria-label="{written(label)}">{"".join(parts)}</svg>'
        )

    def places(self, series: FigureSeries) -> list[int]:
        return [self.index[run] for run in series.points.column(RUN)]

    def axis(self) -> Markup:
        """Return the axis below the panels: dates, and the kernels where they begin."""
        dates = [(number, text, text, important) for number, text, important in self._dates()]
        # The first word of a build is the release of its kernel.
        releases = [build.partition(" ")[0] for _, build in self.builds]
        names = short_names(set(releases))
        kernels = [
            (number, names[release], build, self.runs[number].run in self._moved)
            for (number, build), release in zip(self.builds, releases, strict=True)
        ]
        ticks = "".join(f'<line x1="{x}%" x2="{x}%" y2="5"/>' for x in (self._percent(one[0]) for one in kernels))
        marks = "".join(self._mark(self.index[dot.run], dot.verdict, 7) for dot in self._failed)
        inner = f'<g class="s-line thin">{ticks}</g>{marks}{self._labels(dates, 24)}{self._labels(kernels, 38)}'
        return Markup(f'<svg class="plot axis" height="44" aria-hidden="true"><svg class="zoom">{inner}</svg></svg>')

    def _percent(self, index: float) -> float:
        return round((index + 0.5) / max(len(self.runs), 1) * 100, 2)

    def _mark(self, index: int, verdict: Verdict, y: float) -> str:
        return f'<use href="#m-{verdict.value}" x="{self._percent(index)}%" y="{y:g}"/>'

    def _shifts(self, series: FigureSeries) -> str:
        """Return a line before the first run at each new level, with the change in percent."""
        found = ""
        for shift in series.changes:
            if shift.run in self.index:
                x = self._percent(self.index[shift.run] - 0.5)
                anchor, dx = ("end", -4) if x > 90 else ("start", 4)
                found += f'<line class="s-ink" x1="{x}%" x2="{x}%" y2="{HEIGHT}"/>'
                place = f'x="{x}%" dx="{dx}" y="12" text-anchor="{anchor}"'
                found += f'<text class="strong" {place}>{shift.relative * 100:+.1f} %</text>'
        return found

    def _dates(self) -> list[tuple[int, str, bool]]:
        """Return the runs at which a month begins; with few months also those at which a day begins.

        Months are then the important ones.
        """
        days = changes([run.time.date() for run in self.runs])
        months = [days[at] for at, _ in changes([(day.year, day.month) for _, day in days])]
        few = len(months) < 4
        return [(n, day.isoformat(), few and (n, day) in months[1:]) for n, day in (days if few else months)]

    def _labels(self, wanted: Sequence[tuple[int, str, str, bool]], y: int) -> str:
        """Return the labels that do not overlap. Important labels are placed first."""
        placed: list[tuple[float, bool]] = []
        found = ""
        for number, text, whole, important in sorted(wanted, key=lambda one: (not one[3], one[0])):
            x = self._percent(number)
            # At the edges a label is beside its place.
            middle = x + _WIDE / 3 if x < 4 else x - _WIDE / 3 if x > 96 else x
            if any(abs(middle - other) < _WIDE for other, _ in placed):
                continue
            narrow = all(abs(middle - other) >= _NARROW for other, kept in placed if kept)
            placed.append((middle, narrow))
            anchor = "start" if x < 4 else "end" if x > 96 else "middle"
            look = "".join(f' class="{name}"' for name in ["strong" * important + " wide" * (not narrow)] if name)
            title = f"<title>{written(whole)}</title>" if whole != text else ""
            found += f'<text{look} x="{x}%" y="{y}" text-anchor="{anchor}">{written(text)}{title}</text>'
        return found


def changes(values: Iterable[T]) -> list[tuple[int, T]]:
    """Return the values at which a sequence changes, with their places; also the first value."""
    known = list(values)
    # Without a loop: there are a hundred thousand values.
    places = compress(count(1), map(ne, known[1:], known))
    return [(place, known[place]) for place in ([0, *places] if known else ())]


def _known(places: Sequence[int], values: Sequence[T | None]) -> list[tuple[int, T]]:
    """Return the values that are known, with their places."""
    return [(place, value) for place, value in zip(places, values, strict=True) if value is not None]


def _range(all_series: Iterable[FigureSeries]) -> list[float]:
    """Return the values that the scale shows."""
    found: list[float] = []
    for series in all_series:
        values = sorted(series.measured)
        cut = int(len(values) * _OUTLIERS)
        found += values[cut : len(values) - cut]
        newest = series.latest
        found += [value for value in (newest.value, newest.limit, newest.oracle) if value is not None]
        found += series.band or ()
    return found


def _scale(all_series: Iterable[FigureSeries]) -> AxisScale:
    """Return the scale of a panel that shows these metrics."""
    return AxisScale(*value_range(_range(all_series)), HEIGHT - 4, 4)


def _y(ys: AxisScale, value: float) -> float:
    """Return the place of a value in pixels. A value beyond the scale is at its edge."""
    return round(min(max(ys(value), 3.0), HEIGHT - 3.0), 1)


def _grid(ys: AxisScale, unit: str) -> tuple[str, str]:
    """Return the lines of the grid, and their values."""
    name, factor = unit_of(ys.high, unit)
    ticks = [(ys(tick), text) for tick, text in ys.labels(factor, most=3)]
    lines = "".join(f'<line x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>' for y, _ in ticks)
    texts = "".join(f'<text x="3" y="{max(y - 2, 10):.1f}">{text} {name}</text>' for y, text in ticks)
    return f'<g class="s-grid thin">{lines}</g>', f'<g class="ticks">{texts}</g>'


def _lines(ys: AxisScale, dots: Points, places: Sequence[int]) -> Iterable[tuple[list[tuple[float, int]], str]]:
    """Yield the lines of one metric, and how each looks."""
    ranged = _known(places, dots.column(INTERVAL))
    if ranged:
        upper = _places(ys, [(index, high) for index, (_, high) in ranged])
        yield upper + _places(ys, [(index, low) for index, (low, _) in reversed(ranged)]), "f-interval"
    yield _steps(ys, _known(places, dots.column(ORACLE))), "s-oracle dots"
    yield _steps(ys, _known(places, dots.column(LIMIT))), "s-limit dash"
    yield _places(ys, _known(places, dots.column(VALUE))), "s-hue0"


def _steps(ys: AxisScale, values: Sequence[tuple[int, float]]) -> list[tuple[float, int]]:
    """Return the corners of a line that is level between changes of the value, as wide as its runs are.

    So a single run has its limit, too.
    """
    corners: list[tuple[float, float]] = []
    starts = changes([bps for _, bps in values])
    for (start, bps), (end, _) in pairwise([*starts, (len(values), 0.0)]):
        corners += [(values[start][0] - 0.5, bps), (values[end - 1][0] + 0.5, bps)]
    return _places(ys, corners)


def _places(ys: AxisScale, values: Sequence[tuple[float, float]]) -> list[tuple[float, int]]:
    """Return the places of values in the units of lines. Inline, because there are hundreds of thousands."""
    if not values:
        return []
    slope = _FINE * (ys.end - ys.start) / (ys.high - ys.low)
    first = _FINE * ys.start - slope * ys.low + 0.5
    top, bottom = 3 * _FINE, (HEIGHT - 3) * _FINE
    indices, rates = zip(*values, strict=True)
    found = [int(first + slope * bps) for bps in rates]
    if min(found) < top or max(found) > bottom:
        found = [min(max(place, top), bottom) for place in found]
    return list(zip(indices, found, strict=True))


def _line(places: Sequence[tuple[float, int]], look: str) -> str:
    """Return a line as SVG, in steps from place to place, which is shorter."""
    if len(places) < 2:
        return ""
    steps = "".join([f"{right - x} {down - y} " for (x, y), (right, down) in pairwise(places)])
    return f'<path class="{look}" d="M{places[0][0]} {places[0][1]}l{steps}"/>'


# ``-g1a2b3c4d5e6f`` or ``+g1a2b3c4``, as scripts/setlocalversion and git describe write it.
_COMMIT = re.compile(r"(?:^|[-+.])g([0-9a-f]{7,40})(?![0-9a-z])")
_EPOCH, _MINUTE = datetime(1970, 1, 1, tzinfo=UTC), timedelta(minutes=1)
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_VERDICTS = {verdict: str(number) for number, verdict in enumerate(SEVERITY)}


@dataclass
class PageLinks:
    """``base`` is the folder of the page (None: the page has no links to files), ``commits`` the URL of a commit.

    ``commits`` has ``{commit}`` in the place of its hash.
    """

    base: Path | None = None
    commits: str = ""
    _known: dict[str, str] = field(default_factory=dict)

    def folder(self, folder: str) -> str:
        """Return the address of a run folder; empty if it is not on this machine (any more)."""
        if folder not in self._known:
            there = bool(folder) and self.base is not None and is_file(Path(folder, "results.json"))
            self._known[folder] = quote(os.path.relpath(folder, self.base)) if there else ""
        return self._known[folder]

    def file(self, folder: str, name: str) -> str:
        """Return the address of a file of a run folder; empty if it is not on this machine (any more)."""
        here = self.folder(folder)
        return f"{here}/{quote(name)}" if here and exists(Path(folder, name)) else ""

    def commit(self, build: Mapping[str, str | None]) -> tuple[str, str]:
        """Return the commit of a build and its address; empty if one of them is not known."""
        found = build.get("commit") or next((m[1] for m in map(_COMMIT.search, filter(None, build.values())) if m), "")
        return (found, self.commits.replace("{commit}", found)) if found and self.commits else ("", "")


class PageData:
    """Collects the values of all combinations. Texts that repeat (builds, folders) are numbered."""

    def __init__(self, links: PageLinks) -> None:
        self._links = links
        self._texts: dict[str, int] = {}
        self._runs: dict[tuple[str, int], int] = {}
        self._run_list: list[list[int | str]] = []
        self._combinations: list[dict[str, object]] = []

    def add(self, key: str, chart: CombinationChart, all_series: Sequence[FigureSeries]) -> None:
        """Add a combination. ``key`` is the HTML id of its section."""
        runs = [self._run(one.run, (one.time - _EPOCH) // _MINUTE, one.folder) for one in chart.runs]
        builds = [[number, self._text(build)] for number, build in chart.builds]
        metrics = [self._metric(chart, series) for series in all_series]
        self._combinations.append({"key": key, "runs": runs, "builds": builds, "metrics": metrics})

    def markup(self) -> Markup:
        """Return all values as JSON that HTML cannot misread."""
        data = {
            "verdicts": [verdict.value for verdict in _VERDICTS], "texts": list(self._texts), "runs": self._run_list,
            "combinations": self._combinations, "counted": "".join(_VERDICTS[one] for one in COUNTED),
        }  # fmt: skip
        return Markup(_ENCODER.encode(data).replace("<", "\\u003c"))

    def _text(self, text: str) -> int:
        return self._texts.setdefault(copyable(text), len(self._texts))

    def _run(self, name: str, minutes: int, folder: str) -> int:
        key = (name, minutes)
        if key not in self._runs:
            self._runs[key] = len(self._run_list)
            self._run_list.append([copyable(name), minutes, self._text(self._links.folder(folder))])
        return self._runs[key]

    def _metric(self, chart: CombinationChart, series: FigureSeries) -> dict[str, object]:
        """Return one metric, a list for each property. Rates are kbit/s; the interval is below and above the value."""
        places, short = chart.places(series), _kilo if series.kind == GOODPUT else _short
        values, verdicts = series.points.column(VALUE), series.points.column(VERDICT)
        ranges = [(value or 0.0, own) for value, own in zip(values, series.points.column(INTERVAL), strict=True)]
        limits = changes(series.points.column(LIMIT))
        return {
            "name": copyable(series.figure),
            "at": places if places != list(range(len(chart.runs))) else 0,
            **({} if series.kind == GOODPUT else {"unit": series.kind.unit, "better": series.kind.better.value}),
            "value": [None if value is None else short(value) for value in values],
            "below": [0 if own is None else short(value - own[0]) for value, own in ranges],
            "above": [0 if own is None else short(own[1] - value) for value, own in ranges],
            "limit": [[number, None if value is None else short(value)] for number, value in limits],
            "verdict": "".join([_VERDICTS[verdict] for verdict in verdicts]),
            "why": {
                number: copyable(first_paragraph(reason))
                for number, (reason, verdict) in enumerate(zip(series.points.column(REASON), verdicts, strict=True))
                if reason and verdict not in GOOD
            },
        }  # fmt: skip


def _kilo(bps: float) -> float:
    """Return a rate in kbit/s with the digits that readers see, because a page has hundreds of thousands."""
    return round(bps / 1e3) if abs(bps) >= 1e6 else round(bps / 1e3, 3)


def _short(value: float) -> float:
    return float(f"{value:.5g}")
