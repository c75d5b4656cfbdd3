"""Compare two states of one link, measured alternately (A B B A B A A B), so that drift cancels out.

A few odd connections do not decide, either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_pinet.judge.attempt_level import AttemptLevel, read
from pytest_pinet.judge.decision import MOST_DISTURBED
from pytest_pinet.judge.likelihood import certainty_threshold, likelihood, required
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.statistics import chi_square, normal
from pytest_pinet.judge.text import counted, percent
from pytest_pinet.model.attempt import Attempt

# The lowest standard deviation between two consecutive measurements.
FLOOR = 0.0035
MOST_PAIRS = 24
PASSES_AFTER = 2
# Two pairs of each order: otherwise drift comes from one pair alone, and an outlier in it counts fully.
FAILS_AFTER = 4
# The share of the pairs that must agree with a verdict.
MOST_AGREE = 2 / 3
# The comparison is not given up before this many pairs.
FEW_PAIRS = 4
TOLERANCE = 0.03
# The spread of a few pairs is often estimated too low. Half of the errors keep to the set rate (simulated).
LOOKS = 2


class Side(StrEnum):
    """The state of a measurement: A or B."""

    A = "A"  # the known state: the old build, the current tuning
    B = "B"  # the candidate

    def __str__(self) -> str:
        return self.value


class Result(StrEnum):
    """The result of comparing B with A."""

    GO_ON = "go on"
    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"  # not slower by more than the tolerance
    INCONCLUSIVE = "inconclusive"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Comparison:
    """Whether to stop, and why.

    ``change`` is B over A minus one, between ``low`` and ``high`` at the set error rate. ``disturbed`` counts the
    connections of A and of B with a dip or an event; ``remarks`` has a sentence for each of them.
    """

    result: Result
    why: str
    pairs: int = 0
    change: float | None = None
    low: float | None = None
    high: float | None = None
    disturbed: tuple[int, int] = (0, 0)
    remarks: tuple[str, ...] = ()


def side(index: int) -> Side:
    """Return the state of the index-th measurement: the Thue-Morse sequence, which cancels drift of higher orders."""
    return Side.B if index.bit_count() % 2 else Side.A


def figure_of_attempt(attempt: Attempt) -> float | None:
    """Return the level of a connection in bit/s, without stalls; None if it gives no value."""
    reading = read(attempt)
    return None if reading is None else reading.level


def is_disturbed(attempt: Attempt) -> bool:
    """Return whether a connection that gives a value had a dip or an event."""
    reading = read(attempt)
    return reading is not None and reading.disturbed


def compare_attempts(
    attempts: Sequence[Attempt], tolerance: float = TOLERANCE, noise: Noise = UNKNOWN, error_rate: float = 0.01
) -> Comparison:
    """Judge connections made in the order of `side`: their levels, as `compare_in_turn` does.

    A stall in one connection does not make a state slower. Repeated stalls do: the means may also give slower. B is
    neither the same nor faster while more than one in three of its connections are disturbed, and a larger share than
    of A's.
    """
    readings = [read(attempt) for attempt in attempts]
    found = _of([None if one is None else one.level for one in readings], tolerance, noise, error_rate)
    of_a, of_b = (
        [one for index, one in enumerate(readings) if one is not None and side(index) is which] for which in Side
    )
    disturbed = sum(one.disturbed for one in of_a), sum(one.disturbed for one in of_b)
    if any(disturbed) and found.result is not Result.SLOWER:
        means = _of([None if one is None else one.mean for one in readings], tolerance, noise, error_rate)
        if means.result is Result.SLOWER:
            found = means
        elif found.result in (Result.SAME, Result.FASTER) and is_worse(of_a, of_b):
            over = len(attempts) >= 2 * MOST_PAIRS
            result = Result.INCONCLUSIVE if over else Result.GO_ON
            found = replace(found, result=result, why=f"{counted(disturbed[1], len(of_b))} of B disturbed")
    remarks = [text for attempt, one in zip(attempts, readings, strict=True) for text in _remarks(attempt, one)]
    return replace(found, disturbed=disturbed, remarks=tuple(dict.fromkeys(remarks)))


def is_worse(of_a: Sequence[AttemptLevel], of_b: Sequence[AttemptLevel]) -> bool:
    """Return whether B is disturbed too often, and more often than A."""
    share_a, share_b = (sum(one.disturbed for one in part) / max(len(part), 1) for part in (of_a, of_b))
    return share_b > MOST_DISTURBED and share_b > share_a


def _remarks(attempt: Attempt, reading: AttemptLevel | None) -> list[str]:
    """Return the events of an attempt. Without events, return its dips: an event describes the same moment better."""
    return [event.text for event in attempt.events] or [str(dip) for dip in (reading.dips if reading else ())]


def _of(figures: Sequence[float | None], tolerance: float, noise: Noise, error_rate: float) -> Comparison:
    return compare_in_turn([math.nan if one is None else one for one in figures], tolerance, noise, error_rate)


def compare_in_turn(
    figures: Sequence[float], tolerance: float = TOLERANCE, noise: Noise = UNKNOWN, error_rate: float = 0.01
) -> Comparison:
    """Judge values (in one unit) that were measured in the order of `side`. An unpaired last value is not used yet.

    Each pair gives ``ln(B / A)``. Steady drift adds to a pair A B what it takes from a pair B A. It is estimated
    together with the difference and removed (least squares on the order). Then the test of one value against its limit
    applies, with the limit ``tolerance`` below A. Two of three pairs must agree. A pair with a value not above 0 is
    left out.
    """
    pairs = _pairs(figures)
    n = len(pairs)
    if n < 2 or not any(order != pairs[0][1] for _, order in pairs):
        over = len(figures) >= 2 * MOST_PAIRS
        why = f"{n} pair{'' if n == 1 else 's'} are too few to distinguish a difference from drift"
        return Comparison(Result.INCONCLUSIVE if over else Result.GO_ON, why, n)
    mean, drift, variance, between = _without_drift(pairs, noise)
    half = normal(1 - error_rate) * math.sqrt(variance)
    limit = math.log1p(-tolerance)
    freedom = max(noise.freedom + n - 2, 1.0)
    slower, faster = (likelihood(mean + by, variance, freedom) for by in (-limit, limit))
    # With two or three pairs, one pair determines the drift, so the pairs without drift tell nothing.
    apart = [d - drift * order if n >= FAILS_AFTER else d for d, order in pairs]
    enough = certainty_threshold(error_rate / LOOKS)
    # Without measured noise, it must first be estimated.
    least_pairs = FEW_PAIRS if noise.assumed else 0
    known = (n, math.expm1(mean), math.expm1(mean - half), math.expm1(mean + half))
    shown = f"B is {math.expm1(mean) * 100:+.1f} % against A ({known[2] * 100:+.1f} to {known[3] * 100:+.1f} %)"
    after = f"after {n} pairs"
    settled = n >= max(FAILS_AFTER, least_pairs)
    if settled and slower < -enough and _agree(d < limit for d in apart):
        return Comparison(Result.SLOWER, f"slower, certain {after}: {shown}", *known)
    if settled and faster > enough and _agree(d > -limit for d in apart):
        return Comparison(Result.FASTER, f"faster, certain {after}: {shown}", *known)
    # One odd pair of two or three could hide a slower B: all pairs must be nearer to no difference than to the limit.
    held = _agree(d > limit for d in apart) if n >= FAILS_AFTER else min(apart) > limit / 2
    if n >= max(PASSES_AFTER, least_pairs) and slower > enough and held and faster <= enough:
        return Comparison(Result.SAME, f"not slower, certain {after}: {shown}", *known)
    least = chi_square(0.1, freedom) / freedom * between / MOST_PAIRS
    # The assumed distance from the limit is the one seen, or that of an unchanged link if it is larger.
    reach = max(abs(mean - limit), abs(limit))
    if n >= MOST_PAIRS or (n >= FEW_PAIRS and reach < required(least, freedom + MOST_PAIRS - n, error_rate / LOOKS)):
        why = f"undecided {after}: {shown}; noise {percent(math.sqrt(between))} between pairs"
        return Comparison(Result.INCONCLUSIVE, why, *known)
    return Comparison(Result.GO_ON, f"not certain {after}: {shown}", *known)


def _agree(votes: Iterable[bool]) -> bool:
    every = list(votes)
    return sum(every) >= MOST_AGREE * len(every)


def _pairs(figures: Sequence[float]) -> list[tuple[float, int]]:
    """Return ``ln(B / A)`` of each pair, and 1 if A came first, -1 if B came first."""
    found = []
    for first in range(0, len(figures) - 1, 2):
        one, two = figures[first], figures[first + 1]
        if not (math.isfinite(one) and math.isfinite(two) and one > 0 and two > 0):
            continue
        order = 1 if side(first) is Side.A else -1
        found.append((order * (math.log(two) - math.log(one)), order))
    return found


def _without_drift(pairs: Sequence[tuple[float, int]], noise: Noise) -> tuple[float, float, float, float]:
    """Return the mean of the pairs without drift, the drift, the variance of the mean, and the variance of one pair."""
    n = len(pairs)
    orders = math.fsum(order for _, order in pairs) / n
    centre = math.fsum(d for d, _ in pairs) / n
    squares = math.fsum((order - orders) ** 2 for _, order in pairs)
    drift = math.fsum((order - orders) * (d - centre) for d, order in pairs) / squares
    mean = centre - drift * orders
    left = math.fsum((d - mean - drift * order) ** 2 for d, order in pairs)
    # A pair is the difference of two connections.
    own = left / (n - 2) if n > 2 else 0.0
    between = (noise.freedom * 2 * noise.connections**2 + left) / max(noise.freedom + n - 2, 1.0)
    between = max(between, own if n > 2 else 0.0, FLOOR**2)
    return mean, drift, between * (1 / n + orders**2 / squares), between
