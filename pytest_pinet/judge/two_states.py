"""Judge a measurement of two states or builds: B is judged, and A is its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_pinet.judge.interleaved import Result
from pytest_pinet.model.judgement import DirectionJudgement, MeasurementJudgement
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import SEVERITY, Verdict

VERDICTS = {
    Result.SLOWER: Verdict.FAIL,
    Result.SAME: Verdict.PASS,
    Result.FASTER: Verdict.IMPROVED,
    Result.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    Result.GO_ON: Verdict.INCONCLUSIVE,
}
# While turns continue, an undecided comparison is not bad yet.
VERDICTS_SO_FAR = {**VERDICTS, Result.GO_ON: Verdict.PASS}


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


def against_a(own: DirectionJudgement, found: AgainstA) -> DirectionJudgement:
    """Return one direction of B, judged by A; a value above the physical limit stays invalid."""
    a_bps = found.a.bps
    kept = own.verdict is Verdict.INVALID
    return replace(
        own,
        goodput=found.b,
        limit=Bitrate(a_bps * (1 - found.tolerance)),
        rule=f"{found.tolerance * 100:.3g}% below {found.name}, measured alternately",
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
