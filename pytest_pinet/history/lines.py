"""Exports and imports the history as JSON lines, one point per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.points import Point, StoredRun
from pytest_pinet.history.results_file import first_problem, in_utc

if TYPE_CHECKING:
    from pytest_pinet.history.store import HistoryStore

FORMAT = "pytest-pinet history"
VERSION = 1
# Fields of a point that the run's line has once for all its points.
_OF_RUN = ("lab", "session", "emulated", "folder", "complete", "pinet")
_RUN, _POINT = TypeAdapter(StoredRun), TypeAdapter(Point)


def lines_of(runs: Iterable[tuple[StoredRun, list[Point]]]) -> Iterator[str]:
    """Yield a heading, then each run followed by its points. Times are ISO 8601, rates are in bit/s."""
    yield _line({"format": FORMAT, "version": VERSION})
    for run, points in runs:
        yield _line({"run": asdict(run)})
        for point in points:
            plain = asdict(point)
            for name in _OF_RUN:
                del plain[name]
            # The first version had no such keys.
            if not point.limited_by:
                del plain["limited_by"]
            if point.scale == 1:
                del plain["scale"]
            yield _line({"point": plain})


def runs_of(lines: Iterable[str], where: str) -> Iterator[tuple[StoredRun, list[Point]]]:
    """Read lines that `lines_of` wrote; unknown keys are ignored. ``where`` names the file in messages.

    Raises ConfigError with the line number.
    """
    run: StoredRun | None = None
    points: list[Point] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if number == 1:
                _check_heading(entry)
            elif "run" in entry:
                if run is not None:
                    yield run, points
                run, points = _RUN.validate_python(entry["run"]), []
                run = replace(run, started=in_utc(run.started), finished=in_utc(run.finished))
            elif run is not None:
                points.append(_point(entry["point"], run))
            else:
                raise ValueError("a point comes before its run")
        except (ValueError, KeyError, TypeError) as error:
            why = first_problem(error) if isinstance(error, ValidationError) else f"{type(error).__name__}: {error}"
            raise ConfigError(f"{where}:{number}: {why}; expected lines of 'pinet history export'") from None
    if run is not None:
        yield run, points


def import_lines(store: HistoryStore, lines: Iterable[str], where: str) -> tuple[int, int]:
    """Store all runs that are not stored yet. Return how many were new, and how many the lines held."""
    new = seen = 0
    batch: list[tuple[StoredRun, list[Point]]] = []
    for run, points in runs_of(lines, where):
        batch.append((run, points))
        seen += 1
        if sum(len(one) for _, one in batch) >= 5000:
            new += store.add_all(batch)
            batch = []
    return new + store.add_all(batch), seen


def _check_heading(entry: Any) -> None:
    if not isinstance(entry, dict) or entry.get("format") != FORMAT:
        raise ValueError("no heading")
    if entry.get("version") != VERSION:
        raise ValueError(f"version {entry.get('version')!r}, but pytest-pinet reads {VERSION}: update pytest-pinet")


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, default=datetime.isoformat, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _point(plain: dict[str, Any], run: StoredRun) -> Point:
    point = _POINT.validate_python(plain | {name: getattr(run, name) for name in _OF_RUN})
    if point.run != run.id:
        raise ValueError(f"a point of run {point.run!r} follows run {run.id!r}")
    return replace(point, time=in_utc(point.time))
