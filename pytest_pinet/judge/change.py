"""Judge a new build against the known-good one, boot by boot: boots differ, however long traffic runs in each.

Each turn of A B B A B A A B is a boot; a load of a module counts as one. Its value is the mean logarithm of its
connections. Least squares over all boots separates the effects of build and drift from the differences between boots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.interleaved import Side, judge_readings
from pytest_pinet.judge.level import Level, read
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.statistics import (
    certainty_threshold,
    chi_square,
    least_error,
    likelihood,
    logarithms,
    normal,
    required,
    variance,
)
from pytest_pinet.judge.text import percent
from pytest_pinet.model.connection import Connection

# The default tolerance: a build whose path is 2 % longer is found, an unchanged build passes.
TOLERANCE = 0.01
# The lowest standard deviation between boots.
FLOOR = 0.002
# A B B A B A: with fewer boots, a lottery gives each build one kind of boots too often.
LEAST_BOOTS = 6
# Without measured differences, boots may also be of two kinds: emulated boots with a virtio NIC are, so far apart. A
# result with a smaller tolerance needs enough boots to exclude that all of B are of one kind and all of A of the other.
KINDS_APART = 0.02
# If boots of one build are further apart than so many of the measured standard deviations, the calibration does not
# apply any more (seen on a machine with twice its load).
WILD = 6.0
MOST_BOOTS = 16
# Boots on a sound bench never differ by this (in logarithms): B is then slower also with fewer boots, if none is odd.
OBVIOUS = -0.1
# The share of the pairs of boots that must agree with a verdict.
MOST_AGREE = 2 / 3
# The test looks after each boot from LEAST_BOOTS on. All looks together err as 6 independent ones (simulated).
LOOKS = 6
# One boot in this number may be odd: further from the others than ODD standard deviations.
ODD_OF = 6
ODD = 6.0
# More connections in one boot tell less than another boot.
MOST_CONNECTIONS = 6


@dataclass(frozen=True)
class Boot:
    """One boot: its build, when it began (in any unit), and the level of each connection in bit/s."""

    side: Side
    at: float
    levels: tuple[float, ...]


@dataclass(frozen=True)
class MeasuredBoot:
    """One boot and the connections measured in it; ``at`` is its time, in any unit."""

    side: Side
    at: float
    connections: tuple[Connection, ...]


def connections_per_turn(noise: Noise, boot_s: float, connection_s: float) -> int:
    """Return the best number of connections per boot: ``sqrt(cost ratio x variance ratio)`` (Kalibera and Jones 2013).

    ``connection_s`` is the time of one more connection of everything that is measured in the boot.
    """
    if noise.sessions <= 0:
        return MOST_CONNECTIONS
    best = math.sqrt(boot_s / max(connection_s, 0.1)) * noise.connections / noise.sessions
    return min(max(round(best), 1), MOST_CONNECTIONS)


def judge_boots(
    boots: Sequence[MeasuredBoot],
    tolerance: float = TOLERANCE,
    noise: Noise = UNKNOWN,
    error_rate: float = 0.01,
    figures: int = 1,
    most_boots: int = MOST_BOOTS,
) -> Difference:
    """Judge the connections of all boots, as `judge_readings` and `judge_change` do."""
    readings = [[reading for connection in boot.connections if (reading := read(connection))] for boot in boots]
    of_a, of_b = (
        [one for boot, own in zip(boots, readings, strict=True) if boot.side is side for one in own] for side in Side
    )

    def judged(value: Callable[[Level], float]) -> Difference:
        figured = [
            Boot(boot.side, boot.at, tuple(value(one) for one in own))
            for boot, own in zip(boots, readings, strict=True)
        ]
        return judge_change(figured, tolerance, noise, error_rate, figures, most_boots)

    return judge_readings(of_a, of_b, judged, len(boots) >= most_boots, "; connections of B stall")


def judge_change(
    boots: Sequence[Boot],
    tolerance: float = TOLERANCE,
    noise: Noise = UNKNOWN,
    error_rate: float = 0.01,
    figures: int = 1,
    most_boots: int = MOST_BOOTS,
) -> Difference:
    """Judge boots in the order in which they were made; boots without a value are left out.

    B is slower if it certainly lies more than ``tolerance`` below A, and the same if it certainly does not. The test is
    a sequential test of "no change" against "twice the tolerance". ``figures`` is the number of values judged in all:
    an unchanged build is called slower at ``error_rate`` in any of them, not in each. After ``most_boots`` an uncertain
    result stays inconclusive.
    """
    if not 0 < tolerance < 0.5:
        raise ValueError(f"the tolerance {tolerance} is not between 0 and 0.5; expected a fraction such as {TOLERANCE}")
    known = [_Row(boot, fmean(logs)) for boot in boots if (logs := logarithms(boot.levels))]
    of_each = [sum(row.boot.side is side for row in known) for side in Side]
    n = len(known)
    over = len(boots) >= most_boots
    if n < LEAST_BOOTS or min(of_each) < 2:
        why = f"too few turns to compare the builds: {n}"
        return Difference(Relation.INCONCLUSIVE if over else Relation.GO_ON, why, n)
    known, odd = _without_odd(known, noise)
    fit = _fit(known)
    own, freedom = _spread(fit, known, noise)
    spread = own / fit.weight
    half = normal(1 - error_rate) * math.sqrt(spread)
    limit = math.log1p(-tolerance)
    zone = -limit
    slower, faster = (likelihood(fit.change + by, spread, freedom, zone) for by in (-limit, limit))
    change, low, high = math.expm1(fit.change), math.expm1(fit.change - half), math.expm1(fit.change + half)
    found = (n, change, (low, high), math.sqrt(own))
    size = f"{abs(change) * 100:.2f} % {'below' if change < 0 else 'above'} A"
    text = f"B is {size} ({low * 100:+.2f} to {high * 100:+.2f} %)"
    text = "; ".join([text, *(f"an outlier of {row.boot.side} was left out" for row in odd)])
    after = f"after {n} turns"
    enough = certainty_threshold(error_rate / LOOKS)
    # For slower and faster only: of many unchanged values, one looks changed by chance more often than a single one.
    enough_of_all = certainty_threshold(error_rate / LOOKS / max(figures, 1))
    seems_slower, seems_faster = slower < -enough_of_all, faster > enough_of_all
    calibrated = _is_as_calibrated(known, noise)
    least = 0 if calibrated else least_by_chance(len(odd), error_rate)
    least_same = 0 if calibrated or tolerance >= KINDS_APART else least_by_chance(len(odd), error_rate, ways=1)
    apart = n >= least
    pairs = fit.pairs
    obvious = not odd and fit.change < OBVIOUS
    if (apart or obvious) and seems_slower and _agree(pairs, lambda d: d < limit):
        error = LOOKS * least_error(slower)
        return Difference(Relation.SLOWER, f"slower, certain {after}: {text}", *found, error=error)
    if apart and seems_faster and _agree(pairs, lambda d: d > -limit):
        error = LOOKS * least_error(faster)
        return Difference(Relation.FASTER, f"faster, certain {after}: {text}", *found, error=error)
    if n >= least_same and slower > enough and not seems_faster and _agree(pairs, lambda d: d > limit):
        return Difference(Relation.SAME, f"not slower, certain {after}: {text}", *found)
    if over or _is_hopeless(fit, own, freedom, limit, n, most_boots, error_rate):
        why = f"undecided {after}: {text}; turns differ by {percent(math.sqrt(own))}"
        if (n < least and (seems_slower or seems_faster)) or (n < least_same and slower > enough):
            needed = least if seems_slower or seems_faster else least_same
            why += f"; a certain result needs {needed} turns (--boots) or `pinet calibrate --boots`"
        return Difference(Relation.INCONCLUSIVE, why, *found)
    return Difference(Relation.GO_ON, f"not certain {after}: {text}", *found)


def least_by_chance(odd: int, error_rate: float, ways: int = 2) -> int:
    """Return the fewest boots of which it is improbable that they fall into two kinds, one for each build, by chance.

    If half of all boots are of another kind, n boots fall in one of the ``ways`` with the probability ``ways / 2^n``:
    B on the lower one or on the higher one looks slower or faster, and only the latter hides a slower build. If
    ``odd`` of them were left out, any of the boots may be these: ``n! / (odd! (n - odd)!)`` times as probable. Half of
    the error rate is left for it.
    """
    boots = LEAST_BOOTS
    while ways * math.comb(boots, odd) / 2**boots > error_rate / 2:
        boots += 1
    return boots


@dataclass(frozen=True)
class _Row:
    """A boot and its value, the mean logarithm of its levels."""

    boot: Boot
    value: float


@dataclass(frozen=True)
class _Fit:
    """The result of the fit. ``change`` is ln(B / A) without drift; its variance is that of one boot over ``weight``.

    ``residuals`` are the parts of each boot that neither build nor drift explain. ``pairs`` are ln(B / A) of
    neighbours.
    """

    change: float
    weight: float
    residuals: tuple[float, ...]
    pairs: tuple[float, ...]

    @property
    def left(self) -> float:
        return math.fsum(one * one for one in self.residuals)


def _is_as_calibrated(rows: Sequence[_Row], noise: Noise) -> bool:
    """Return whether differences between boots were measured, and boots of each build do not differ by far more."""
    if noise.assumed:
        return False
    usual = fmean(len(row.boot.levels) for row in rows)
    most = WILD * max(math.sqrt(_expected(noise, usual)), FLOOR)
    of_each = ([row.value for row in rows if row.boot.side is side] for side in Side)
    return all(max(values) - min(values) <= most for values in of_each if values)


def _expected(noise: Noise, connections: float) -> float:
    """Return the variance of a boot's value over this number of connections. ``Noise`` calls a boot a session."""
    return noise.sessions**2 + noise.connections**2 / max(connections, 1.0)


