"""Boards in doubt: a failure is measured again on a second board, and the history remembers boards for later runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_pinet.errors import ConfigError, PinetError, first_line
from pytest_pinet.execution.files import exists
from pytest_pinet.history.boards import after_run, standing
from pytest_pinet.history.history import OFF, open_history
from pytest_pinet.history.points import OutOfService, Suspicion
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.node_pool import Quarantine
from pytest_pinet.matrix.endpoints import EndpointSelector, NotEnoughNodes
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.result import ResultRecord, SecondBoardRecord
from pytest_pinet.model.verdict import GOOD, Verdict


def on_another_board(lab: Lab, combination: Combination) -> list[Combination]:
    """Return this combination on each other board of its kind, without the board that it was measured on."""
    first = combination.dut
    others = {name: node for name, node in lab.nodes.items() if name != first.node.name}
    selector = EndpointSelector(replace(lab, nodes=others))
    found = []
    for node in others.values():
        own = (one for one in node.interfaces if one.label == first.interface.label)
        interface = next(own, None) if node.board.name == first.node.board.name and not node.runner else None
        if interface is None:
            continue
        try:
            found.append(replace(selector.combination(interface, combination.topology), tuning=combination.tuning))
        except NotEnoughNodes:
            continue
    return found


def confirm(
    access: LabAccess, lab: Lab, combination: Combination, measure: Callable[[Link], ResultRecord]
) -> SecondBoardRecord | None:
    """Measure on the first other board that is free, with its peers; None if there is none. Nothing waits for it.

    If a board has an error, the next one is measured.
    """
    failed: SecondBoardRecord | None = None
    for other in on_another_board(lab, combination):
        if not access.take_if_free(other):
            continue
        end = str(other.dut)
        try:
            with access.open(other) as link:
                found = measure(link)
        except PinetError as error:
            text = f"no value from {end}: {first_line(error)}"
            text = f"{failed.text}; {text}" if failed is not None else f"no second board gave a verdict: {text}"
            failed = SecondBoardRecord(end=end, verdict=Verdict.ERROR, text=text)
            continue
        return compared(str(combination.dut), str(combination.dut.interface.port), end, found)
    return failed


def compared(first: str, port: str, end: str, found: ResultRecord) -> SecondBoardRecord:
    """Return what the result of the second board says about a failure of the first one, at this switch port."""
    rates = ", ".join(f"{way} {Bitrate(one.goodput_bps)}" for way, one in found.directions.items()) or "its link drops"
    if found.verdict is Verdict.FAIL:
        text = f"confirmed on a second board: {end} fails, too ({rates})"
    elif found.verdict in GOOD:
        text = (
            f"not confirmed on a second board: {end}, of the same kind, has {rates}: look at {first}, its cable and "
            f"port {port}"
        )
    else:
        text = f"a second board gave no verdict: {end} is {found.verdict}"
    goodput = {way: one.goodput_bps for way, one in found.directions.items()}
    return SecondBoardRecord(end=end, verdict=found.verdict, goodput_bps=goodput, text=text)


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
