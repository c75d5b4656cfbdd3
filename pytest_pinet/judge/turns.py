"""Judge state or build B against A, measured in turns (A B B A B A A B), so that drift cancels out.

A turn is a state with one connection, or a boot (a load of a module counts as one). The engine is the same; the
statistics differ, since boots differ however long traffic runs in each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from statistics import fmean

from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.level import Level, read, remarks
from pytest_pinet.judge.sequential import MOST_DISTURBED
from pytest_pinet.judge.spread import UNKNOWN, Noise
from pytest_pinet.judge.statistics import (
    certainty_threshold,
    chi_square,
    counted,
    least_error,
    likelihood,
    logarithms,
    normal,
    percent,
    required,
    variance,
)
from pytest_pinet.judge.words import GOODPUT, Words
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.verdict import Verdict

# The lowest standard deviation between two consecutive measurements.
PAIR_FLOOR = 0.0035
MOST_PAIRS = 24
PASSES_AFTER = 2
# Two pairs of each order: otherwise drift comes from one pair alone, and an outlier in it counts fully.
FAILS_AFTER = 4
# The share of the pairs that must agree with a verdict.
MOST_AGREE = 2 / 3
STATE_TOLERANCE = 0.03
# The spread of a few pairs is often estimated too low. So the test uses half of the set error rate (simulated).
PAIR_LOOKS = 2
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
# The test looks after each boot from LEAST_BOOTS on. All looks together err as 6 independent ones (simulated).
LOOKS = 6
# One boot in this number may be odd: further from the others than ODD standard deviations.
ODD_OF = 6
ODD = 6.0
# So many boots of each build must remain without the odd ones.
LEAST_GOOD = 3
# More connections in one boot tell less than another boot.
MOST_CONNECTIONS = 6
# A miss in so many turns of the build under test, and in none of the known-good build, is the fault of the build.
OFTEN = 2


class Side(StrEnum):
    """The state of a measurement: A or B."""

    A = "A"  # the known state: the old build, the current tuning
    B = "B"  # the candidate


def side(index: int) -> Side:
    """Return the state of the index-th measurement: the Thue-Morse sequence, which cancels drift of higher orders."""
    return Side.B if index.bit_count() % 2 else Side.A


@dataclass(frozen=True)
class MeasuredTurn:
    """One turn and the connections measured in it; ``at`` is its time, in any unit."""

    side: Side
    at: float
    connections: tuple[Connection, ...]


@dataclass(frozen=True)
class Boot:
    """One turn: its side, when it began (in any unit), and the level of each connection in bit/s."""

    side: Side
    at: float
    levels: tuple[float, ...]

    @cached_property
    def logs(self) -> list[float]:
        return logarithms(self.levels)

    @cached_property
    def value(self) -> float:
        """The mean logarithm of the levels."""
        return fmean(self.logs)


def judge_turns(
    turns: Sequence[MeasuredTurn], judged: Callable[[Sequence[Boot]], Difference], over: bool, stalls: str = ""
) -> Difference:
    """Judge the levels of all connections by a statistic, and also their means if some were disturbed.

    A stall in one connection does not make B slower. Repeated stalls do: the means may also give slower, and the reason
    then ends with ``stalls``. B is neither the same nor faster while more than one in three of its connections are
    disturbed, and a larger share than of A's. ``over``: there are no more turns.
    """
    readings = [[reading for one in turn.connections if (reading := read(one))] for turn in turns]

    def valued(value: Callable[[Level], float]) -> Difference:
        both = zip(turns, readings, strict=True)
        return judged([Boot(turn.side, turn.at, tuple(value(one) for one in own)) for turn, own in both])

    found = valued(lambda one: one.level)
    each = [
        [one.disturbed for turn, own in zip(turns, readings, strict=True) if turn.side is which for one in own]
        for which in Side
    ]
    disturbed = sum(each[0]), sum(each[1])
    share_a, share_b = (sum(one) / max(len(one), 1) for one in each)
    if any(disturbed) and found.result is not Relation.SLOWER:
        means = valued(lambda one: one.mean)
        if means.result is Relation.SLOWER:
            found = replace(means, why=f"{means.why}{stalls}")
        elif found.result in (Relation.SAME, Relation.FASTER) and share_b > max(share_a, MOST_DISTURBED):
            result = Relation.INCONCLUSIVE if over else Relation.GO_ON
            found = replace(found, result=result, why=f"{counted(disturbed[1], len(each[1]))} of B had disturbances")
    return replace(found, disturbed=disturbed)


def compare_connections(
    connections: Sequence[Connection],
    tolerance: float = STATE_TOLERANCE,
    noise: Noise = UNKNOWN,
    error_rate: float = 0.01,
) -> Difference:
    """Judge connections made in the order of `side`, each of which is a turn, as `compare_in_turn` does."""

    def judged(turns: Sequence[Boot]) -> Difference:
        figures = [turn.levels[0] if turn.levels else math.nan for turn in turns]
        return compare_in_turn(figures, tolerance, noise, error_rate)

    turns = [MeasuredTurn(side(at), at, (one,)) for at, one in enumerate(connections)]
    found = judge_turns(turns, judged, over=len(connections) >= 2 * MOST_PAIRS)
    return replace(found, remarks=tuple(dict.fromkeys(text for one in connections for text in remarks(one))))


@dataclass(frozen=True)
class ChangeRules:
    """How a value of B is judged against A: the share by which it may be worse, its known noise, and the error rate.

    ``values`` is the number of values judged in all: an unchanged build is called slower at ``error_rate`` in any of
    them, not in each. After ``most_boots`` an uncertain result stays inconclusive.
    """

    tolerance: float = TOLERANCE
    noise: Noise = UNKNOWN
    error_rate: float = 0.01
    values: int = 1
    most_boots: int = MOST_BOOTS


def judge_boots(boots: Sequence[MeasuredTurn], rules: ChangeRules) -> Difference:
    """Judge the connections of all boots, as `judge_change` does."""

    def judged(turns: Sequence[Boot]) -> Difference:
        return judge_change(turns, rules)

    return judge_turns(boots, judged, len(boots) >= rules.most_boots, "; connections of B stall")


def compare_in_turn(
    figures: Sequence[float], tolerance: float = STATE_TOLERANCE, noise: Noise = UNKNOWN, error_rate: float = 0.01
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
    enough = certainty_threshold(error_rate / PAIR_LOOKS)
    # Without measured noise, it must first be estimated.
    least_pairs = FAILS_AFTER if noise.assumed else 0
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
    if n >= MOST_PAIRS or (
        n >= FAILS_AFTER and reach < required(least, freedom + MOST_PAIRS - n, error_rate / PAIR_LOOKS)
    ):
        why = f"undecided {after}: {shown}; noise {percent(math.sqrt(between))} between pairs"
        return Difference(Relation.INCONCLUSIVE, why, *known)
    return Difference(Relation.GO_ON, f"not certain {after}: {shown}", *known)


def _agree(votes: Iterable[bool], all_of: int = 0) -> bool:
    """Return whether two of three votes are yes; of up to ``all_of`` votes all must be."""
    every = list(votes)
    return sum(every) >= (MOST_AGREE * len(every) if len(every) > all_of else len(every))


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
    between = max(between, own if n > 2 else 0.0, PAIR_FLOOR**2)
    return mean, drift, between * (1 / n + orders**2 / squares), between


def judge_misses(turns: Sequence[tuple[Side, bool]], over: bool = False) -> tuple[Verdict | None, str]:
    """Judge a limit by the turns that missed it, in their order: B fails if it alone misses the limit in each turn.

    Return why, too. None requires another turn; ``over``: there is none.
    """
    of_a, of_b = ([missed for own, missed in turns if own is one] for one in Side)
    missed = sum(of_b)
    if any(of_a):
        return Verdict.INCONCLUSIVE, "the known-good build misses the limit, too"
    if missed < len(of_b):
        return Verdict.PASS, f"the limit was missed in {missed} of {len(of_b)} turns of B" if missed else ""
    # After the second miss, the known-good build gets another turn.
    if missed >= OFTEN and (over or turns[-1][0] is Side.A):
        return Verdict.FAIL, f"the limit was missed in {missed} of {missed} turns of B, and in 0 of {len(of_a)} of A"
    return (Verdict.INCONCLUSIVE if over else None), "too few turns to decide which build misses the limit"


def connections_per_turn(noise: Noise, boot_s: float, connection_s: float) -> int:
    """Return the best number of connections per boot: ``sqrt(cost ratio x variance ratio)`` (Kalibera and Jones 2013).

    ``connection_s`` is the time of one more connection of everything that is measured in the boot.
    """
    if noise.sessions <= 0:
        return MOST_CONNECTIONS
    best = math.sqrt(boot_s / max(connection_s, 0.1)) * noise.connections / noise.sessions
    return min(max(round(best), 1), MOST_CONNECTIONS)


def judge_change(
    boots: Sequence[Boot], rules: ChangeRules, obvious: float = OBVIOUS, words: Words = GOODPUT
) -> Difference:
    """Judge boots in the order in which they were made; boots without a value are left out.

    B is slower if it certainly lies more than the tolerance below A, and the same if it certainly does not. The test is
    a sequential test of "no change" against "twice the tolerance". ``obvious`` is a change (in logarithms) by which
    boots of one build never differ. ``words`` are the words of the value. If it is better low, the boots have its
    inverse, the result its own change.
    """
    noise, error_rate, most_boots = rules.noise, rules.error_rate, rules.most_boots
    tolerance = -words.change(rules.tolerance) if words.inverse else rules.tolerance
    if not 0 < tolerance < 0.5:
        raise ValueError(f"the tolerance {tolerance} is not between 0 and 0.5; expected a fraction such as {TOLERANCE}")
    known = [boot for boot in boots if boot.logs]
    of_each = [sum(boot.side is side for boot in known) for side in Side]
    n = len(known)
    over = len(boots) >= most_boots
    if n < LEAST_BOOTS or min(of_each) < 2:
        why = f"too few turns to compare the builds: {n}"
        return Difference(Relation.INCONCLUSIVE if over else Relation.GO_ON, why, n)
    known, odd = _without_odd(known, noise)
    few = [side for side in Side if sum(boot.side is side for boot in known) < LEAST_GOOD]
    if odd and few:
        why = f"too few turns to compare the builds: without an outlier, {'/'.join(few)} has fewer than {LEAST_GOOD}"
        return Difference(Relation.INCONCLUSIVE if over else Relation.GO_ON, why, n)
    fit = _fit(known)
    own, freedom = _spread(fit, known, noise)
    spread = own / fit.weight
    half = normal(1 - error_rate) * math.sqrt(spread)
    limit = math.log1p(-tolerance)
    zone = -limit
    slower, faster = (likelihood(fit.change + by, spread, freedom, zone) for by in (-limit, limit))
    change, *ends = (words.change(math.expm1(one)) for one in (fit.change, fit.change - half, fit.change + half))
    low, high = sorted(ends)
    found = (n, change, (low, high), math.sqrt(own))
    sizes = (abs(change) * 100, words.less if change < 0 else words.more, low * 100, high * 100)
    text = words.difference.format(*sizes)
    text = "; ".join([text, *(f"an outlier of {boot.side} was left out" for boot in odd)])
    after = f"after {n} turns"
    enough = certainty_threshold(error_rate / LOOKS)
    # For slower and faster only: of many unchanged values, one looks changed by chance more often than a single one.
    enough_of_all = certainty_threshold(error_rate / LOOKS / max(rules.values, 1))
    seems_slower, seems_faster = slower < -enough_of_all, faster > enough_of_all
    calibrated = _is_as_calibrated(known, noise)
    least = 0 if calibrated else least_by_chance(len(odd), error_rate)
    least_same = 0 if calibrated or tolerance >= KINDS_APART else least_by_chance(len(odd), error_rate, ways=1)
    apart = n >= least
    is_obvious = not odd and fit.change < obvious
    if (apart or is_obvious) and seems_slower and _agree((d < limit for d in fit.pairs), 3):
        error = LOOKS * least_error(slower)
        return Difference(Relation.SLOWER, f"{words.worse}, certain {after}: {text}", *found, error=error)
    if apart and seems_faster and _agree((d > -limit for d in fit.pairs), 3):
        error = LOOKS * least_error(faster)
        return Difference(Relation.FASTER, f"{words.better}, certain {after}: {text}", *found, error=error)
    if n >= least_same and slower > enough and not seems_faster and _agree((d > limit for d in fit.pairs), 3):
        return Difference(Relation.SAME, f"not {words.worse}, certain {after}: {text}", *found)
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


def _is_as_calibrated(boots: Sequence[Boot], noise: Noise) -> bool:
    """Return whether differences between boots were measured, and boots of each build do not differ by far more."""
    if noise.assumed:
        return False
    usual = fmean(len(boot.levels) for boot in boots)
    most = WILD * max(math.sqrt(_expected(noise, usual)), FLOOR)
    of_each = ([boot.value for boot in boots if boot.side is side] for side in Side)
    return all(max(values) - min(values) <= most for values in of_each if values)


def _expected(noise: Noise, connections: float) -> float:
    """Return the variance of a boot's value over this number of connections. ``Noise`` calls a boot a session."""
    return noise.sessions**2 + noise.connections**2 / max(connections, 1.0)


