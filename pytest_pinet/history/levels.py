"""Finds change points of a series, with a known rate of false alarms. This module does no I/O.

The series is cut where a cut most lowers the squared distance from the levels (binary segmentation). Each cut is moved
to its best place. Then the weakest cuts are removed until all that remain are certain and large enough. A single
outlier moves no level. Runs of one day resemble each other, so the standard error of a level's mean includes the
correlation of neighbours.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_pinet.judge.statistics import robust_sd

# How many standard errors a level must move. Found by counting false alarms (benchmarks.history, tests).
CERTAIN = 6.0
# A smaller shift is no regression (`judge.spread.TOLERATED`).
MATTERS = 0.01
# A level of one or two runs can be a bad day.
LEAST_RUNS = 3
_MOST_LEAPS = 8
# Readings further from the median of their neighbours than this many standard deviations are clipped.
_FAR = 3.0
_NEIGHBOURS = 2
# The assumed correlation of neighbouring runs, and the number of runs that this assumption weighs.
_USUALLY_ALIKE = 0.5
_WORTH = 20
_MOST_ALIKE = 0.9
# In a short series, noise and correlation are not well known: with so many runs, a level must move 1.4 times as much.
_SHORT = 20.0
# Goodput is never measured more precisely. Without this bound every change of a constant series would be certain.
LEAST_NOISE = 2e-4


@dataclass(frozen=True)
class LevelShift:
    """The start of a level: ``at`` is the index of its first reading.

    With 99 % certainty the level begins between ``first`` and ``last``. ``size`` is in
    logarithms. ``certainty`` is the size in standard errors.
    """

    at: int
    first: int
    last: int
    size: float
    certainty: float


def shifts(
    logs: Sequence[float], certain: float = CERTAIN, matters: float = MATTERS, values: Sequence[float] = ()
) -> list[LevelShift]:
    """Return where the level of a series of logarithms moved, in order. ``values``: `drawn_in` of it, if known."""
    if len(logs) < 2 * LEAST_RUNS:
        return []
    values = values or drawn_in(logs)
    least = _least(sum(a != b for a, b in zip(logs, values, strict=True)), len(logs))
    cuts = _settled(values, _candidates(values, certain * 0.6, least), least)
    cuts = _reduced(values, cuts, certain, matters, least)
    noise, alike = noise_of(values, cuts)
    leaps = {index for index, value in enumerate(values) if value != logs[index]}
    return [_shift(values, cuts, index, noise, alike, leaps) for index in range(len(cuts))]


def levels(values: Sequence[float], cuts: Sequence[int]) -> list[float]:
    """Return, for each reading, the mean of its level."""
    found: list[float] = []
    for begin, end in _parts(len(values), cuts):
        found += [math.fsum(values[begin:end]) / (end - begin)] * (end - begin)
    return found


def drawn_in(logs: Sequence[float]) -> list[float]:
    """Return the series with clipped outliers: each reading stays within a distance of its neighbours' median."""
    steps = [b - a for a, b in pairwise(logs)]
    far = _FAR * max(robust_sd(steps, statistics.median(steps)) / math.sqrt(2), LEAST_NOISE)
    width = 2 * _NEIGHBOURS + 1
    # The median, in its order: statistics.median takes most of the time of a quiet series.
    middles = [sorted(logs[begin : begin + width])[_NEIGHBOURS] for begin in range(len(logs) - width + 1)]
    middles = middles or [statistics.median(logs)]
    found = []
    for index, value in enumerate(logs):
        middle = middles[min(max(index - _NEIGHBOURS, 0), len(middles) - 1)]
        found.append(min(max(value, middle - far), middle + far))
    return found


def noise_of(values: Sequence[float], cuts: Sequence[int]) -> tuple[float, float]:
    """Return the standard deviation around the levels, and the correlation of neighbouring runs."""
    rest = [value - level for value, level in zip(values, levels(values, cuts), strict=True)]
    squares = math.fsum(one * one for one in rest)
    if squares <= 0:
        return LEAST_NOISE, 0.0
    inner = [
        (a, b)
        for begin, end in _parts(len(rest), cuts)
        for a, b in zip(rest[begin:end], rest[begin + 1 : end], strict=False)
    ]
    # Subtracting means lowers the correlation of neighbours, by about (1 + 4 r) over the length of a level (Kendall
    # 1954).
    alike = math.fsum(a * b for a, b in inner) / squares
    alike += (1 + 4 * max(alike, 0.0)) * (len(cuts) + 1) / len(rest)
    # A short series says little about the correlation, so the estimate is pulled towards the usual value.
    alike = (alike * len(rest) + _USUALLY_ALIKE * _WORTH) / (len(rest) + _WORTH)
    alike = min(max(alike, 0.0), _MOST_ALIKE)
    # Runs that resemble each other differ less from the mean of a short level than from their long-run mean.
    lengths = [end - begin for begin, end in _parts(len(rest), cuts)]
    freedom = math.fsum(length - widened(alike, length) ** 2 for length in lengths)
    return max(math.sqrt(squares / max(freedom, 0.5)), LEAST_NOISE), alike


def widened(alike: float, length: int | None = None) -> float:
    """Return the factor by which correlation widens the error of a mean of so many runs; None: of very many.

    The variance of the mean of n values is ``s^2 / n (1 + 2 sum over k < n of (1 - k / n) r^k)``.
    """
    if length is None:
        return math.sqrt((1 + alike) / (1 - alike))
    # The closed form of the sum.
    rest = alike * (1 - alike**length) / (length * (1 - alike) ** 2)
    return math.sqrt(1 + 2 * (alike / (1 - alike) - rest))


