"""Distinguishes a slow drift over weeks from a jump. A drift has no single build to blame. This module does no I/O."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
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


@dataclass(frozen=True)
class SeriesCourse:
    """The course of a series: its jumps, and its drift if there is one. ``levels`` has a value for each reading."""

    shifts: tuple[LevelShift, ...]
    drift: Drift | None
    levels: tuple[float, ...]


# Begin and end of a drift, its size, and the jumps beside it.
DriftWithJumps = tuple[tuple[int, int], float, list[LevelShift]]


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
    best, least = jumped, _cost(values, cuts, 0.0, ()) - _MARGIN
    starts: list[DriftWithJumps] = [(*_best_ramp(values, ()), [])]
    starts += [(*_best_ramp(values, cuts), found)] if cuts else []
    for ramp, size, own in (starts[0], *(_together(logs, values, start, slow * _BESIDE, matters) for start in starts)):
        cost = _cost(values, [shift.at for shift in own], size, ramp)
        if cost < least and _is_drift(values, own, ramp, size, slow, matters):
            line = [size * part for part in _ramp(len(values), ramp)]
            flat = [value - part for value, part in zip(values, line, strict=True)]
            fitted = [a + b for a, b in zip(levels(flat, [shift.at for shift in own]), line, strict=True)]
            best, least = SeriesCourse(tuple(own), Drift(*ramp, size), tuple(fitted)), cost
    return best


def _together(
    logs: Sequence[float], values: Sequence[float], start: DriftWithJumps, certain: float, matters: float
) -> DriftWithJumps:
    """Find a drift and the jumps beside it, alternately: each one while the other is removed."""
    ramp, size, own = start
    cuts = [shift.at for shift in own]
    for _ in range(_ROUNDS):
        line = [size * part for part in _ramp(len(values), ramp)]
        own = shifts(Readings(list(map(operator.sub, logs, line))), certain, matters)
        before, cuts = cuts, [shift.at for shift in own]
        if cuts == before:
            break
        ramp, size = _best_ramp(values, cuts)
    return ramp, size, own


def _ramp(length: int, ramp: tuple[int, int]) -> list[float]:
    """Return 0 before the drift, 1 after it, and a straight line in between."""
    begin, end = ramp
    rise = end - begin
    return [0.0] * begin + [step / rise for step in range(rise)] + [1.0] * (length - end)


def _best_ramp(values: Sequence[float], cuts: Sequence[int]) -> tuple[tuple[int, int], float]:
    """Find where a drift beside these jumps fits best: first on a coarse grid, then to single runs."""
    length = len(values)
    step = max(length // _GRID, 1)
    fit = _RampFit(_without_levels(values, cuts), cuts)
    places = [*range(0, length - 1, step), length - 1]
    best = max((fit.gain(a, b) for a in places for b in places if b - a >= LEAST_LENGTH), key=lambda one: one[0])
    while step > 1:
        step = max(step // 2, 1)
        begin, end = best[1]
        near = (
            (a, b)
            for a in (begin - step, begin, begin + step)
            for b in (end - step, end, end + step)
            if a >= 0 and b < length and b - a >= LEAST_LENGTH
        )
        best = max((fit.gain(*ramp) for ramp in near), key=lambda one: one[0])
    return best[1], best[2]


class _RampFit:
    """How well drifts fit a series without its levels. Running sums make each drift cheap: hundreds are tried."""

    def __init__(self, flat: Sequence[float], cuts: Sequence[int]) -> None:
        self._edges = [0, *cuts, len(flat)]
        self._sums = [0.0, *accumulate(flat)]
        self._weighted = [0.0, *accumulate(map(operator.mul, flat, count()))]

    def gain(self, begin: int, end: int) -> tuple[float, tuple[int, int], float]:
        """Return how much a drift lowers the sum of squares, its place and its size (Frisch-Waugh)."""
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
            return 0.0, (begin, end), 0.0
        risen = weighted[after] - weighted[begin] - begin * (sums[after] - sums[begin])
        product = risen / rise + sums[-1] - sums[after]
        return product * product / squares, (begin, end), product / squares


def _without_levels(values: Sequence[float], cuts: Sequence[int]) -> list[float]:
    return [value - level for value, level in zip(values, levels(values, cuts), strict=True)]


def _cost(values: Sequence[float], cuts: Sequence[int], size: float, ramp: tuple[int, int] | tuple[()]) -> float:
    """Return the Bayesian information criterion. Correlated neighbours count less."""
    line = [size * part for part in _ramp(len(values), ramp)] if ramp else [0.0] * len(values)
    flat = [value - part for value, part in zip(values, line, strict=True)]
    factor = widened(noise_of(flat, cuts)[1])
    squares = max(math.fsum(one * one for one in _without_levels(flat, cuts)) / len(flat), LEAST_NOISE**2)
    parts = _JUMP * len(cuts) + (_DRIFT if ramp else 0)
    return len(flat) / (factor * factor) * math.log(squares) + parts * math.log(len(flat))


def _is_drift(
    values: Sequence[float],
    own: Sequence[LevelShift],
    ramp: tuple[int, int],
    size: float,
    certain: float,
    matters: float,
) -> bool:
    """Return whether the drift itself is certain and large enough."""
    cuts = [shift.at for shift in own]
    line = _ramp(len(values), ramp)
    flat = [value - size * part for value, part in zip(values, line, strict=True)]
    noise, alike = noise_of(flat, cuts)
    squares = math.fsum(one * one for one in _without_levels(line, cuts))
    return abs(size) >= matters and abs(size) * math.sqrt(squares) > certain * noise * widened(alike)
