"""From the history's trends to what charts and pages draw."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.builds import name_of
from pytest_pinet.history.points import Change, History, Point, Trend
from pytest_pinet.history.records import points_of
from pytest_pinet.history.trends import trend
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.allure.content import figure_ids
from pytest_pinet.report.allure.run_files import RunFacts
from pytest_pinet.report.record import ResultRecord, RunRecord
from pytest_pinet.report.rows import limited_by_text
from pytest_pinet.report.series import Dot, Series, Shift

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import AcceptedBaseline

# Runs are counted up to so many; the number only orders them.
_MOST_RUNS = 100_000
# The run that is going on: its points are not in the history yet.
THIS_RUN = "this run"


def series_of(found: Trend, combination: str) -> Series:
    """A figure's trend, as charts and pages want it."""
    board, _, rest = combination.partition(":")
    nic, _, rest = rest.partition("/")
    topology, _, tuning = rest.partition("/")
    last = found.points[-1].direction if found.points else ""
    traffic = found.figure.removeprefix(combination).lstrip("/").removesuffix(f"-{last}" if last else "")
    accepted = found.baseline
    band = (accepted.low_bps, accepted.figure_bps, accepted.high_bps) if accepted is not None else None
    return Series(
        found.figure, board, nic, topology, traffic, last,
        [_dot(point) for point in found.points],
        [_shift(change) for change in found.changes],
        band,
        found.lab,
        tuning,
    )  # fmt: skip


def _dot(point: Point) -> Dot:
    return Dot(
        point.run, point.time, point.goodput_bps, point.verdict, point.interval_bps, point.limit_bps, point.oracle_bps,
        name_of(point.build), point.build.get("driver") or "", point.rule or "", point.reason, point.emulated,
        point.limited_by, point.scale,
    )  # fmt: skip


def _shift(change: Change) -> Shift:
    return Shift(
        change.run, change.before_bps, change.after_bps, name_of(change.build_before), name_of(change.build_after),
        change.gradual, "; ".join(change.differs),
    )  # fmt: skip


def all_series(history: History, last: int, lab: str | None = None) -> list[Series]:
    """Every figure of the history, newest ``last`` points each."""
    return [
        series_of(history.trend(figure.id, last, figure.lab), figure.combination) for figure in history.figures(lab)
    ]


def series_with(history: History | None, results: Sequence[ResultRecord], last: int, emulated: bool) -> list[Series]:
    """The trends of these results' figures, with the results themselves as their newest points."""
    found = []
    for result in results:
        combination = result["combination"]["id"]
        for way, figure in figure_ids(result).items():
            past = Trend(figure, "", ())
            if history is not None:
                past = history.trend(figure, last)
            series = series_of(past, combination)
            found.append(_with(series, result, way, emulated))
    return found


def _with(series: Series, result: ResultRecord, way: str, emulated: bool) -> Series:
    one = result["directions"][way]
    low_high = one["interval_bps"]
    dot = Dot(
        THIS_RUN, datetime.fromisoformat(result["started"]), one["goodput_bps"], Verdict(one["verdict"]),
        (low_high[0], low_high[1]) if low_high else None, one["limit_bps"], one["oracle_bps"],
        name_of(result["build"]), result["build"].get("driver") or "", one["rule"] or "", one["reason"], emulated,
        limited_by_text(result), result.get("scale", 1.0),
    )  # fmt: skip
    combination = result["combination"]
    return Series(
        series.figure, combination["board"], combination["nic"], combination["topology"], combination["traffic"], way,
        [*series.dots, dot], series.shifts, series.band_bps, tuning=combination.get("tuning", ""),
    )  # fmt: skip


def series_of_runs(root: Path, baselines: Mapping[str, AcceptedBaseline], last: int) -> list[Series]:
    """The trends from the run folders below ``root/.pinet``: what there is without a history. Raises ConfigError."""
    points: dict[tuple[str, str], list[Point]] = {}
    paths = sorted((root / ".pinet" / "runs").glob("*/results.json"))[-last:]
    for path in paths:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            # Of a run that was killed.
            continue
        for point in points_of(record, str(path.parent), str(path))[1]:
            points.setdefault((point.figure, point.lab), []).append(point)
    return [
        series_of(trend(figure, lab, sorted(own, key=lambda p: p.time), baselines.get(figure)), own[-1].combination)
        for (figure, lab), own in sorted(points.items())
    ]


def run_facts(record: RunRecord, url: str | None) -> RunFacts:
    """What the history knows a run by."""
    run, points = points_of(record)
    build = next((name_of(point.build) for point in points if point.build), "")
    try:
        with History.open(url) if url is not None else nullcontext() as history:
            known = [one.id for one in history.runs(_MOST_RUNS)] if history is not None else []
    except ConfigError:
        known = []
    return RunFacts(run.id, build, len({*known, run.id}) if known else None)
