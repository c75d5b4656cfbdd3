"""Stores a run in the history at its end. A failure here loses no value, because ``results.json`` has them all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.history import OFF, open_history
from pytest_pinet.history.records import points_of
from pytest_pinet.history.results_file import read_run, record_of
from pytest_pinet.model.record.result import RunRecord

if TYPE_CHECKING:
    from pytest_pinet.history.store import HistoryStore

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