def _fit(rows: Sequence[_Row]) -> _Fit:
    """Fit build and time by least squares."""
    n = len(rows)
    sides = [0.5 if row.boot.side is Side.B else -0.5 for row in rows]
    times = [row.boot.at for row in rows]
    values = [row.value for row in rows]
    middle = math.fsum(times) / n
    span = math.fsum((at - middle) ** 2 for at in times)

    def without_drift(column: Sequence[float]) -> list[float]:
        mean = math.fsum(column) / n
        slope = math.fsum((at - middle) * one for at, one in zip(times, column, strict=True)) / span if span else 0.0
        return [one - mean - slope * (at - middle) for at, one in zip(times, column, strict=True)]

    b, y = without_drift(sides), without_drift(values)
    weight = math.fsum(one * one for one in b)
    change = math.fsum(one * two for one, two in zip(b, y, strict=True)) / weight
    residuals = tuple(two - change * one for one, two in zip(b, y, strict=True))
    return _Fit(change, weight, residuals, tuple(_pairs(rows)))


def _pairs(rows: Sequence[_Row]) -> list[float]:
    found = []
    waiting: _Row | None = None
    for row in rows:
        if waiting is not None and waiting.boot.side is not row.boot.side:
            found.append((row.value - waiting.value) * (1 if row.boot.side is Side.B else -1))
            waiting = None
        else:
            waiting = row
    return found


