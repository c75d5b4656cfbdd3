"""A new build against the known-good one, boot by boot: boots differ, however long traffic runs in each.

Each turn of A B B A B A A B is a boot of its own. Its figure is the mean logarithm of its connections; builds, drift
and boots are told apart by least squares over all boots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_pinet.judge.interleaved import Result, Side
from pytest_pinet.judge.likelihood import likelihood, needed, required
from pytest_pinet.judge.moments import variance
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.quantiles import chi_square, normal
from pytest_pinet.judge.wording import percent

# What a build may cost where nobody says otherwise: a path that is 2 % longer is found, an unchanged one passes.
TOLERANCE = 0.01
# No two boots repeat better than this.
FLOOR = 0.002
# A B B A: what drift adds to one pair it takes from the other.
LEAST_BOOTS = 4
# Where nobody measured how boots differ, it must show itself first.
LEAST_UNKNOWN = 6
# There, boots may as well be of two kinds: emulated ones of a virtio NIC are, 2 % apart. All boots of B are then of one
# kind, and all of A of the other, by chance more often than the error rate allows, in less than so many (simulated).
LEAST_APART = 11
# Boots of one build further apart than so many of the standard deviations that were measured (seen: on a machine that
# carried twice its load) are not what was calibrated any more: drift would explain them in four turns, and so would
# chance.
WILD = 6.0
MOST_BOOTS = 16
# So much slower (in logarithms) is none of the ways in which boots of a sound bench differ.
OBVIOUS = -0.1
# Part of the pairs of boots that must say what is said of all of them.
MOST_AGREE = 2 / 3
# Decided after each boot from the fourth on; the error rate holds for all looks together (simulated).
LOOKS = 6
# One boot in so many may be odd: further from the others than ODD standard deviations.
ODD_OF = 6
ODD = 6.0
B_WITH_ODD = 4
# More connections in one boot than this say nothing that another boot would not say better.
MOST_CONNECTIONS = 6


@dataclass(frozen=True)
class Boot:
    """What one boot gave of one figure: its build, when it began (any unit), each connection's level in bit/s."""

    side: Side
    at: float
    levels: tuple[float, ...]


@dataclass(frozen=True)
class Difference:
    """Whether to go on booting, and why.

    ``change``: B over A minus one, between ``low`` and ``high`` at the error rate. ``between`` is the relative standard
    deviation from boot to boot.
    """

    result: Result
    why: str
    boots: int = 0
    change: float | None = None
    low: float | None = None
    high: float | None = None
    between: float | None = None

    @property
    def decided(self) -> bool:
        return self.result is not Result.GO_ON


def connections_per_turn(noise: Noise, boot_s: float, connection_s: float) -> int:
    """How many connections a boot is worth: ``sqrt(cost ratio x variance ratio)`` (Kalibera and Jones 2013).

    ``connection_s`` is what one more connection of everything that is measured in the boot takes.
    """
    if noise.sessions <= 0:
        return MOST_CONNECTIONS
    worth = math.sqrt(boot_s / max(connection_s, 0.1)) * noise.connections / noise.sessions
    return min(max(round(worth), 1), MOST_CONNECTIONS)


def judge_change(
    boots: Sequence[Boot],
    tolerance: float = TOLERANCE,
    noise: Noise = UNKNOWN,
    error_rate: float = 0.01,
    figures: int = 1,
    most_boots: int = MOST_BOOTS,
) -> Difference:
    """Judge boots in the order in which they were made; those without a figure are left out.

    B is slower when it certainly lies more than ``tolerance`` below A, the same when it certainly does not: a
    sequential test of "no change" against "twice the tolerance". ``figures`` are judged in all: an unchanged build is
    called slower at ``error_rate`` in any of them, not in each. After ``most_boots`` what is not certain stays so.
    """
    if not 0 < tolerance < 0.5:
        raise ValueError(f"a tolerance of {tolerance} makes no sense; expected a part such as {TOLERANCE}")
    known = [_Row(boot, value) for boot in boots if (value := _log_mean(boot.levels)) is not None]
    of_each = [sum(row.boot.side is side for row in known) for side in Side]
    n = len(known)
    over = len(boots) >= most_boots
    if n < LEAST_BOOTS or min(of_each) < 2:
        why = f"{n} turn{'' if n == 1 else 's'} cannot tell one build from the other"
        return Difference(Result.INCONCLUSIVE if over else Result.GO_ON, why, n)
    known, odd = _without_odd(known, noise)
    fit = _fit(known)
    own, freedom = _spread(fit, known, noise)
    spread = own / fit.weight
    half = normal(1 - error_rate) * math.sqrt(spread)
    limit = math.log1p(-tolerance)
    zone = -limit
    slower, faster = (likelihood(fit.change + by, spread, freedom, zone) for by in (-limit, limit))
    shown = (math.expm1(fit.change), math.expm1(fit.change - half), math.expm1(fit.change + half))
    found = (n, *shown, math.sqrt(own))
    text = f"B is {shown[0] * 100:+.2f} % against A ({shown[1] * 100:+.2f} to {shown[2] * 100:+.2f} %)"
    text = "; ".join([text, *(f"an odd turn of {row.boot.side} left out" for row in odd)])
    after = f"after {n} turns"
    enough = needed(error_rate / LOOKS)
    # One of many unchanged figures is below its limit by chance more often than one of one.
    enough_of_all = needed(error_rate / LOOKS / max(figures, 1))
    seems_slower, seems_faster = slower < -enough_of_all, faster > enough_of_all
    calibrated = _is_as_calibrated(known, noise)
    settled = n >= (LEAST_BOOTS if calibrated else LEAST_UNKNOWN)
    # What happens in one of three boots of the new build is no oddity.
    settled = settled and not (any(row.boot.side is Side.B for row in odd) and of_each[1] < B_WITH_ODD)
    apart = settled and (n >= LEAST_APART or calibrated)
    pairs = fit.pairs
    if (apart or fit.change < OBVIOUS) and seems_slower and _agree(pairs, lambda d: d < limit):
        return Difference(Result.SLOWER, f"slower, certain {after}: {text}", *found)
    if apart and seems_faster and _agree(pairs, lambda d: d > -limit):
        return Difference(Result.FASTER, f"faster, certain {after}: {text}", *found)
    if settled and slower > enough and not seems_faster and _agree(pairs, lambda d: d > limit):
        return Difference(Result.SAME, f"not slower, certain {after}: {text}", *found)
    if over or _is_hopeless(fit, own, freedom, limit, n, most_boots, error_rate):
        why = f"undecided {after}: {text}; turns differ by {percent(math.sqrt(own))}"
        if settled and not apart and (seems_slower or seems_faster):
            why += f"; to be sure takes {LEAST_APART} turns (--pinet-boots), or `pinet calibrate --boots`"
        return Difference(Result.INCONCLUSIVE, why, *found)
    return Difference(Result.GO_ON, f"not certain {after}: {text}", *found)


