"""Compare two states of one link, measured alternately (A B B A B A A B), so that drift cancels out.

A few outliers do not decide the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.level import Level, read, remarks
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.sequential import MOST_DISTURBED
from pytest_pinet.judge.statistics import certainty_threshold, chi_square, likelihood, normal, required
from pytest_pinet.judge.text import counted, percent
from pytest_pinet.model.connection import Connection

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
# The spread of a few pairs is often estimated too low. So the test uses half of the set error rate (simulated).
LOOKS = 2


class Side(StrEnum):
    """The state of a measurement: A or B."""

    A = "A"  # the known state: the old build, the current tuning
    B = "B"  # the candidate


def side(index: int) -> Side:
    """Return the state of the index-th measurement: the Thue-Morse sequence, which cancels drift of higher orders."""
    return Side.B if index.bit_count() % 2 else Side.A


def compare_connections(
    connections: Sequence[Connection], tolerance: float = TOLERANCE, noise: Noise = UNKNOWN, error_rate: float = 0.01
) -> Difference:
    """Judge connections made in the order of `side`, as `judge_readings` and `compare_in_turn` do."""
    readings = [read(connection) for connection in connections]
    of_a, of_b = (
        [one for index, one in enumerate(readings) if one is not None and side(index) is which] for which in Side
    )

    def judged(value: Callable[[Level], float]) -> Difference:
        figures = [math.nan if one is None else value(one) for one in readings]
        return compare_in_turn(figures, tolerance, noise, error_rate)

    found = judge_readings(of_a, of_b, judged, over=len(connections) >= 2 * MOST_PAIRS)
    return replace(
        found, remarks=tuple(dict.fromkeys(text for connection in connections for text in remarks(connection)))
    )


def judge_readings(
    of_a: Sequence[Level],
    of_b: Sequence[Level],
    judged: Callable[[Callable[[Level], float]], Difference],
    over: bool,
    stalls: str = "",
) -> Difference:
    """Judge the levels of all connections, and also their means if some were disturbed.

    A stall in one connection does not make B slower. Repeated stalls do: the means may also give slower, and the reason
    then ends with ``stalls``. B is neither the same nor faster while more than one in three of its connections are
    disturbed, and a larger share than of A's. ``over``: there are no more connections.
    """
    found = judged(lambda one: one.level)
    disturbed = sum(one.disturbed for one in of_a), sum(one.disturbed for one in of_b)
    share_a, share_b = disturbed[0] / max(len(of_a), 1), disturbed[1] / max(len(of_b), 1)
    if any(disturbed) and found.result is not Relation.SLOWER:
        means = judged(lambda one: one.mean)
        if means.result is Relation.SLOWER:
            found = replace(means, why=f"{means.why}{stalls}")
        elif found.result in (Relation.SAME, Relation.FASTER) and share_b > max(share_a, MOST_DISTURBED):
            result = Relation.INCONCLUSIVE if over else Relation.GO_ON
            found = replace(found, result=result, why=f"{counted(disturbed[1], len(of_b))} of B had disturbances")
    return replace(found, disturbed=disturbed)


def compare_in_turn(
    figures: Sequence[float], tolerance: float = TOLERANCE, noise: Noise = UNKNOWN, error_rate: float = 0.01
) -> Difference:
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
        why = f"too few pairs to distinguish a difference from drift: {n}"
        return Difference(Relation.INCONCLUSIVE if over else Relation.GO_ON, why, n)
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
    change, low, high = math.expm1(mean), math.expm1(mean - half), math.expm1(mean + half)
    known = (n, change, (low, high))
    shown = f"B is {change * 100:+.1f} % against A ({low * 100:+.1f} to {high * 100:+.1f} %)"
    after = f"after {n} pairs"
    settled = n >= max(FAILS_AFTER, least_pairs)
    if settled and slower < -enough and _agree(d < limit for d in apart):
        return Difference(Relation.SLOWER, f"slower, certain {after}: {shown}", *known)
    if settled and faster > enough and _agree(d > -limit for d in apart):
        return Difference(Relation.FASTER, f"faster, certain {after}: {shown}", *known)
    # One odd pair of two or three could hide a slower B: all pairs must be nearer to no difference than to the limit.
    held = _agree(d > limit for d in apart) if n >= FAILS_AFTER else min(apart) > limit / 2
    if n >= max(PASSES_AFTER, least_pairs) and slower > enough and held and faster <= enough:
        return Difference(Relation.SAME, f"not slower, certain {after}: {shown}", *known)
    least = chi_square(0.1, freedom) / freedom * between / MOST_PAIRS
    # The assumed distance from the limit is the one seen, or that of an unchanged link if it is larger.
    reach = max(abs(mean - limit), abs(limit))
    if n >= MOST_PAIRS or (n >= FEW_PAIRS and reach < required(least, freedom + MOST_PAIRS - n, error_rate / LOOKS)):
        why = f"undecided {after}: {shown}; noise {percent(math.sqrt(between))} between pairs"
        return Difference(Relation.INCONCLUSIVE, why, *known)
    return Difference(Relation.GO_ON, f"not certain {after}: {shown}", *known)


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
