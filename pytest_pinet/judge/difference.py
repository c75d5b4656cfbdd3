"""The result of a comparison of B with A (states, builds, a run and its baseline), and the verdict on B from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_pinet.model.judgement import DirectionJudgement, MeasurementJudgement
from pytest_pinet.model.limits import Metric, Threshold
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import SEVERITY, Verdict


class Relation(StrEnum):
    """How B is in comparison with A, or a candidate in comparison with its baseline."""

    GO_ON = "go on"
    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"  # not slower by more than the tolerance
    INCONCLUSIVE = "inconclusive"
    NOT_GATED = "not gated"  # the baseline has too few runs, or the candidate has none


@dataclass(frozen=True)
class Difference:
    """How B differs from A, or a candidate from its baseline; and why.

    ``count`` is the number of compared pairs or boots. ``change`` is B over A minus one, ``interval`` its interval at
    the error rate; both are None with too few values. ``between`` is the relative standard deviation between boots.
    ``disturbed`` counts the connections of A and of B with a dip or an event; ``remarks`` has a sentence for each.
    ``error`` is the smallest error rate of one value at which B is still slower or faster; None for other results.
    """

    result: Relation
    why: str
    count: int = 0
    change: float | None = None
    interval: tuple[float, float] | None = None
    between: float | None = None
    disturbed: tuple[int, int] = (0, 0)
    remarks: tuple[str, ...] = ()
    error: float | None = None

    @property
    def decided(self) -> bool:
        return self.result is not Relation.GO_ON

    @property
    def verdict(self) -> Verdict:
        """The verdict on B; an undecided comparison is inconclusive."""
        return VERDICTS[self.result]

    def given_up(self) -> Difference:
        """Return this difference for a comparison that ends now: what is undecided stays so."""
        return self if self.decided else replace(self, result=Relation.INCONCLUSIVE, why=f"undecided: {self.why}")


VERDICTS = {
    Relation.SLOWER: Verdict.FAIL,
    Relation.SAME: Verdict.PASS,
    Relation.FASTER: Verdict.IMPROVED,
    Relation.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    Relation.GO_ON: Verdict.INCONCLUSIVE,
    Relation.NOT_GATED: Verdict.SKIPPED,
}


@dataclass(frozen=True)
class AgainstA:
    """One direction: the values of A and B, the verdict on B, and the relative ``interval`` of the difference.

    ``name`` is the name of A. ``tolerance`` is the share (0 to 1) by which B may be slower. ``stopped`` says why the
    measurement stopped.
    """

    name: str
    a: Bitrate
    b: Bitrate
    tolerance: float
    verdict: Verdict
    reason: str
    stopped: str
    interval: tuple[float, float] | None


def limit_below(a: Bitrate, tolerance: float, name: str) -> Threshold:
    """Return the limit on B: as much as the share ``tolerance`` below A, whose ``name`` its words give."""
    return Threshold(Metric.TOLERANCE, a.bps * (1 - tolerance), f"{tolerance * 100:.3g}% below {name}")


def against_a(own: DirectionJudgement, found: AgainstA) -> DirectionJudgement:
    """Return one direction of B, judged by A; a value above the physical limit stays invalid."""
    a_bps = found.a.bps
    kept = own.verdict is Verdict.INVALID
    return replace(
        own,
        goodput=found.b,
        limit=limit_below(found.a, found.tolerance, f"{found.name}, measured alternately"),
        stopped=found.stopped,
        interval=None if found.interval is None else (a_bps * (1 + found.interval[0]), a_bps * (1 + found.interval[1])),
        verdict=own.verdict if kept else found.verdict,
        reason=own.reason if kept else found.reason,
    )


def judge_against_a(own: MeasurementJudgement, found: Mapping[Direction, AgainstA]) -> MeasurementJudgement:
    """Return all directions, judged by A; the worst of them is the verdict."""
    directions = {way: against_a(one, found[way]) for way, one in own.directions.items()}
    way = min(directions, key=lambda each: SEVERITY.index(directions[each].verdict))
    reason = f"{way}: {directions[way].reason}"
    return replace(own, directions=directions, verdict=directions[way].verdict, reason=reason, wanted=None)