def _fit(boots: Sequence[Boot]) -> _Fit:
    """Fit build and time by least squares."""
    n = len(boots)
    sides = [0.5 if boot.side is Side.B else -0.5 for boot in boots]
    times = [boot.at for boot in boots]
    values = [boot.value for boot in boots]
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
    return _Fit(change, weight, residuals, tuple(_neighbours(boots)))


def _neighbours(boots: Sequence[Boot]) -> list[float]:
    found = []
    waiting: Boot | None = None
    for boot in boots:
        if waiting is not None and waiting.side is not boot.side:
            found.append((boot.value - waiting.value) * (1 if boot.side is Side.B else -1))
            waiting = None
        else:
            waiting = boot
    return found


def _without_odd(boots: list[Boot], noise: Noise) -> tuple[list[Boot], list[Boot]]:
    """Separate the few boots that are far from all others, such as one whose link came up badly.

    One that is like boots of the other build is not odd: without it, each build would have one kind of boots.
    """
    odd: list[Boot] = []
    for _ in range(len(boots) // ODD_OF):
        residuals = _fit(boots).residuals
        worst = max(range(len(boots)), key=lambda index: abs(residuals[index]))
        others = boots[:worst] + boots[worst + 1 :]
        of_each = ([boot.value for boot in others if boot.side is side] for side in Side)
        own, _ = _spread(_fit(others), others, noise)
        far = ODD * math.sqrt(own)
        if any(len(same) < 2 or abs(boots[worst].value - fmean(same)) <= far for same in of_each):
            break
        odd.append(boots[worst])
        boots = others
    return boots, odd


def _spread(fit: _Fit, known: Sequence[Boot], noise: Noise) -> tuple[float, float]:
    """Return the variance of one boot's value, and its degrees of freedom, pooled from calibration and residuals.

    A higher variance than the calibrated one counts at once, a lower one only gradually. The variance is never lower
    than the connections of the boots show.
    """
    usual = fmean(len(boot.levels) for boot in known)
    freedom = noise.freedom if noise.session_freedom is None else min(noise.freedom, noise.session_freedom)
    expected = _expected(noise, usual)
    if noise.assumed:
        # The values assumed for an ordinary bench are no knowledge about this bench.
        freedom = min(freedom, 1.0)
    more = len(known) - 3
    pooled = (freedom * expected + fit.left) / max(freedom + more, 1.0)
    seen = fit.left / more if more > 1 else 0.0
    rough = [variance(boot.logs) for boot in known if len(boot.logs) > 1]
    within = fmean(rough) / usual if rough else 0.0
    return max(pooled, seen, within, FLOOR**2), max(freedom + more, 1.0)


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
