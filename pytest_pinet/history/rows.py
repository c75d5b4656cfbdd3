"""Converts table rows to points and runs, and back. This module does not use a database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pytest_pinet.history.points import Attempts, Figure, Point, SampleSpread, StoredAttempt, StoredRun
from pytest_pinet.model.verdict import Verdict

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Made once, because json.dumps would make an encoder for each of thousands of values.
_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
# The fields that neighbouring points have in common.
_SHARED = ("build", "serials", "versions", "parameters", "rule")


def instant(time: datetime) -> int:
    """Return microseconds since 1970; exact, unlike ``timestamp()``."""
    return (time - _EPOCH) // _MICROSECOND


def time_of(microseconds: int) -> datetime:
    """Return the time of a value of `instant`."""
    return _EPOCH + microseconds * _MICROSECOND


def run_row(run: StoredRun) -> dict[str, Any]:
    """Return a run as a row of RUNS."""
    return {
        "id": run.id,
        "lab": clean(run.lab),
        "started": instant(run.started),
        "finished": instant(run.finished),
        "emulated": run.emulated,
        "complete": run.complete,
        "exitstatus": run.exitstatus,
        "pinet": run.pinet,
        "folder": clean(run.folder),
        "session": run.session,
        "verdicts": as_json(run.verdicts),
        "skipped": run.skipped,
    }


def context_of(point: Point) -> str:
    """Return the fields that a point has in common with its neighbours; the same text for the same content."""
    return as_json({name: _plain(getattr(point, name)) for name in _SHARED})


def point_row(point: Point, run: int, series: int, context: int) -> dict[str, Any]:
    """Return a point as a row of POINTS. The numbers are keys of other tables."""
    low, high = point.interval_bps or (None, None)
    more: dict[str, Any] = {}
    if point.attempts.connections:
        more["attempts"] = [[one.fresh, one.goodput_bps, one.seconds, one.excluded] for one in point.attempts.each]
    if point.attempts.state:
        more["state"] = point.attempts.state
    if point.spread is not None:
        one = point.spread
        more["spread"] = [one.intervals, one.least_bps, one.median_bps, one.most_bps, one.sd_bps]
    if point.artefacts:
        more["artefacts"] = list(point.artefacts)
    if point.limited_by:
        more["limited_by"] = clean(point.limited_by)
    if point.scale != 1:
        more["scale"] = point.scale
    return {
        "series": series,
        "time": instant(point.time),
        "run": run,
        "number": point.number,
        "context": context,
        "goodput": point.goodput_bps,
        "low": low,
        "high": high,
        "limit_bps": point.limit_bps,
        "oracle": point.oracle_bps,
        "verdict": point.verdict.value,
        "reason": clean(point.reason),
        "more": as_json(more),
    }


def point_of(row: Any, run: Any, series: Any, context: Mapping[str, Any]) -> Point:
    """Return the point of a row."""
    more = json.loads(row.more)
    return Point(
        run.id,
        time_of(row.time),
        series.lab,
        series.figure,
        series.combination,
        series.direction,
        row.goodput,
        Verdict(row.verdict),
        None if row.low is None else (row.low, row.high),
        row.limit_bps,
        context["rule"],
        row.oracle,
        row.reason,
        context["build"],
        context["serials"],
        context["versions"],
        context["parameters"],
        run.session,
        bool(run.emulated),
        tuple(more.get("artefacts", ())),
        run.folder,
        Attempts(tuple(StoredAttempt(*one) for one in more.get("attempts", ())), more.get("state", "")),
        SampleSpread(*more["spread"]) if "spread" in more else None,
        row.number,
        bool(run.complete),
        run.pinet,
        more.get("limited_by", ""),
        more.get("scale", 1.0),
    )


def figure_of(row: Any) -> Figure:
    """Return the metric of a row of SERIES."""
    return Figure(row.figure, row.lab, row.combination, row.direction, row.points, time_of(row.newest))


def run_of(row: Any) -> StoredRun:
    """Return the run of a row of RUNS."""
    return StoredRun(
        row.id,
        row.lab,
        time_of(row.started),
        time_of(row.finished),
        bool(row.emulated),
        bool(row.complete),
        row.exitstatus,
        row.pinet,
        row.folder,
        row.session,
        json.loads(row.verdicts),
        row.skipped,
    )


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def as_json(value: Any) -> str:
    """Return short ASCII JSON; the same text for the same value."""
    return _ENCODER.encode(value)


def clean(text: str) -> str:
    """Return text that every database accepts: no lone surrogates of undecodable bytes, and no NUL."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
