"""Trends of the history: the series that charts and pages draw, and the lines of the summary."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.differences import name_of
from pytest_pinet.history.history import open_history
from pytest_pinet.history.losses import MetricLevel, level_of
from pytest_pinet.history.points import LONG_LENGTH, VALUE, Point, PointList, Trend, metric_id
from pytest_pinet.history.records import metrics_of, points_of, value_of
from pytest_pinet.history.results_file import read_whole_run
from pytest_pinet.history.text import ASCII_HEIGHTS, spark
from pytest_pinet.history.trends import trend
from pytest_pinet.model.metric_key import CombinationId, within
from pytest_pinet.model.quantities import amount
from pytest_pinet.model.record.change import EXACT
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import SEVERITY
from pytest_pinet.report.sentences import limited_by_text
from pytest_pinet.report.text_wrap import WIDTH, plain, shorten

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import Reviewed
    from pytest_pinet.history.store import HistoryStore

_RUNS = 16
# At most this many lines, the worst first. Reports show all.
_LINES = 40
_LABEL, _GAP = 34, "  "
# Runs are counted up to this number, which only orders them.
_MOST_RUNS = 100_000
_UNKNOWN = MetricLevel()
# The current run: its points are not in the history yet.
THIS_RUN = "this run"


@dataclass(frozen=True, kw_only=True)
class FigureSeries(Trend):
    """The trend of a metric, with its name in parts.

    ``level`` has the change since the baseline and since the best month, and the loss that did not recover.
    """

    combination: CombinationId
    traffic: str
    direction: str
    level: MetricLevel = _UNKNOWN

    @property
    def key(self) -> str:
        """Return a unique key. It contains the lab, because several labs may measure the same metric."""
        return f"{self.lab} {self.figure}"

    @property
    def latest(self) -> Point:
        """Return the newest run, which the grid shows."""
        return self.points[-1]

    @property
    def band(self) -> tuple[float, float, float] | None:
        """Return the baseline: its lowest run, the accepted value, its highest run."""
        if self.baseline is None:
            return None
        runs = [amount(run) for run in self.baseline.runs]
        return min(runs), amount(self.baseline.value), max(runs)

    @cached_property
    def measured(self) -> Sequence[float]:
        """Return the value of each run that has one."""
        return [value for value in self.points.column(VALUE) if value is not None]


@dataclass(frozen=True)
class RunFacts:
    """What the history knows about a run: its id, its build, and the number of runs so far (None: unknown).

    ``losses`` are lines about the losses of its lab, the first one a heading; empty if there is none. ``series``
    has the stored runs of each of its metrics.
    """

    id: str
    build: str
    order: int | None = None
    losses: Sequence[str] = ()
    series: Sequence[FigureSeries] = ()


def series_of(found: Trend, combination: str, level: MetricLevel) -> FigureSeries:
    """Return the trend of a metric, whose level is this, as a series for charts and pages."""
    last = found.points[-1].direction if found.points else ""
    traffic = within(found.figure, combination).removesuffix(f"-{last}" if last else "")
    own = {field.name: getattr(found, field.name) for field in fields(found)}
    of = CombinationId.parse(combination)
    return FigureSeries(**own, combination=of, traffic=traffic, direction=last, level=level)


def all_series(history: HistoryStore, last: int) -> list[FigureSeries]:
    """Return a series for every metric of the history, with its newest ``last`` points.

    The level of a metric that lost something, or may have, comes from more points. A loss older than the chart is
    shown, too.
    """
    today = datetime.now(UTC).date()
    best = history.best_levels() if last < LONG_LENGTH else {}
    shown = [
        (combination, found, level_of(found, today))
        for combination, found in history.trends(last)
        if not _of_gates(combination)
    ]
    lower = {
        (found.figure, found.lab)
        for _, found, level in shown
        # Fewer points are all points of the metric.
        if len(found.points) == last
        and (
            level.loss is not None
            or (found.baseline is not None and level.is_below(found.kind.rate(amount(found.baseline.value))))
            or level.is_below(best.get((found.figure, found.lab), 0.0))
        )
    }
    longer = history.trends(LONG_LENGTH, only=lower) if lower and last < LONG_LENGTH else ()
    levels = {(found.figure, found.lab): level_of(found, today) for _, found in longer}
    return [
        series_of(found, combination, levels.get((found.figure, found.lab), level))
        for combination, found, level in shown
    ]


def _of_gates(combination: str) -> bool:
    """Return whether this is an exact board. Its values belong to gated builds, which no trend can join."""
    return CombinationId.parse(combination).board == EXACT


def series_with(
    history: HistoryStore | None, results: Sequence[ResultRecord], last: int, emulated: bool
) -> list[FigureSeries]:
    """Return the trends of these results: their ``last`` earlier points, and the results as the newest points."""
    found = []
    today = datetime.now(UTC).date()
    for result in results:
        for way in metrics_of(result):
            figure = metric_id(result.id, way)
            past = Trend(figure, "", PointList()) if history is None else history.trend(figure, max(last, LONG_LENGTH))
            point = _point(result, way, figure, emulated)
            shown = past.points[-last:]
            shifts = tuple(shift for shift in past.changes if any(dot.run == shift.run for dot in shown))
            drawn = replace(past, points=PointList([*shown, point]), changes=shifts)
            # The level is that of the earlier runs: it says nothing about this one yet.
            found.append(series_of(drawn, result.combination.id, level_of(past, today)))
    return found


def _point(result: ResultRecord, way: str, figure: str, emulated: bool) -> Point:
    return Point(
        run=THIS_RUN, time=datetime.fromisoformat(result.started), lab="", figure=figure, direction=way,
        combination=result.combination.id, build=result.build, emulated=emulated,
        limited_by=limited_by_text(result), scale=result.scale or 1.0, **value_of(result, way),
    )  # fmt: skip


def series_of_runs(root: Path, reviewed: Reviewed, last: int) -> list[FigureSeries]:
    """Return the trends of the run folders below ``root/.pinet``, for labs without a history. Raises ConfigError."""
    points: dict[tuple[str, str], PointList] = {}
    paths = sorted((root / ".pinet" / "runs").glob("*/results.json"))[-last:]
    for path in paths:
        run = read_whole_run(path)
        for point in points_of(run, str(path.parent), str(path))[1] if run is not None else ():
            points.setdefault((point.figure, point.lab), PointList()).append(point)
    today = datetime.now(UTC).date()
    found = []
    for (figure, lab), own in sorted(points.items()):
        if _of_gates(own[-1].combination):
            continue
        own.sort(key=lambda point: point.time)
        past = trend(figure, lab, own, reviewed)
        found.append(series_of(past, own[-1].combination, level_of(past, today)))
    return found


def run_facts(record: RunRecord, url: str | None, last: int) -> RunFacts:
    """Return what the history knows about a run, with the newest ``last`` points of its metrics."""
    run, points = points_of(record)
    build = next((name_of(point.build) for point in points if point.build), "")
    known: list[str] = []
    series: list[FigureSeries] = []
    # No history exists before the first run or without SQLAlchemy.
    with suppress(ConfigError), open_history(url) if url is not None else nullcontext() as history:
        if history is not None:
            known = [one.id for one in history.runs(_MOST_RUNS)]
            trends = history.trends(last, only={(point.figure, point.lab) for point in points})
            series = [series_of(one, of, _UNKNOWN) for of, one in trends if not _of_gates(of)]
    return RunFacts(run.id, build, len({*known, run.id}) if known else None, series=series)


def trend_lines(url: str | None, results: Sequence[ResultRecord], lab: str, heights: str = ASCII_HEIGHTS) -> list[str]:
    """Return a line for each metric with earlier runs, worst first. No lines without a history.

    ``heights`` are the characters of the course, the lowest first.
    """
    if url is None or not results:
        return []
    figures = {metric_id(result.id, way): verdict for result in results for way, verdict in metrics_of(result).items()}
    ordered = sorted(figures, key=lambda figure: (SEVERITY.index(figures[figure]), figure))[:_LINES]
    try:
        with open_history(url) as history:
            found = [history.trend(figure, lab=lab) for figure in ordered]
    except ConfigError:
        # The summary already explains why there is no history.
        return []
    known = [trend for trend in found if sum(point.value is not None for point in trend.points) > 1]
    if not known:
        return []
    labels = shorten([plain(trend.figure) for trend in known], _LABEL)
    widest = max(map(len, labels.values()))
    head = ["", f"trend of the last {_RUNS} runs, newest at the right (!: failed):"]
    return [*head, *(_line(labels[plain(trend.figure)].ljust(widest), trend, heights) for trend in known)]


def _line(label: str, trend: Trend, heights: str) -> str:
    course = spark([point for point in trend.points if point.value is not None][-_RUNS:], heights)
    line = f"{label}{_GAP}[{course}]"
    if trend.changes:
        change = trend.changes[-1]
        word = "drifting to" if change.gradual else "with"
        line += f"{_GAP}{change.relative * 100:+.1f} % {word} {name_of(change.build_after).partition(' ')[0]}"
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 2]}.."
