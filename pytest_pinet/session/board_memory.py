"""Remembers boards in the history, for later runs and other runners: which did not come up, and which are suspected."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.path_kind import exists
from pytest_pinet.history.boards import after_run, standing
from pytest_pinet.history.history import OFF, open_history
from pytest_pinet.history.points import OutOfService, Suspicion
from pytest_pinet.lab.node.node_pool import Quarantine
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict

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
        self._suspected: dict[str, Suspicion] = {}

    def recall(self) -> None:
        """Put the boards that earlier runs and other runners remember into the quarantine of this run.

        A suspected board is used; see `noted`.
        """
        if self._url is None or ("://" not in self._url and not exists(self._url)):
            return
        try:
            with open_history(self._url) as store:
                boards = store.remembered(OutOfService, self._lab)
                self._suspected = standing(store.remembered(Suspicion, self._lab))
        except ConfigError:
            return
        now = datetime.now(UTC)
        for one in boards:
            if now - one.since < HOLDS:
                self._known.add(one.node)
                Quarantine(self._folder).add(one.node, f"{one}; {ACT}")

    def noted(self, result: ResultRecord) -> ResultRecord:
        """Return a failure on a suspected board with a note on the suspicion; another result as it is."""
        node = result.combination.dut.partition(":")[0]
        if result.verdict is not Verdict.FAIL or node not in self._suspected:
            return result
        note = f"{node} is {self._suspected[node]}; {ACT}"
        return result if note in result.notes else result.replace(notes=[*result.notes, note])

    def remember(self, run: str, results: Sequence[ResultRecord]) -> list[str]:
        """Remember the boards that this run has put out of service or suspects. Return a message if that failed.

        Call it after the run is in the history.
        """
        names = [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []
        now = datetime.now(UTC)
        new = [
            OutOfService(name, now, run, Quarantine(self._folder).reason(name) or "")
            for name in sorted(names)
            if not name.startswith(".") and name not in self._known
        ]
        if self._url is None or not (new or any(one.verdict is Verdict.FAIL for one in results)):
            return []
        try:
            with open_history(self._url, create=True) as store:
                store.remember(self._lab, new)
                after_run(store, self._lab, run, results, now)
        except ConfigError as error:
            return [f"boards out of service or suspected are not remembered: {error}"]
        return []
