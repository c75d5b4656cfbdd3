"""Judge the measured boots of two builds by their levels, and by their means if stalls repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.judge.attempt_level import AttemptLevel, read
from pytest_pinet.judge.change import MOST_BOOTS, TOLERANCE, Boot, BuildDifference, judge_change
from pytest_pinet.judge.interleaved import Result, Side, is_worse
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.text import counted
from pytest_pinet.model.attempt import Attempt


@dataclass(frozen=True)
class MeasuredBoot:
    """One boot and the connections measured in it; ``at`` is its time, in any unit."""

    side: Side
    at: float
    attempts: tuple[Attempt, ...]


def judge_boots(
    boots: Sequence[MeasuredBoot],
    tolerance: float = TOLERANCE,
    noise: Noise = UNKNOWN,
    error_rate: float = 0.01,
    figures: int = 1,
    most_boots: int = MOST_BOOTS,
) -> BuildDifference:
    """Judge the levels of all connections as `judge_change` does.

    A stall in one connection does not make a build slower. Repeated stalls do: the means may also give slower. B is
    neither the same nor faster while more than one in three of its connections are disturbed, and a larger share than
    of A's.
    """
    readings = [[reading for attempt in boot.attempts if (reading := read(attempt))] for boot in boots]

    def judged(figure: str) -> BuildDifference:
        figured = [
            Boot(boot.side, boot.at, tuple(float(getattr(one, figure)) for one in own))
            for boot, own in zip(boots, readings, strict=True)
        ]
        return judge_change(figured, tolerance, noise, error_rate, figures, most_boots)

    found = judged("level")
    of_a, of_b = (
        [one for boot, own in zip(boots, readings, strict=True) if boot.side is side for one in own] for side in Side
    )
    if found.result is Result.SLOWER or not _disturbed(of_a) + _disturbed(of_b):
        return found
    means = judged("mean")
    if means.result is Result.SLOWER:
        return replace(means, why=f"{means.why}; its connections stall")
    if found.result in (Result.SAME, Result.FASTER) and is_worse(of_a, of_b):
        result = Result.INCONCLUSIVE if len(boots) >= most_boots else Result.GO_ON
        return replace(found, result=result, why=f"{counted(_disturbed(of_b), len(of_b))} of B disturbed")
    return found


def _disturbed(readings: Sequence[AttemptLevel]) -> int:
    return sum(one.disturbed for one in readings)
