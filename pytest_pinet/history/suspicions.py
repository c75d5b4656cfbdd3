"""Which boards of a lab are suspected: one failed where a second board passed, or fails more often over many runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_pinet.history.boards import OddBoard, kind_of, odd_boards
from pytest_pinet.history.points import Point, Suspicion
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import GOOD, Verdict

if TYPE_CHECKING:
    from pytest_pinet.history.store import HistoryStore

# The newest points of each metric that are compared.
POINTS = 100


def standing(found: Iterable[Suspicion]) -> dict[str, Suspicion]:
    """Return the suspicions that no user has cleared, by node."""
    return {one.node: one for one in found if not one.cleared}


def odd_in(store: HistoryStore, lab: str, kinds: Collection[str] | None = None) -> list[OddBoard]:
    """Return the boards of a lab (of these kinds) that fail more often than their kind since they were cleared."""
    cleared = {one.node: one.since for one in store.remembered(Suspicion, lab) if one.cleared}
    if kinds is None:
        series: Iterable[Sequence[Point]] = (points for _, points in store.latest(POINTS, lab))
    else:
        own = (one.id for one in store.figures(lab) if kind_of(one.combination) in kinds)
        series = (store.points(figure, lab, POINTS) for figure in own)
    return odd_boards((point for points in series for point in points), cleared)


def after_run(store: HistoryStore, lab: str, run: str, results: Iterable[ResultRecord], now: datetime) -> None:
    """Store the suspicions that a run gives rise to. The history has the run's points already."""
    failed = [one for one in results if one.verdict is Verdict.FAIL]
    found: dict[str, str] = {}
    if kinds := {kind_of(one.combination.id) for one in failed}:
        found = {odd.node: str(odd) for odd in odd_in(store, lab, kinds)}
    for one in failed:
        second = one.second_board
        if second is not None and second.verdict in GOOD:
            node = one.combination.dut.partition(":")[0]
            found[node] = f"{one.id} failed on {one.combination.dut}, but not on {second.end}, of the same kind"
    if found:
        store.remember(lab, [Suspicion(node, now, run, reason) for node, reason in found.items()])
