"""Finds the runs that a user names: a file, a run folder, a run of the history, or a build."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_pinet.cli.command import say
from pytest_pinet.errors import ConfigError, sentence
from pytest_pinet.execution.files import exists, is_file, is_folder
from pytest_pinet.execution.names import unknown
from pytest_pinet.execution.text import parse_json
from pytest_pinet.history.compare import RunSet
from pytest_pinet.history.history import open_history
from pytest_pinet.history.points import Point
from pytest_pinet.history.records import points_of
from pytest_pinet.history.results_file import LINES, content_of, read_run, record_of, run_of
from pytest_pinet.model.record.result import RunRecord

if TYPE_CHECKING:
    from pytest_pinet.history.store import HistoryStore

LATEST = ".pinet/latest"
FORM = "a results.json, a run folder, a run of the history ('latest', 'latest~1', an id), or a build ('6.12.25')"
# The number of runs to search for a build.
_SEARCHED = 500


def results_file(what: str) -> Path | None:
    """Return the results file of a path; None if there is no such path. A killed run left results.jsonl only."""
    if not what.strip():
        raise ConfigError(f"the name of a run is empty; expected {FORM}")
    path = Path(what)
    if is_folder(path):
        found = next((path / name for name in ("results.json", LINES) if exists(path / name)), None)
        if found is None:
            raise ConfigError(f"{what} has no results.json; expected a run folder such as {LATEST}")
        return found
    if exists(path) and not is_file(path):
        raise ConfigError(f"{what} is not a regular file; expected {FORM}")
    return path if is_file(path) else None


def read_results(path: Path) -> RunRecord:
    """Read a whole results.json, or the remains of a killed run. Raises ConfigError."""
    record, left_out = record_of(path) if path.name == LINES else (read_run(path), [])
    for why in left_out:
        say(f"pinet: {sentence(f'{path}: {why}')}")
    # Refuse impossible values.
    points_of(record, where=str(path))
    return record


def named_run(what: str, example: str = f" such as {LATEST}") -> tuple[RunRecord, Path]:
    """Return the run of a path, and its folder. Raises ConfigError."""
    path = results_file(what)
    if path is None:
        raise ConfigError(f"there is no {what!r}; expected a results.json or a run folder{example}")
    return read_results(path), path.parent


def side_of(what: str, history_url: str) -> RunSet:
    """Return the points that ``what`` names. Raises ConfigError."""
    path = results_file(what)
    if path is not None:
        run, points = points_of(read_results(path), str(path.parent), str(path), alternated=True)
        return RunSet(run.id if what in (LATEST, f"{LATEST}/") else what, tuple(points))
    if "/" in what or what.endswith(".json"):
        raise ConfigError(f"there is no file {what!r}; expected {FORM}")
    with open_history(history_url) as store:
        return _from_history(store, what)


def _from_history(store: HistoryStore, what: str) -> RunSet:
    name, _, back = what.partition("~")
    if name == "latest" and re.fullmatch("[0-9]{0,6}", back):
        number = int(back or 0)
        runs = store.runs(number + 1)
        if len(runs) <= number:
            raise ConfigError(f"history {store.shown} has only {len(runs)} runs, so there is no {what!r}")
        return RunSet(runs[0].id, tuple(store.points_of(runs[0].id)))
    runs = store.runs(2, start=what)
    if len(runs) > 1 and runs[0].id != what and runs[1].id != what:
        raise ConfigError(
            f"several runs begin with {what!r}: {runs[0].id}, {runs[1].id}; expected more characters of the id"
        )
    if runs:
        run = next((one for one in runs if one.id == what), runs[0])
        return RunSet(run.id, tuple(store.points_of(run.id)))
    points = [point for run in store.runs(_SEARCHED) for point in store.points_of(run.id) if _is_of(point, what)]
    if not points:
        raise ConfigError(f"history {store.shown} has no run and no build {what!r}; expected {FORM}")
    return RunSet(what, tuple(points))


def _is_of(point: Point, build: str) -> bool:
    words: Sequence[str] = " ".join(value for value in point.build.values() if value).split()
    return any(word.strip("#").startswith(build) for word in words)


def latest_change(runs: Path) -> tuple[RunRecord, Path] | None:
    """Return the newest run that gated a change, and its folder. Such runs are not part of any trend.

    A merged run has the name of its first shard, but a folder of its own.
    """
    for path in sorted(runs.glob("*/results.json"), reverse=True):
        try:
            data = parse_json(content_of(path))
        except (OSError, ValueError):
            # The file of a killed run.
            continue
        # Thousands of runs without a change are not worth a check of all their values.
        if isinstance(data, dict) and "change" in data:
            return run_of(data, str(path)), path.parent
    return None


def results_of(history: HistoryStore, lab: str, names: Sequence[str]) -> list[str]:
    """Return the IDs of a lab's results with goodput that match one of the ``names`` (ids or globs); all without names.

    Raises ConfigError for a name that matches nothing, and for a lab without results.
    """
    there = [figure.id for figure in history.figures(lab) if figure.direction]
    if not there:
        labs = ", ".join(sorted({figure.lab for figure in history.figures()})) or "none"
        message = f"history {history.shown} has no results of lab {lab}; it has results of: {labs}"
        raise ConfigError(f"{message}. Choose another lab file with --lab, or another history with --history")
    for name in names:
        if not any(fnmatchcase(one, name) for one in there):
            raise ConfigError(f"lab {lab}: {unknown('result in its history', name, there)}")
    return [one for one in there if not names or any(fnmatchcase(one, name) for name in names)]
