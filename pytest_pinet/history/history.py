"""Opens the history, saves runs into it, and writes and reads it as lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.text import parse_json
from pytest_pinet.history.points import Point, StoredRun
from pytest_pinet.history.records import check_point, check_run, points_of
from pytest_pinet.history.results_file import first_problem, in_utc, read_run, record_of
from pytest_pinet.model.record.result import RunRecord

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import Reviewed
    from pytest_pinet.history.store import HistoryStore


OFF = ("off", "none", "no")
MISSING = "history needs SQLAlchemy: pip install 'SQLAlchemy>=2.0'"


def open_history(url: str, create: bool = False, reviewed: Reviewed | None = None) -> HistoryStore:
    """Open a history. ``url`` is an SQLite path or a URL (``postgresql://user@host/name``).

    ``create``: make missing files and tables. ``reviewed`` is what users decided about the metrics of a
    lab (`config.baselines.load_reviewed`). Raises ConfigError if there is no history, if it is off, or if SQLAlchemy is
    not installed.
    """
    if url.strip().lower() in OFF:
        raise ConfigError(f"the history is '{url}': runs are not stored; name a history with --history")
    try:
        from pytest_pinet.history.store import HistoryStore
    except ImportError:
        raise ConfigError(MISSING) from None
    return HistoryStore.open(url, create) if reviewed is None else HistoryStore.open(url, create, reviewed)


DEFAULT = "history.db"


def keep_run(url: str | None, run: RunRecord, folder: Path) -> str | None:
    """Store a run in the history at ``url`` (None: ``.pinet/history.db``, beside the run folders).

    Returns a message for the user if that failed, else None.
    """
    if url is not None and url.strip().lower() in OFF:
        return None
    target = url or str(folder.parent.parent / DEFAULT)
    try:
        record, points = points_of(run, str(folder), "the run's record")
        with open_history(target, create=True) as store:
            store.add(record, points)
            with suppress(ConfigError):
                store.find_changes({(point.figure, point.lab) for point in points})
    except ConfigError as error:
        return f"{error}\nthis run is not in the history; later: pinet history import {folder / 'results.json'}"
    return None


def import_killed(store: HistoryStore, path: Path) -> tuple[bool, str]:
    """Store a killed run from its ``results.jsonl``. Return whether it is new, and a note on lines that are left out.

    If a ``results.json`` exists, the run ended after all, and that file is stored. Raises ConfigError.
    """
    whole = path.with_name("results.json")
    if whole.exists():
        return import_results(store, whole), ""
    record, left_out = record_of(path)
    run, points = points_of(record, str(path.parent.absolute()), str(path))
    return store.add(run, points), "; ".join(left_out)


def import_results(store: HistoryStore, path: Path) -> bool:
    """Store the run of a ``results.json``. Return False if it is stored already. Raises ConfigError."""
    run, points = points_of(read_run(path), str(path.parent.absolute()), str(path))
    return store.add(run, points)


FORMAT = "pytest-pinet history"
VERSION = 3
_POINT = TypeAdapter(Point)


def lines_of(runs: Iterable[tuple[StoredRun, list[Point]]]) -> Iterator[str]:
    """Yield a heading, then each run followed by its points. Times are ISO 8601, values in the unit of their kind."""
    yield _line({"format": FORMAT, "version": VERSION})
    for run, points in runs:
        yield _line({"run": run.dump()})
        for point in points:
            own = _POINT.dump_python(point, mode="json", exclude=set(run.of_points), exclude_defaults=True)
            yield _line({"point": own})


def runs_of(lines: Iterable[str], where: str, refuse: Callable[[str], None]) -> Iterator[tuple[StoredRun, list[Point]]]:
    """Read lines that `lines_of` wrote; unknown keys are ignored. ``where`` names the file in messages.

    A run with a broken line is left out, and ``refuse`` gets a sentence about it. Raises ConfigError if the first line
    is no heading.
    """
    run: StoredRun | None = None
    points: list[Point] = []
    # Whether the next points are of a run that is left out.
    is_broken = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = parse_json(line)
            if number == 1:
                _check_heading(entry)
            elif isinstance(entry, dict) and "run" in entry:
                if run is not None:
                    yield run, points
                run, points, is_broken = None, [], True
                run, is_broken = _run(entry["run"]), False
            elif not isinstance(entry, dict) or "point" not in entry:
                raise ValueError("this is neither a run nor a point")
            elif run is not None:
                points.append(_point(entry["point"], run))
            elif not is_broken:
                raise ValueError("a point comes before its run")
        except (ValueError, TypeError, OverflowError) as error:
            why = first_problem(error) if isinstance(error, ValidationError) else str(error)
            message = f"{where}:{number}: {why}; expected lines of 'pinet history export'"
            if number == 1:
                raise ConfigError(message) from None
            refuse(message + (f"; run {run.id} is left out" if run is not None else ""))
            run, is_broken = None, True
    if run is not None:
        yield run, points


def import_lines(
    store: HistoryStore, lines: Iterable[str], where: str, refuse: Callable[[str], None]
) -> tuple[int, int]:
    """Store all runs that are not stored yet. Return how many were new, and how many the lines held.

    ``refuse`` gets a sentence about each run that is left out.
    """
    new = seen = 0
    batch: list[tuple[StoredRun, list[Point]]] = []
    for run, points in runs_of(lines, where, refuse):
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
    text = json.dumps(entry, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # "##[" is a command of CI systems, which `for_log` would change. This is the same text for readers of JSON.
    return text.replace("##", "#\\u0023")


def _run(plain: object) -> StoredRun:
    # Strict for JSON: a text is no number, but times, tuples and verdicts are texts and lists.
    run = StoredRun.model_validate_json(json.dumps(plain), strict=True)
    check_run(run)
    return run


def _point(plain: object, run: StoredRun) -> Point:
    if not isinstance(plain, dict):
        raise ValueError("a point is no mapping")
    point = _POINT.validate_json(json.dumps({**plain, **run.of_points}), strict=True)
    check_point(point)
    return replace(point, time=in_utc(point.time))
