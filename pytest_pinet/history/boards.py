"""Which boards of a lab are suspected.

A board is suspected if it failed where a second board passed, or if it fails more often than its kind over many runs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_pinet.history.differences import DUT
from pytest_pinet.history.points import Point, Suspicion
from pytest_pinet.history.trends import counts
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import GOOD, Verdict

if TYPE_CHECKING:
    from pytest_pinet.history.store import HistoryStore

# Fewer runs of a board, or of all others of its kind, show nothing.
LEAST_RUNS = 5
# The chance of such a difference between boards that are alike. It is divided by the number of boards.
BY_CHANCE = 0.01
# The newest points of each metric that are compared.
POINTS = 100


@dataclass(frozen=True)
class OddBoard:
    """A board (node) that fails more, or less, often than the others of its kind; ``of`` counts the runs."""

    node: str
    kind: str
    failed: int
    of: int
    others_failed: int
    others_of: int

    def __str__(self) -> str:
        return (
            f"{self.node} failed in {self.failed} of {self.of} values of {self.kind}, other boards of its kind in "
            f"{self.others_failed} of {self.others_of}: this board differs, or its cable"
        )


def kind_of(combination: str) -> str:
    """Return the kind of the device under test, such as ``pi4b:onboard``."""
    return combination.partition("/")[0]


def odd_boards(points: Iterable[Point], cleared: Mapping[str, datetime] = MappingProxyType({})) -> list[OddBoard]:
    """Return boards that fail more often than others that measured the same: one metric, way of measuring, and build.

    Points of a node up to the time when a user ``cleared`` it do not count. A change under test fails on all boards of
    a kind; so one board that fails alone says something about the board.
    """
    found: dict[str, dict[str, list[bool]]] = {}
    for group in _comparable(points, cleared).values():
        boards = {node for node, _ in group}
        if len(boards) < 2:
            continue
        for node, point in group:
            found.setdefault(kind_of(point.combination), {}).setdefault(node, []).append(point.verdict is Verdict.FAIL)
    return sorted(
        (odd for kind, boards in found.items() for odd in _odd(kind, boards)),
        key=lambda odd: (odd.kind, odd.node),
    )


def _comparable(
    points: Iterable[Point], cleared: Mapping[str, datetime]
) -> dict[tuple[str, ...], list[tuple[str, Point]]]:
    groups: dict[tuple[str, ...], list[tuple[str, Point]]] = {}
    without_value: list[tuple[str, Point]] = []
    for point in points:
        node = point.settings.get(DUT, {}).get("end", "").partition(":")[0]
        if not node or (node in cleared and point.time <= cleared[node]):
            continue
        if point.direction and counts(point):
            groups.setdefault((point.figure, *_measured(point)), []).append((node, point))
        elif point.figure == point.combination and point.verdict is Verdict.FAIL:
            without_value.append((node, point))
    # A link that drops gives no value. The parameters say which metrics were measured.
    for node, point in without_value:
        for (_, *measured), group in groups.items():
            if measured == [*_measured(point)] and group[0][1].combination == point.combination:
                group.append((node, point))
    return groups


def _measured(point: Point) -> tuple[str, ...]:
    return point.parameters, str(point.emulated), point.build_name


def _odd(kind: str, boards: dict[str, list[bool]]) -> list[OddBoard]:
    odd = []
    for node, own in boards.items():
        others = [failed for name, each in boards.items() if name != node for failed in each]
        if min(len(own), len(others)) < LEAST_RUNS:
            continue
        if _chance(own, others) < BY_CHANCE / len(boards) and sum(own) / len(own) > sum(others) / len(others):
            odd.append(OddBoard(node, kind, sum(own), len(own), sum(others), len(others)))
    return odd


def _chance(own: Sequence[bool], others: Sequence[bool]) -> float:
    """Return the chance of so many or more failures of this board if all fail alike (Fisher's exact test)."""
    failed, total = sum(own) + sum(others), len(own) + len(others)
    most = min(failed, len(own))
    ways = sum(math.comb(failed, k) * math.comb(total - failed, len(own) - k) for k in range(sum(own), most + 1))
    return ways / math.comb(total, len(own))


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
