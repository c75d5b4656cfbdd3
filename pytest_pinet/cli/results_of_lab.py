"""Finds the results of a lab in the history that a user names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import unknown

if TYPE_CHECKING:
    from pytest_pinet.history.store import HistoryStore


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
