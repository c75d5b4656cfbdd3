"""Converts trends of the history to the series that charts and pages draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.builds import name_of
from pytest_pinet.history.history import open_history
from pytest_pinet.history.points import Point, Trend
from pytest_pinet.history.records import points_of
from pytest_pinet.history.results_file import read_whole_run
from pytest_pinet.history.trends import trend
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.allure.content import figure_ids
from pytest_pinet.report.allure.run_files import RunFacts
from pytest_pinet.report.rows import limited_by_text
from pytest_pinet.report.series import FigureSeries

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import AcceptedBaseline
    from pytest_pinet.history.store import HistoryStore

# Runs are counted up to this number, which only orders them.
_MOST_RUNS = 100_000
# The current run: its points are not in the history yet.
THIS_RUN = "this run"


def series_of(found: Trend, combination: str) -> FigureSeries:
    """Return the trend of a metric as a series for charts and pages."""
    board, _, rest = combination.partition(":")
    nic, _, rest = rest.partition("/")
    topology, _, tuning = rest.partition("/")
    last = found.points[-1].direction if found.points else ""
    traffic = found.figure.removeprefix(combination).lstrip("/").removesuffix(f"-{last}" if last else "")
    band = None
    if found.baseline is not None:
        runs = [run.bps for run in found.baseline.runs]
        band = (min(runs), found.baseline.goodput.bps, max(runs))
    return FigureSeries(
        found.figure, board, nic, topology, traffic, last,
        found.points, found.changes, band, found.lab, tuning,
    )  # fmt: skip


def all_series(history: HistoryStore, last: int, lab: str | None = None) -> list[FigureSeries]:
    """Return a series for every metric of the history, with its newest ``last`` points."""
    return [
        series_of(history.trend(figure.id, last, figure.lab), figure.combination) for figure in history.figures(lab)
    ]


def series_with(
    history: HistoryStore | None, results: Sequence[ResultRecord], last: int, emulated: bool
) -> list[FigureSeries]:
    """Return the trends of these results, with the results as their newest points."""
    found = []
    for result in results:
        combination = result.combination.id
        for way, figure in figure_ids(result).items():
            past = Trend(figure, "", ())
            if history is not None:
                past = history.trend(figure, last)
            series = series_of(past, combination)
            found.append(_with(series, result, way, emulated))
    return found


def _with(series: FigureSeries, result: ResultRecord, way: str, emulated: bool) -> FigureSeries:
    one = result.directions[way]
    low_high = one.interval_bps
    combination = result.combination
    point = Point(
        THIS_RUN, datetime.fromisoformat(result.started), "", series.figure, combination.id, way,
        one.goodput_bps, Verdict(one.verdict), (low_high[0], low_high[1]) if low_high else None,
        one.limit_bps, one.rule, one.oracle_bps, one.reason, result.build, emulated=emulated,
        limited_by=limited_by_text(result), scale=1.0 if result.scale is None else result.scale,
    )  # fmt: skip
    return FigureSeries(
        series.figure, combination.board, combination.nic, combination.topology, combination.traffic, way,
        [*series.dots, point], series.shifts, series.band_bps, tuning=combination.tuning,
    )  # fmt: skip


def series_of_runs(root: Path, baselines: Mapping[str, AcceptedBaseline], last: int) -> list[FigureSeries]:
    """Return the trends of the run folders below ``root/.pinet``, for labs without a history. Raises ConfigError."""
    points: dict[tuple[str, str], list[Point]] = {}
    paths = sorted((root / ".pinet" / "runs").glob("*/results.json"))[-last:]
    for path in paths:
        run = read_whole_run(path)
        for point in points_of(run, str(path.parent), str(path))[1] if run is not None else ():
            points.setdefault((point.figure, point.lab), []).append(point)
    return [
        series_of(trend(figure, lab, sorted(own, key=lambda p: p.time), baselines.get(figure)), own[-1].combination)
        for (figure, lab), own in sorted(points.items())
    ]


def run_facts(record: RunRecord, url: str | None) -> RunFacts:
    """Return what the history knows about a run."""
    run, points = points_of(record)
    build = next((name_of(point.build) for point in points if point.build), "")
    try:
        with open_history(url) if url is not None else nullcontext() as history:
            known = [one.id for one in history.runs(_MOST_RUNS)] if history is not None else []
    except ConfigError:
        known = []
    return RunFacts(run.id, build, len({*known, run.id}) if known else None)
