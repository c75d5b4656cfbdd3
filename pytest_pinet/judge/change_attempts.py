"""The boots of two builds as they were measured: levels decide, unless stalls come again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.judge.change import MOST_BOOTS, TOLERANCE, Boot, Difference, judge_change
from pytest_pinet.judge.interleaved import Result, Side, is_worse
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.reading import Reading, read
from pytest_pinet.judge.wording import counted
from pytest_pinet.model.attempt import Attempt


@dataclass(frozen=True)
class MeasuredBoot:
    """One boot and the connections that were measured in it; ``at`` says when, in any unit."""

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
) -> Difference:
    """As `judge_change`, on the levels of all connections.

    A stall in one connection is no slower build. One that comes again and again is: the means may also say slower, and
    B is neither the same nor faster while more than one in three of its connections are disturbed, and more than A's.
    """
    readings = [[reading for attempt in boot.attempts if (reading := read(attempt))] for boot in boots]

    def judged(figure: str) -> Difference:
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


def _disturbed(readings: Sequence[Reading]) -> int:
    return sum(one.disturbed for one in readings)
