"""How often the gate was right, and how long it took: the table and the sentence of a self-test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median

from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.selftest.plan import AT_THE_LIMIT, Case

# What may lie between the reduction that was asked for and the one that was measured.
SHAPER_ERROR = 0.005
_PASSED = (Verdict.PASS, Verdict.MARGINAL, Verdict.IMPROVED)


class Mark(StrEnum):
    """What a verdict on a known reduction is worth."""

    RIGHT = "right"
    WRONG = "wrong"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Outcome:
    """One gate: its verdict, the goodput that it saw, and seconds of traffic and in all."""

    case: Case
    verdict: Verdict
    goodput: Bitrate
    traffic_s: float
    seconds: float
    reason: str

    def as_json(self) -> dict[str, object]:
        """One gate of ``pinet selftest --json``."""
        return {
            "direction": str(self.case.way),
            "reduction": self.case.reduction,
            "verdict": str(self.verdict),
            "goodput_bps": self.goodput.bps,
            "traffic_seconds": self.traffic_s,
            "seconds": self.seconds,
            "reason": self.reason,
        }


def mark(outcome: Outcome, tolerance: float) -> Mark:
    """Slower by less than the tolerance must pass, by more must fail; at the tolerance itself either is right."""
    if outcome.verdict is Verdict.INCONCLUSIVE:
        return Mark.INCONCLUSIVE
    if outcome.verdict not in (*_PASSED, Verdict.FAIL):
        return Mark.INVALID
    if at_limit(outcome.case.reduction, tolerance):
        return Mark.RIGHT
    must_fail = outcome.case.reduction > tolerance
    return Mark.RIGHT if (outcome.verdict is Verdict.FAIL) is must_fail else Mark.WRONG


def at_limit(reduction: float, tolerance: float) -> bool:
    """Whether a reduction is neither a regression nor none."""
    return abs(reduction - tolerance) <= AT_THE_LIMIT


@dataclass(frozen=True)
class Count:
    """The gates of one reduction: how many verdicts were worth what, and what they took (seconds of traffic).

    ``measured`` is the mean reduction that the gates themselves saw, over both directions (None: all were invalid);
    ``passed`` how many passed. What was invalid counts in ``marks`` only.
    """

    reduction: float
    at_limit: bool
    marks: Mapping[Mark, int]
    passed: int
    median_s: float
    most_s: float
    measured: float | None

    @property
    def gates(self) -> int:
        return sum(self.marks.values())

    @property
    def judged(self) -> int:
        """The gates that gave a verdict on the link."""
        return self.gates - self.marks[Mark.INVALID]

    @property
    def shaper_erred(self) -> bool:
        """Whether the lab did not become slower by what was asked for, so that the counts prove nothing."""
        return self.reduction > 0 and self.measured is not None and abs(self.measured - self.reduction) > SHAPER_ERROR

    def as_json(self) -> dict[str, object]:
        """One row of ``pinet selftest --json``."""
        return {
            "reduction": self.reduction,
            "at_limit": self.at_limit,
            "gates": self.gates,
            **{str(kind): self.marks[kind] for kind in Mark},
            "passed": self.passed,
            "traffic_seconds_median": self.median_s,
            "traffic_seconds_90_percent": self.most_s,
            "measured_reduction": self.measured,
        }


def count(outcomes: Sequence[Outcome], baselines: Mapping[Direction, Bitrate], tolerance: float) -> list[Count]:
    """A count for each reduction, in ascending order; ``baselines`` by direction."""
    found = []
    for reduction in sorted({one.case.reduction for one in outcomes}):
        own = [one for one in outcomes if one.case.reduction == reduction]
        marks = [mark(one, tolerance) for one in own]
        judged = [one for one, kind in zip(own, marks, strict=True) if kind is not Mark.INVALID]
        seconds = sorted(one.traffic_s for one in judged) or [0.0]
        found.append(
            Count(
                reduction,
                at_limit(reduction, tolerance),
                {kind: marks.count(kind) for kind in Mark},
                sum(one.verdict in _PASSED for one in own),
                median(seconds),
                seconds[math.ceil(0.9 * len(seconds)) - 1],
                fmean(1 - one.goodput.bps / baselines[one.case.way].bps for one in judged) if judged else None,
            )
        )
    return found


def table(counts: Iterable[Count]) -> list[str]:
    """The counts for a reader, in 80 columns."""
    lines = ["slower by  gates  right  wrong  inconcl.  traffic median    90 %  measured"]
    for one in counts:
        marks = one.marks
        line = (
            f"{percent(one.reduction):>9}  {one.gates:>5}  {marks[Mark.RIGHT]:>5}  {marks[Mark.WRONG]:>5}"
            f"  {marks[Mark.INCONCLUSIVE]:>8}  {one.median_s:>12.1f} s  {one.most_s:>4.1f} s"
            f"  {'-' if one.measured is None else percent(one.measured):>8}"
        )
        if one.at_limit:
            line += f"  at the limit: {one.passed} passed"
        if marks[Mark.INVALID]:
            line += f"  {marks[Mark.INVALID]} invalid"
        lines.append(line)
    return lines


def percent(share: float) -> str:
    """``5 %``; what rounds to nothing has no sign."""
    return f"{round(share * 100, 1) + 0.0:g} %"


def sentence(name: str, tolerance: float, counts: Sequence[Count]) -> str:
    """What the gate can and cannot detect there, in how many seconds of traffic."""
    erred = next((one for one in counts if one.shaper_erred), None)
    if erred is not None:
        return (
            f"{name}: the shaper took {percent(erred.measured or 0.0)} where {percent(erred.reduction)} was asked for, "
            "so the counts prove nothing; does something else limit this link, or vary by as much?"
        )
    parts = []
    for one in counts:
        if one.at_limit:
            continue
        seconds = f"{one.median_s:.0f} s of traffic (90 %: {one.most_s:.0f} s)"
        right, what = one.marks[Mark.RIGHT], f"{percent(one.reduction)} slower"
        what = "an unchanged link" if not one.reduction else what
        verb = "passes" if one.reduction < tolerance else "is found"
        if not one.judged:
            parts.append(f"no gate on {what} was valid")
        elif right == one.judged:
            parts.append(f"{what} {verb} after {seconds}")
        else:
            parts.append(f"{what} {verb} in {right} of {one.judged} gates only, after {seconds}")
    text = f"{name}, limit {percent(tolerance)} below the baseline: {'; '.join(parts)}"
    for one in counts:
        if one.at_limit:
            text += f"; {percent(one.reduction)} slower lies at the limit, {one.passed} of {one.judged} passed"
    return text
