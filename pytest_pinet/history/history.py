"""Opens the history, without an import of SQLAlchemy before it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_pinet.errors import ConfigError

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
