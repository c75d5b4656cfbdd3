"""Two states of one link in turn, A B B A B A A B: which drift cannot fool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.judge.likelihood import likelihood, needed, required
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.quantiles import chi_square, normal
from pytest_pinet.judge.wording import percent

# No two measurements in a row agree better than this.
FLOOR = 0.0035
MOST_PAIRS = 24
PASSES_AFTER = 2
FAILS_AFTER = 3
# Before this many pairs nobody gives up.
FEW_PAIRS = 4
TOLERANCE = 0.03
# With no more than a few pairs their spread is often underrated: half of the errors keep to the set rate (simulated).
LOOKS = 2


class Side(StrEnum):
    """The state to measure next."""

    A = "A"  # what is known: the old build, the tuning that is in use
    B = "B"  # the candidate

    def __str__(self) -> str:
        return self.value


class Result(StrEnum):
    """What B is against A."""

    GO_ON = "go on"
    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"  # not slower by more than the tolerance
    INCONCLUSIVE = "inconclusive"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Comparison:
    """Whether to stop, and why. ``change``: B over A minus one, between ``low`` and ``high`` at the set error rate."""

    result: Result
    why: str
    pairs: int = 0
    change: float | None = None
    low: float | None = None
    high: float | None = None


def side(index: int) -> Side:
    """The state of the index-th measurement: the Thue-Morse sequence, whose pairs cancel drift of ever higher order."""
    return Side.B if index.bit_count() % 2 else Side.A


def compare_in_turn(
    figures: Sequence[float], tolerance: float = TOLERANCE, noise: Noise = UNKNOWN, error_rate: float = 0.01
) -> Comparison:
    """Judge figures (in one unit) that were measured in the order of `side`; an odd last one waits for its partner.

    Each pair gives ``ln(B / A)``. Drift at a steady pace adds to a pair A B what it takes from a pair B A: it is
    estimated with the difference and taken out (least squares on the order). The rest is the same test as that of one
    figure against its limit, with the limit ``tolerance`` below A. A pair with a figure not above 0 is left out.
    """
    pairs = _pairs(figures)
    n = len(pairs)
    if n < 2 or not any(order != pairs[0][1] for _, order in pairs):
        over = len(figures) >= 2 * MOST_PAIRS
        why = f"{n} pair{'' if n == 1 else 's'} cannot tell a difference from drift"
        return Comparison(Result.INCONCLUSIVE if over else Result.GO_ON, why, n)
    mean, variance, between = _without_drift(pairs, noise)
    half = normal(1 - error_rate) * math.sqrt(variance)
    limit = math.log1p(-tolerance)
    freedom = max(noise.freedom + n - 2, 1.0)
    slower, faster = (likelihood(mean + by, variance, freedom) for by in (-limit, limit))
    enough = needed(error_rate / LOOKS)
    # Where nobody measured the noise, it must show itself first.
    least_pairs = FEW_PAIRS if noise.assumed else 0
    known = (n, math.expm1(mean), math.expm1(mean - half), math.expm1(mean + half))
    shown = f"B is {math.expm1(mean) * 100:+.1f} % against A ({known[2] * 100:+.1f} to {known[3] * 100:+.1f} %)"
    after = f"after {n} pairs"
    if n >= max(FAILS_AFTER, least_pairs) and slower < -enough:
        return Comparison(Result.SLOWER, f"slower, certain {after}: {shown}", *known)
    if n >= max(PASSES_AFTER, least_pairs) and faster > enough:
        return Comparison(Result.FASTER, f"faster, certain {after}: {shown}", *known)
    if n >= max(PASSES_AFTER, least_pairs) and slower > enough:
        return Comparison(Result.SAME, f"not slower, certain {after}: {shown}", *known)
    least = chi_square(0.1, freedom) / freedom * between / MOST_PAIRS
    # Farther from the limit than it seems, or than an unchanged link is, the truth is not taken to be.
    reach = max(abs(mean - limit), abs(limit))
    if n >= MOST_PAIRS or (n >= FEW_PAIRS and reach < required(least, freedom + MOST_PAIRS - n, error_rate / LOOKS)):
        why = f"undecided {after}: {shown}; noise {percent(math.sqrt(between))} between pairs"
        return Comparison(Result.INCONCLUSIVE, why, *known)
    return Comparison(Result.GO_ON, f"not certain {after}: {shown}", *known)


def _pairs(figures: Sequence[float]) -> list[tuple[float, int]]:
    """``ln(B / A)`` of each pair, and 1 where A came first, -1 where B did."""
    found = []
    for first in range(0, len(figures) - 1, 2):
        one, two = figures[first], figures[first + 1]
        if not (math.isfinite(one) and math.isfinite(two) and one > 0 and two > 0):
            continue
        order = 1 if side(first) is Side.A else -1
        found.append((order * (math.log(two) - math.log(one)), order))
    return found


def _without_drift(pairs: Sequence[tuple[float, int]], noise: Noise) -> tuple[float, float, float]:
    """Mean of the pairs apart from drift, its variance, and the variance of one pair."""
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
    between = max(between, own if n >= FAILS_AFTER else 0.0, FLOOR**2)
    return mean, between * (1 / n + orders**2 / squares), between
