"""Putting a run into the history at its end; what goes wrong there costs no figure, since ``results.json`` has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.database import OFF
from pytest_pinet.history.killed import record_of
from pytest_pinet.history.records import points_of
from pytest_pinet.history.store import Store

DEFAULT = "history.db"


def keep_run(url: str | None, run: Mapping[str, Any], folder: Path) -> str | None:
    """Keep a run in the history at ``url`` (None: ``.pinet/history.db``, beside the run folders).

    Returns what the user must know when that failed, and None otherwise.
    """
    if url is not None and url.strip().lower() in OFF:
        return None
    target = url or str(folder.parent.parent / DEFAULT)
    try:
        record, points = points_of(run, str(folder), "the run's record")
        store = Store.open(target, create=True)
        try:
            store.add(record, points)
        finally:
            store.close()
    except ConfigError as error:
        return f"{error}\nnot in the history; later: pinet history import {folder / 'results.json'}"
    return None


def import_killed(store: Store, path: Path) -> tuple[bool, str]:
    """Keep a run of which only its ``results.jsonl`` is left; False when it is there already, and what was left out.

    A run that came to its end after all is that of its ``results.json``. Raises ConfigError.
    """
    whole = path.with_name("results.json")
    if whole.exists():
        return import_results(store, whole), ""
    record, cut = record_of(path)
    run, points = points_of(record, str(path.parent.absolute()), str(path))
    lines = f"{cut} line{'s' if cut > 1 else ''} of it cut short and left out" if cut else ""
    return store.add(run, points), lines


def import_results(store: Store, path: Path) -> bool:
    """Keep the run of a ``results.json``; False when it is there already. Raises ConfigError."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; expected a results.json") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error}); expected a results.json") from None
    run, points = points_of(record, str(path.parent.absolute()), str(path))
    return store.add(run, points)