def _least(leaps: int, length: int) -> int:
    """Return the least length of a level: longer than a chance sequence of outliers (0.1 %) in this series."""
    share = min(max(leaps, 1) / length, 0.5)
    return min(max(math.ceil(math.log(0.001 / length) / math.log(share)), LEAST_RUNS), _MOST_LEAPS)


def _parts(length: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    edges = [0, *cuts, length]
    return list(pairwise(edges))


def _best_cut(values: Sequence[float], begin: int, end: int, least: int) -> tuple[int, float] | None:
    """Return the cut that most lowers the sum of squares in this range, and by how much."""
    length = end - begin
    if length < 2 * least:
        return None
    total = math.fsum(values[begin:end])
    left, best, at = math.fsum(values[begin : begin + least - 1]), -1.0, 0
    mean = total / length
    for count in range(least, length - least + 1):
        left += values[begin + count - 1]
        gap = left - mean * count
        gain = gap * gap * length / (count * (length - count))
        if gain > best:
            best, at = gain, begin + count
    return at, best


def _candidates(values: Sequence[float], certain: float, least: int) -> list[int]:
    """Return candidate cuts. Some of them are no change."""
    steps = [b - a for a, b in pairwise(values)]
    noise = max(robust_sd(steps, statistics.median(steps)) / math.sqrt(2), LEAST_NOISE)
    found: list[int] = []
    todo = [(0, len(values))]
    while todo:
        begin, end = todo.pop()
        best = _best_cut(values, begin, end, least)
        if best is None or math.sqrt(best[1]) < certain * noise:
            continue
        found.append(best[0])
        todo += [(begin, best[0]), (best[0], end)]
    return sorted(found)


def _settled(values: Sequence[float], cuts: list[int], least: int) -> list[int]:
    """Move each cut to its best place between its neighbours."""
    for _ in range(5):
        before = list(cuts)
        for index in range(len(cuts)):
            edges = [0, *cuts, len(values)]
            best = _best_cut(values, edges[index], edges[index + 2], least)
            if best is not None:
                cuts[index] = best[0]
        if cuts == before:
            break
    return cuts


def _reduced(values: Sequence[float], cuts: list[int], certain: float, matters: float, least: int) -> list[int]:
    """Remove the cuts that are not certain or too small, weakest first."""
    while cuts:
        noise, alike = noise_of(values, cuts)
        found = [_strength(values, cuts, index, noise, alike) for index in range(len(cuts))]
        needed = certain * math.sqrt(1 + _SHORT / len(values))
        weak = [
            (strength, index)
            for index, (strength, size) in enumerate(found)
            if strength < needed or abs(size) < matters
        ]
        if not weak:
            break
        del cuts[min(weak)[1]]
        cuts = _settled(values, cuts, least)
    return cuts


def _strength(
    values: Sequence[float], cuts: Sequence[int], index: int, noise: float, alike: float
) -> tuple[float, float]:
    """Return how many standard errors the level moves at a cut, and the size of the move."""
    edges = [0, *cuts, len(values)]
    begin, at, end = edges[index : index + 3]
    low, high = statistics.fmean(values[begin:at]), statistics.fmean(values[at:end])
    # A few bad days in a row are no level, because they also differ from each other.
    unlike = max(
        _squares(values[first:last], mean) / (noise * widened(alike, last - first)) ** 2
        for first, last, mean in ((begin, at, low), (at, end, high))
    )
    step, weight = _step(values[begin:end], at - begin, alike)
    fresh = noise * math.sqrt((1 - alike * alike) * max(unlike, 1.0))
    return abs(step) * math.sqrt(weight) / fresh, high - low


def _step(values: Sequence[float], at: int, alike: float) -> tuple[float, float]:
    """Return the step of a level before run ``at``, and the inverse of its variance in units of the runs' new noise.

    It is the best estimate for runs of which each keeps the share ``alike`` of the deviation of the run before (least
    squares on what is new in each run, Prais and Winsten 1954). A step within one run is new as a whole, so it stands
    out more than the difference of the means.
    """
    first = math.sqrt(1 - alike * alike)
    level = [first] + [1 - alike] * (len(values) - 1)
    step = [1 - alike if index > at else float(index == at) for index in range(len(values))]
    new = [first * values[0], *(b - alike * a for a, b in pairwise(values))]
    share = math.fsum(map(operator.mul, step, level)) / math.fsum(one * one for one in level)
    rest = [one - share * two for one, two in zip(step, level, strict=True)]
    weight = math.fsum(one * one for one in rest)
    return math.fsum(map(operator.mul, rest, new)) / weight, weight


def _squares(values: Sequence[float], mean: float) -> float:
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _shift(
    values: Sequence[float], cuts: Sequence[int], index: int, noise: float, alike: float, leaps: Collection[int]
) -> LevelShift:
    """Return a cut with the range of places that fit nearly as well."""
    edges = [0, *cuts, len(values)]
    begin, at, end = edges[index : index + 3]
    strength, size = _strength(values, cuts, index, noise, alike)
    middle = statistics.fmean(values[begin:at]) + size / 2
    # The change in squares, in units of the noise, if the cut moves over a reading. An outlier counts as 0.
    costs = [0.0 if i in leaps else 2 * size * (value - middle) / (noise * noise) for i, value in enumerate(values)]
    allowed = 2 * math.log(100) * widened(alike) ** 2
    before = _reach([-costs[i] for i in range(at - 1, begin, -1)], allowed)
    after = _reach([costs[i] for i in range(at, end - 1)], allowed)
    return LevelShift(at, at - before, at + after, size, strength)


def _reach(costs: Sequence[float], allowed: float) -> int:
    """Return over how many readings a cut can move."""
    found, total = 0, 0.0
    for count, cost in enumerate(costs, 1):
        total += cost
        if total < allowed:
            found = count
        elif total > 4 * allowed:
            break
    return found
