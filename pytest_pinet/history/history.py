"""Answers queries about earlier measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_pinet.history.points import USUAL_LENGTH, Figure, Point, StoredRun, Trend

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import AcceptedBaseline
    from pytest_pinet.history.store import HistoryStore


class History:
    """Answers queries about earlier measurements. Close it, or use it in a ``with``."""

    def __init__(self, store: HistoryStore, baselines: Mapping[str, AcceptedBaseline] | None = None) -> None:
        self._store = store
        self._baselines = baselines or {}

    @classmethod
    def open(cls, url: str, baselines: Mapping[str, AcceptedBaseline] | None = None) -> History:
        """Open the history for reading. ``url`` is an SQLite path or a URL (``postgresql://user@host/name``).

        ``baselines`` are the lab's accepted baselines (`config.baselines.load_baselines`). Raises ConfigError if there
        is no history, or if SQLAlchemy is not installed.
        """
        from pytest_pinet.history.store import HistoryStore as Store

        return cls(Store.open(url), baselines)

    def trend(self, figure: str, last: int = USUAL_LENGTH, lab: str | None = None, changes: bool = True) -> Trend:
        """Return the last points of a metric with its baseline, and where its level moved.

        ``lab``: by default the lab that measured it last. ``changes=False`` skips the search for changes, which takes
        time.
        """
        from pytest_pinet.history.trends import trend

        lab = lab or self._store.lab_of(figure) or ""
        accepted = self._baselines.get(figure)
        return trend(figure, lab, self._store.points(figure, lab, last), accepted, changes)

    def figures(self, lab: str | None = None) -> list[Figure]:
        """Return all metrics by ID, of one lab or of all labs."""
        return self._store.figures(lab)

    def runs(self, last: int = USUAL_LENGTH, lab: str | None = None) -> list[StoredRun]:
        """Return the last runs, oldest first."""
        return self._store.runs(last, lab)

    def last_run(self, lab: str | None = None) -> StoredRun | None:
        """Return the newest run."""
        return next(iter(self.runs(1, lab)), None)

    def points_of(self, run: str) -> Sequence[Point]:
        """Return all points of a run, by metric."""
        return self._store.points_of(run)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