def _without_odd(rows: list[_Row], noise: Noise) -> tuple[list[_Row], list[_Row]]:
    """Separate the few boots that are far from all others, such as one whose link came up badly.

    One that is like boots of the other build is not odd: without it, each build would have one kind of boots.
    """
    odd: list[_Row] = []
    for _ in range(len(rows) // ODD_OF):
        residuals = _fit(rows).residuals
        worst = max(range(len(rows)), key=lambda index: abs(residuals[index]))
        others = rows[:worst] + rows[worst + 1 :]
        of_each = ([row.value for row in others if row.boot.side is side] for side in Side)
        own, _ = _spread(_fit(others), others, noise)
        far = ODD * math.sqrt(own)
        if any(len(same) < 2 or abs(rows[worst].value - fmean(same)) <= far for same in of_each):
            break
        odd.append(rows[worst])
        rows = others
    return rows, odd


def _spread(fit: _Fit, known: Sequence[_Row], noise: Noise) -> tuple[float, float]:
    """Return the variance of one boot's value, and its degrees of freedom, pooled from calibration and residuals.

    A higher variance than the calibrated one counts at once, a lower one only gradually. The variance is never lower
    than the connections of the boots show.
    """
    usual = fmean(len(row.boot.levels) for row in known)
    freedom = noise.freedom if noise.session_freedom is None else min(noise.freedom, noise.session_freedom)
    expected = _expected(noise, usual)
    if noise.assumed:
        # The values assumed for an ordinary bench are no knowledge about this bench.
        freedom = min(freedom, 1.0)
    more = len(known) - 3
    pooled = (freedom * expected + fit.left) / max(freedom + more, 1.0)
    seen = fit.left / more if more > 1 else 0.0
    rough = [variance(logs) for row in known if len(logs := logarithms(row.boot.levels)) > 1]
    within = fmean(rough) / usual if rough else 0.0
    return max(pooled, seen, within, FLOOR**2), max(freedom + more, 1.0)


def _agree(pairs: Sequence[float], says: Callable[[float], bool]) -> bool:
    votes = [says(pair) for pair in pairs]
    # Of two or three pairs all must agree.
    return sum(votes) >= (MOST_AGREE * len(votes) if len(votes) > 3 else len(votes))


def _is_hopeless(
    fit: _Fit, own: float, freedom: float, limit: float, n: int, most_boots: int, error_rate: float
) -> bool:
    """Return whether even all remaining boots cannot make the result certain, if the difference is as large as it
    seems.

    The assumed distance to the limit is at least that of an unchanged build.
    """
    least = chi_square(0.1, freedom) / freedom * own * 4 / most_boots
    reach = max(abs(fit.change - limit), abs(limit))
    return reach < required(least, freedom + most_boots - n, error_rate / LOOKS, -limit)
