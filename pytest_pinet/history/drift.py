"""Distinguishes a slow drift over weeks from a jump. A drift has no single build to blame. This module does no I/O."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, pairwise

from pytest_pinet.history.levels import (
    CERTAIN,
    LEAST_NOISE,
    MATTERS,
    LevelShift,
    Readings,
    levels,
    noise_of,
    shifts,
    widened,
)

# A change over fewer runs is a jump.
LEAST_LENGTH = 30
_GRID = 16
_ROUNDS = 4
# A drift needs this share of the certainty that a jump needs: noise whose neighbours are alike looks like a jump more
# often than like a drift.
_SLOW = 5 / 6
# A jump of this share of the certainty is a hint of a drift.
_HINT = 0.5
# How many parameters of the BIC (Bayesian information criterion) a jump and a drift count as: their places and sizes,
# and one for the search of the place.
_JUMP = 3
_DRIFT = 4
# A drift is reported only if its criterion is better by this much than jumps alone.
_MARGIN = 4.0
# A jump beside a drift must be this much more certain, because a drift that is not straight looks like a jump.
_BESIDE = 1.4


@dataclass(frozen=True)
class Drift:
    """A level that moved steadily from reading ``begin`` to reading ``end``. ``size`` is in logarithms."""

    begin: int
    end: int
    size: float

    def line(self, length: int) -> list[float]:
        """Return 0 before the drift, its size after it, and a straight line in between."""
        rise, size = self.end - self.begin, self.size
        return [0.0] * self.begin + [size * (step / rise) for step in range(rise)] + [size] * (length - self.end)

    def removed_from(self, values: Sequence[float]) -> list[float]:
        return list(map(operator.sub, values, self.line(len(values))))


@dataclass(frozen=True)
class SeriesCourse:
    """The course of a series: its jumps, and its drift if there is one. ``levels`` has a value for each reading."""

    shifts: tuple[LevelShift, ...]
    drift: Drift | None
    levels: tuple[float, ...]


# A drift, and the jumps beside it.
DriftWithJumps = tuple[Drift, list[LevelShift]]


def course_of(rates: Sequence[float], matters: float = MATTERS) -> SeriesCourse:
    """Find the course of a series of rates (bit/s)."""
    return course([math.log(max(rate, 1.0)) for rate in rates], matters=matters)


def course(logs: Sequence[float], certain: float = CERTAIN, matters: float = MATTERS) -> SeriesCourse:
    """Find the jumps and the drift of a series of logarithms."""
    series = Readings(logs)
    values = series.values
    found = shifts(series, certain, matters)
    cuts = [shift.at for shift in found]
    jumped = SeriesCourse(tuple(found), None, tuple(levels(values, cuts)) if values else ())
    slow = certain * _SLOW
    if len(logs) < 2 * LEAST_LENGTH or not (found or shifts(series, certain * _HINT, matters)):
        # A drift that matters shows up as jumps at first, if only as uncertain ones: without them there is no drift.
        return jumped
    best, least = jumped, _cost(values, cuts, _JUMP * len(cuts)) - _MARGIN
    starts: list[DriftWithJumps] = [(_best_drift(values, ()), [])]
    starts += [(_best_drift(values, cuts), found)] if cuts else []
    for drift, own in (starts[0], *(_together(logs, values, start, slow * _BESIDE, matters) for start in starts)):
        cuts, flat = [shift.at for shift in own], drift.removed_from(values)
        cost = _cost(flat, cuts, _JUMP * len(cuts) + _DRIFT)
        if cost < least and abs(drift.size) >= matters and _is_certain(drift, flat, cuts, slow):
            fitted = map(operator.add, levels(flat, cuts), drift.line(len(flat)))
            best, least = SeriesCourse(tuple(own), drift, tuple(fitted)), cost
    return best


def _together(
    logs: Sequence[float], values: Sequence[float], start: DriftWithJumps, certain: float, matters: float
) -> DriftWithJumps:
    """Find a drift and the jumps beside it, alternately: each one while the other is removed."""
    drift, own = start
    cuts = [shift.at for shift in own]
    for _ in range(_ROUNDS):
        own = shifts(Readings(drift.removed_from(logs)), certain, matters)
        before, cuts = cuts, [shift.at for shift in own]
        if cuts == before:
            break
        drift = _best_drift(values, cuts)
    return drift, own


def _best_drift(values: Sequence[float], cuts: Sequence[int]) -> Drift:
    """Find where a drift beside these jumps fits best: first on a coarse grid, then to single runs."""
    length = len(values)
    step = max(length // _GRID, 1)
    fit = _DriftFit(_without_levels(values, cuts), cuts)
    places = [*range(0, length - 1, step), length - 1]
    best = fit.best((a, b) for a in places for b in places)
    while step > 1:
        step = max(step // 2, 1)
        begins = [begin for begin in (best.begin - step, best.begin, best.begin + step) if begin >= 0]
        ends = [end for end in (best.end - step, best.end, best.end + step) if end < length]
        best = fit.best((a, b) for a in begins for b in ends)
    return best


class _DriftFit:
    """How well drifts fit a series without its levels. Running sums make each drift cheap: hundreds are tried."""

    def __init__(self, flat: Sequence[float], cuts: Sequence[int]) -> None:
        self._edges = [0, *cuts, len(flat)]
        self._sums = [0.0, *accumulate(flat)]
        self._weighted = [0.0, *accumulate(map(operator.mul, flat, count()))]

    def best(self, places: Iterable[tuple[int, int]]) -> Drift:
        """Return the drift at the best of these places that are far enough apart."""
        gains = ((*self._gain(a, b), a, b) for a, b in places if b - a >= LEAST_LENGTH)
        _, size, begin, end = max(gains, key=lambda one: one[0])
        return Drift(begin, end, size)

    def _gain(self, begin: int, end: int) -> tuple[float, float]:
        """Return how much a drift lowers the sum of squares, and its size (Frisch-Waugh)."""
        rise, after, sums, weighted = end - begin, end + 1, self._sums, self._weighted
        # The sum of the line's values before each edge, and of its squares. It is 0 before the drift and 1 after it.
        lines = [
            (edge - after) + (rise + 1) / 2 if edge > end else max(edge - begin - 1, 0) * (edge - begin) / (2 * rise)
            for edge in self._edges
        ]
        squares = self._edges[-1] - after + (rise + 1) * (2 * rise + 1) / (6 * rise)
        for (a, b), (low, high) in zip(pairwise(self._edges), pairwise(lines), strict=True):
            squares -= (high - low) ** 2 / (b - a)
        if squares < 1e-12:
            return 0.0, 0.0
        risen = weighted[after] - weighted[begin] - begin * (sums[after] - sums[begin])
        product = risen / rise + sums[-1] - sums[after]
        return product * product / squares, product / squares


def _without_levels(values: Sequence[float], cuts: Sequence[int]) -> list[float]:
    return [value - level for value, level in zip(values, levels(values, cuts), strict=True)]


def _cost(flat: Sequence[float], cuts: Sequence[int], parts: int) -> float:
    """Return the Bayesian information criterion of so many parameters. Correlated neighbours count less."""
    factor = widened(noise_of(flat, cuts)[1])
    squares = max(math.fsum(one * one for one in _without_levels(flat, cuts)) / len(flat), LEAST_NOISE**2)
    return len(flat) / (factor * factor) * math.log(squares) + parts * math.log(len(flat))


def _is_certain(drift: Drift, flat: Sequence[float], cuts: Sequence[int], certain: float) -> bool:
    """Return whether the drift itself is certain, from the values without it."""
    noise, alike = noise_of(flat, cuts)
    squares = math.fsum(one * one for one in _without_levels(drift.line(len(flat)), cuts))
    return math.sqrt(squares) > certain * noise * widened(alike)
