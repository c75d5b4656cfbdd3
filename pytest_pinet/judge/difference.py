"""How B differs from A (states, builds, a run and its baseline), the verdict on B, and what to look at first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, pstdev

from pytest_pinet.model.evidence import Suspect
from pytest_pinet.model.judgement import DirectionJudgement, MeasurementJudgement
from pytest_pinet.model.limits import Metric, Threshold
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict

# A smaller ratio of costs explains nothing: a slower build has slightly higher values of most costs per bit.
LEAST_RATIO = 1.3
# Costs must differ by so many standard deviations of the connections.
LEAST_APART = 4.0
# If both costs are below this, there is no cost (per Gbit, or a share).
NEXT_TO_NOTHING = 1e-3
MOST_COSTS = 3
# Numeric settings that differ by at most this share are alike: a kernel that needs more memory has smaller limits.
LEAST_APART_OF_NUMBERS = 0.25
# Values of a setting that is off, or that a kernel or driver does not know: equal for a packet.
NOTHING = {"off", "n/a", "TX:"}
# Why a slower build is undecided if it has the code, the constants and the settings of the other one.
LAYOUT = "slower here, but no function changed: code layout?"
# Stands for the value of a setting that an end does not have.
ABSENT = "absent"


def of_settings(a: Sequence[Mapping[str, str]], b: Sequence[Mapping[str, str]]) -> list[Suspect]:
    """Return settings that are equal in all boots of A and equal in all boots of B, but differ between A and B.

    Settings that both builds know come first.
    """
    found = []
    for name in sorted({name for boot in (*a, *b) for name in boot}):
        in_a, in_b = ({boot.get(name) for boot in boots} for boots in (a, b))
        if len(in_a) != 1 or len(in_b) != 1 or in_a == in_b:
            continue
        (one,), (two,) = in_a, in_b
        if _same(one, two):
            continue
        before, after = one or ABSENT, two or ABSENT
        found.append(Suspect(name, before, after, f"{name}: {before} -> {after}"))
    return sorted(found, key=lambda suspect: ABSENT in (suspect.a, suspect.b))


def _same(one: str | None, two: str | None) -> bool:
    """Return whether both values are off, or are nearly equal numbers: a kernel sizes buffers by its free memory."""
    if all(value is None or set(value.split()) <= NOTHING for value in (one, two)):
        return True
    before, after = (one or "").split(), (two or "").split()
    if len(before) != len(after) or not all(word.isdigit() for word in before + after):
        return False
    return all(abs(int(a) - int(b)) <= LEAST_APART_OF_NUMBERS * int(a) for a, b in zip(before, after, strict=True))


def of_costs(a: Sequence[Mapping[str, float]], b: Sequence[Mapping[str, float]]) -> list[Suspect]:
    """Return costs that differ much more between the builds than between connections, the largest ratio first."""
    ranked = []
    for name in sorted({name for one in (*a, *b) for name in one}):
        in_a = [one[name] for one in a if name in one]
        in_b = [one[name] for one in b if name in one]
        if not in_a or not in_b:
            continue
        before, after = fmean(in_a), fmean(in_b)
        if max(before, after) <= NEXT_TO_NOTHING:
            continue
        ratio = (after + NEXT_TO_NOTHING) / (before + NEXT_TO_NOTHING)
        apart = abs(after - before)
        within = max(pstdev(in_a), pstdev(in_b))
        if max(ratio, 1 / ratio) < LEAST_RATIO or apart < LEAST_APART * within:
            continue
        ranked.append((abs(math.log(ratio)), Suspect(name, _short(before), _short(after), _text(name, before, after))))
    ranked.sort(key=lambda entry: -entry[0])
    return [suspect for _, suspect in ranked[:MOST_COSTS]]


def _text(name: str, before: float, after: float) -> str:
    if before <= NEXT_TO_NOTHING:
        return f"{name}: none -> {_short(after)}"
    return f"{name}: {_short(before)} -> {_short(after)} ({(after / before - 1) * 100:+.0f} %)"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


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


def with_costs(judged: MeasurementJudgement, dearer: Sequence[str]) -> MeasurementJudgement:
    """Return the judgement with a failure for each dearer cost of the device under test, one sentence each."""
    if not dearer:
        return judged
    goodput = "as fast, but dearer" if judged.verdict in GOOD else judged.reason
    return replace(judged, verdict=Verdict.FAIL, reason="; ".join([goodput, *dearer]))
