"""Exports and imports the history as JSON lines, one point per line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.points import Attempts, Point, SampleSpread, StoredAttempt, StoredRun
from pytest_pinet.history.records import moment
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.model.verdict import Verdict

FORMAT = "pytest-pinet history"
VERSION = 1


def lines_of(runs: Iterable[tuple[StoredRun, list[Point]]]) -> Iterator[str]:
    """Yield a heading, then each run followed by its points. Times are ISO 8601, rates are in bit/s."""
    yield _line({"format": FORMAT, "version": VERSION})
    for run, points in runs:
        yield _line({"run": _plain(run)})
        for point in points:
            plain = _plain(point)
            # The run's line has these values once for all its points.
            for name in ("lab", "session", "emulated", "folder", "complete", "pinet"):
                del plain[name]
            # The first version had no such keys.
            if not plain["limited_by"]:
                del plain["limited_by"]
            if plain["scale"] == 1:
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
                run, points = _run(entry["run"]), []
            elif run is not None:
                points.append(_point(entry["point"], run))
            else:
                raise ValueError("a point before its run")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{where}:{number}: {type(error).__name__}: {error}; expected lines of 'pinet history export'"
            raise ConfigError(message) from None
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
        raise ValueError(f"version {entry.get('version')!r}, and this pytest-pinet reads {VERSION}: update it")


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _plain(value: StoredRun | Point) -> dict[str, Any]:
    plain = {}
    for one in dataclasses.fields(value):
        found = getattr(value, one.name)
        if isinstance(found, datetime):
            found = found.isoformat()
        elif dataclasses.is_dataclass(found) and not isinstance(found, type):
            found = dataclasses.asdict(found)
        elif isinstance(found, Verdict):
            found = found.value
        elif not isinstance(found, (str, int, float, type(None), tuple)):
            found = dict(found)
        plain[one.name] = found
    return plain


def _known(kind: type, plain: dict[str, Any]) -> dict[str, Any]:
    names = {one.name for one in dataclasses.fields(kind)}
    return {key: value for key, value in plain.items() if key in names}


def _run(plain: dict[str, Any]) -> StoredRun:
    times = {name: moment(plain[name]) for name in ("started", "finished")}
    return StoredRun(**_known(StoredRun, plain) | times)


def _point(plain: dict[str, Any], run: StoredRun) -> Point:
    own = _known(Point, plain)
    for name in ("lab", "session", "emulated", "folder", "complete", "pinet"):
        own[name] = getattr(run, name)
    own["time"] = moment(own["time"])
    own["verdict"] = Verdict(own["verdict"])
    own["artefacts"] = tuple(own["artefacts"])
    each = tuple(StoredAttempt(**_known(StoredAttempt, one)) for one in own["attempts"]["each"])
    own["attempts"] = Attempts(**_known(Attempts, own["attempts"]) | {"each": each})
    if own["interval_bps"] is not None:
        low, high = own["interval_bps"]
        own["interval_bps"] = (low, high)
    if own["spread"] is not None:
        own["spread"] = SampleSpread(**_known(SampleSpread, own["spread"]))
    if own["run"] != run.id:
        raise ValueError(f"a point of run {own['run']!r} below run {run.id!r}")
    return Point(**own)
