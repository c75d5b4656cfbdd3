"""Remembers boards that did not come up, in the history, so that later runs and other runners skip them, too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.history import OFF, open_history
from pytest_pinet.history.points import OutOfService
from pytest_pinet.lab.node.node_pool import Quarantine

# The folder of a run's quarantine; see `lab.node.node_pool`.
QUARANTINE = "quarantine"
# The board may have been repaired meanwhile. After this time a run tries it again.
HOLDS = timedelta(hours=24)
ACT = "when it is well, 'pinet doctor --clear' puts it back"


class BoardMemory:
    """The boards of a lab that are out of service, for one run. ``url`` is its history (None: no history is kept).

    Trouble with the history is no trouble of a run: the board is then tried.
    """

    def __init__(self, url: str | None, lab: str, folder: Path) -> None:
        self._url = None if url is None or url.strip().lower() in OFF else url
        self._lab = lab
        self._folder = folder / QUARANTINE
        self._known: set[str] = set()

    def recall(self) -> None:
        """Put the boards that earlier runs and other runners remember into the quarantine of this run."""
        if self._url is None or ("://" not in self._url and not Path(self._url).exists()):
            return
        try:
            with open_history(self._url) as store:
                boards = store.out_of_service(self._lab)
        except ConfigError:
            return
        now = datetime.now(UTC)
        for one in boards:
            if now - one.since < HOLDS:
                self._known.add(one.node)
                Quarantine(self._folder).add(one.node, f"{one}; {ACT}")

    def remember(self, run: str) -> list[str]:
        """Remember the boards that this run has put out of service. Return a message if that failed."""
        names = [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []
        now = datetime.now(UTC)
        new = [
            OutOfService(name, now, run, Quarantine(self._folder).reason(name) or "")
            for name in sorted(names)
            if not name.startswith(".") and name not in self._known
        ]
        if self._url is None or not new:
            return []
        try:
            with open_history(self._url, create=True) as store:
                store.put_out_of_service(self._lab, new)
        except ConfigError as error:
            return [f"boards out of service are not remembered: {error}"]
        return []