@dataclass(frozen=True)
class _Row:
    """A boot and its figure, the mean logarithm of its levels."""

    boot: Boot
    value: float


@dataclass(frozen=True)
class _Fit:
    """``change`` is ln(B / A) without drift, whose variance is that of one boot over ``weight``.

    ``residuals`` are what neither builds nor drift explain of each boot; ``pairs`` are ln(B / A) of neighbours.
    """

    change: float
    weight: float
    residuals: tuple[float, ...]
    pairs: tuple[float, ...]

    @property
    def left(self) -> float:
        return math.fsum(one * one for one in self.residuals)


def _is_as_calibrated(rows: Sequence[_Row], noise: Noise) -> bool:
    """Whether somebody measured how boots differ, and those of each build do not differ by far more."""
    if noise.assumed:
        return False
    usual = fmean(len(row.boot.levels) for row in rows)
    most = WILD * max(math.sqrt(_expected(noise, usual)), FLOOR)
    of_each = ([row.value for row in rows if row.boot.side is side] for side in Side)
    return all(max(values) - min(values) <= most for values in of_each if values)


def _expected(noise: Noise, connections: float) -> float:
    """The variance of a boot's figure over so many connections."""
    return noise.sessions**2 + noise.connections**2 / max(connections, 1.0)


def _log_mean(levels: Sequence[float]) -> float | None:
    """The figure of a boot; None where it gave none."""
    usable = _usable(levels)
    return fmean(map(math.log, usable)) if usable else None


def _usable(levels: Sequence[float]) -> list[float]:
    return [level for level in levels if math.isfinite(level) and level > 0]


def _fit(rows: Sequence[_Row]) -> _Fit:
    """Least squares on build and time."""
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
    """The boots, and those few that are far from all others of their build: such as one whose link came up badly."""
    odd: list[_Row] = []
    for _ in range(len(rows) // ODD_OF):
        residuals = _fit(rows).residuals
        worst = max(range(len(rows)), key=lambda index: abs(residuals[index]))
        others = rows[:worst] + rows[worst + 1 :]
        same = [row.value for row in others if row.boot.side is rows[worst].boot.side]
        own, _ = _spread(_fit(others), others, noise)
        if len(same) < 2 or abs(rows[worst].value - fmean(same)) <= ODD * math.sqrt(own):
            break
        odd.append(rows[worst])
        rows = others
    return rows, odd


def _spread(fit: _Fit, known: Sequence[_Row], noise: Noise) -> tuple[float, float]:
    """The variance of one boot's figure, and its degrees of freedom: what is known pooled with what is left over.

    Worse than known is believed at once, better only by and by; and no boot is better known than its connections say.
    """
    usual = fmean(len(row.boot.levels) for row in known)
    freedom = noise.freedom if noise.session_freedom is None else min(noise.freedom, noise.session_freedom)
    expected = _expected(noise, usual)
    if noise.assumed:
        # What an ordinary bench stays within is no knowledge of this one.
        freedom = min(freedom, 1.0)
    more = len(known) - 3
    pooled = (freedom * expected + fit.left) / max(freedom + more, 1.0)
    seen = fit.left / more if more > 1 else 0.0
    logs = [[math.log(level) for level in _usable(row.boot.levels)] for row in known]
    rough = [variance(one) for one in logs if len(one) > 1]
    within = fmean(rough) / usual if rough else 0.0
    return max(pooled, seen, within, FLOOR**2), max(freedom + more, 1.0)


def _agree(pairs: Sequence[float], says: Callable[[float], bool]) -> bool:
    votes = [says(pair) for pair in pairs]
    # Of two or three pairs one odd boot is too many.
    return sum(votes) >= (MOST_AGREE * len(votes) if len(votes) > 3 else len(votes))


def _is_hopeless(
    fit: _Fit, own: float, freedom: float, limit: float, n: int, most_boots: int, error_rate: float
) -> bool:
    """Whether even the rest of the boots could not make it certain, were the truth as far from the limit as it seems.

    Nearer to the limit than an unchanged build is, it is not taken to be.
    """
    if n < LEAST_UNKNOWN:
        return False
    least = chi_square(0.1, freedom) / freedom * own * 4 / most_boots
    reach = max(abs(fit.change - limit), abs(limit))
    return reach < required(least, freedom + most_boots - n, error_rate / LOOKS, -limit)
