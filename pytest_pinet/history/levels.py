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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from pytest_pinet.judge.statistics import robust_sd

# How many standard errors a level must move. Found by counting false alarms (benchmarks.level_changes).
CERTAIN = 5.2
# A smaller shift is no regression (`judge.spread.TOLERATED`).
MATTERS = 0.01
# A level of one or two runs can be a bad day.
LEAST_RUNS = 3
_MOST_LEAPS = 8
# Readings further from the median of their neighbours than this many standard deviations are clipped.
_FAR = 3.0
_NEIGHBOURS = 2
_WIDTH = 2 * _NEIGHBOURS + 1
# The assumed correlation of neighbouring runs, and the number of runs that this assumption weighs.
_USUALLY_ALIKE = 0.5
_WORTH = 20
_MOST_ALIKE = 0.9
# How many standard errors the upper bound of the correlation is above its estimate (98 %).
_UPPER = 2.0
# In a short series, noise and correlation are not well known: with so many runs, a level must move 1.4 times as much.
_SHORT = 20.0
# In a long series, this share of the standard errors is enough; with so many runs, twice as much.
_LONG, _LONG_FROM = 0.933, 25.0
# Goodput is never measured more precisely. Without this bound every change of a constant series would be certain.
LEAST_NOISE = 2e-4


@dataclass(frozen=True)
class LevelShift:
    """The start of a level: ``at`` is the index of its first reading.

    With 99 % certainty the level begins between ``first`` and ``last``. ``size`` is in logarithms.
    """

    at: int
    first: int
    last: int
    size: float


class Readings:
    """A series of logarithms with clipped outliers, and its means and best cuts, each computed once.

    `_settled` and `_reduced` look at the same ranges again and again.
    """

    def __init__(self, logs: Sequence[float]) -> None:
        self.logs = logs
        self._noise_of_logs = _noise_of_steps(logs) if len(logs) > 1 else LEAST_NOISE
        self.values = drawn_in(logs, self._noise_of_logs) if len(logs) > 1 else list(logs)
        self.leaps = {index for index, value in enumerate(self.values) if value != logs[index]}
        # The least length of a level: longer than a chance sequence of outliers (0.1 %) in this series.
        share = min(max(len(self.leaps), 1) / len(logs), 0.5) if logs else 0.5
        length = math.ceil(math.log(0.001 / len(logs)) / math.log(share)) if logs else LEAST_RUNS
        self.least = min(max(length, LEAST_RUNS), _MOST_LEAPS)
        self._means: dict[tuple[int, int], tuple[float, float]] = {}
        self._cuts: dict[tuple[int, int], tuple[int, float] | None] = {}

    def mean(self, begin: int, end: int) -> tuple[float, float]:
        """Return the mean of a range, and its variance."""
        key = begin, end
        if key not in self._means:
            own = self.values[begin:end]
            mean = statistics.fmean(own)
            rest = [value - mean for value in own]
            self._means[key] = mean, math.fsum(map(operator.mul, rest, rest)) / (len(own) - 1)
        return self._means[key]

    @cached_property
    def noise(self) -> float:
        """The noise of the steps from run to run."""
        return _noise_of_steps(self.values) if self.leaps else self._noise_of_logs

    def best_cut(self, begin: int, end: int) -> tuple[int, float] | None:
        """Return the cut that most lowers the sum of squares in this range, and by how much."""
        key = begin, end
        if key not in self._cuts:
            self._cuts[key] = _best_cut(self.values[begin:end], begin, self.least)
        return self._cuts[key]


def shifts(series: Readings, certain: float = CERTAIN, matters: float = MATTERS) -> list[LevelShift]:
    """Return where the level of a series moved, in order."""
    if len(series.logs) < 2 * LEAST_RUNS:
        return []
    cuts = _reduced(series, _settled(series, _candidates(series, certain * 0.6)), certain, matters)
    if not cuts:
        return []
    noise, alike = noise_of(series.values, cuts)
    return [_shift(series, cuts, index, noise, alike) for index in range(len(cuts))]


def levels(values: Sequence[float], cuts: Sequence[int]) -> list[float]:
    """Return, for each reading, the mean of its level."""
    found: list[float] = []
    for begin, end in _parts(len(values), cuts):
        found += [math.fsum(values[begin:end]) / (end - begin)] * (end - begin)
    return found


def drawn_in(logs: Sequence[float], noise: float) -> list[float]:
    """Return the series with clipped outliers: each reading stays within a distance of its neighbours' median."""
    far = _FAR * noise
    # The median, in its order: statistics.median takes most of the time of a quiet series.
    middles = [sorted(near)[_NEIGHBOURS] for near in zip(*(logs[begin:] for begin in range(_WIDTH)), strict=False)]
    middles = middles or [statistics.median(logs)]
    edges = [middles[0]] * _NEIGHBOURS, [middles[-1]] * (len(logs) - len(middles) - _NEIGHBOURS)
    around = [*edges[0], *middles, *edges[1]]
    return [
        value if middle - far <= value <= middle + far else middle + math.copysign(far, value - middle)
        for value, middle in zip(logs, around, strict=False)
    ]


def _noise_of_steps(values: Sequence[float]) -> float:
    """Return the standard deviation that the steps from run to run show, whatever the levels are."""
    steps = list(map(operator.sub, values[1:], values))
    return max(robust_sd(steps, statistics.median(steps)) / math.sqrt(2), LEAST_NOISE)


def noise_of(values: Sequence[float], cuts: Sequence[int]) -> tuple[float, float]:
    """Return the standard deviation around the levels, and the correlation of neighbouring runs."""
    rest = list(map(operator.sub, values, levels(values, cuts)))
    squares = math.fsum(map(operator.mul, rest, rest))
    if squares <= 0:
        return LEAST_NOISE, 0.0
    inner = list(map(operator.mul, rest, rest[1:]))
    for cut in cuts:
        # These neighbours belong to different levels.
        inner[cut - 1] = 0.0
    # Subtracting means lowers the correlation of neighbours, by about (1 + 4 r) over the length of a level (Kendall
    # 1954).
    alike = math.fsum(inner) / squares
    alike += (1 + 4 * max(alike, 0.0)) * (len(cuts) + 1) / len(rest)
    # A short series says little about the correlation, so the estimate is pulled towards the usual value.
    known = len(rest) + _WORTH
    alike = (alike * len(rest) + _USUALLY_ALIKE * _WORTH) / known
    # The upper bound of the estimate: its standard error is sqrt((1 - r^2) / n) (Bartlett 1946). If the
    # correlation is too low, neighbouring days that are alike look like a level. If it is too high, only reports of
    # small changes come later.
    alike = min(max(alike, 0.0), _MOST_ALIKE)
    alike = min(alike + _UPPER * math.sqrt((1 - alike * alike) / known), _MOST_ALIKE)
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


def _parts(length: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    edges = [0, *cuts, length]
    return list(pairwise(edges))


def _best_cut(values: Sequence[float], begin: int, least: int) -> tuple[int, float] | None:
    length = len(values)
    if length < 2 * least:
        return None
    mean = math.fsum(values) / length
    left, best, at = math.fsum(values[: least - 1]), -1.0, 0
    for count, value in enumerate(values[least - 1 : length - least], least):
        left += value
        gap = left - mean * count
        gain = gap * gap * length / (count * (length - count))
        if gain > best:
            best, at = gain, count
    return begin + at, best


def _candidates(series: Readings, certain: float) -> list[int]:
    """Return candidate cuts. Some of them are no change."""
    found: list[int] = []
    todo = [(0, len(series.values))]
    while todo:
        begin, end = todo.pop()
        best = series.best_cut(begin, end)
        if best is None or math.sqrt(best[1]) < certain * series.noise:
            continue
        found.append(best[0])
        todo += [(begin, best[0]), (best[0], end)]
    return sorted(found)


def _settled(series: Readings, cuts: list[int]) -> list[int]:
    """Move each cut to its best place between its neighbours."""
    for _ in range(5):
        before = list(cuts)
        for index in range(len(cuts)):
            edges = [0, *cuts, len(series.values)]
            best = series.best_cut(edges[index], edges[index + 2])
            if best is not None:
                cuts[index] = best[0]
        if cuts == before:
            break
    return cuts


def _reduced(series: Readings, cuts: list[int], certain: float, matters: float) -> list[int]:
    """Remove the cuts that are not certain or too small, weakest first."""
    length = len(series.values)
    needed = certain * min(math.sqrt(1 + _SHORT / length), _LONG * (1 + (_LONG_FROM / length) ** 2))
    while cuts:
        noise, alike = noise_of(series.values, cuts)
        found = [_strength(series, cuts, index, noise, alike) for index in range(len(cuts))]
        weak = [
            (strength, index)
            for index, (strength, size) in enumerate(found)
            if strength < needed or abs(size) < matters
        ]
        if not weak:
            break
        del cuts[min(weak)[1]]
        cuts = _settled(series, cuts)
    return cuts


def _strength(series: Readings, cuts: Sequence[int], index: int, noise: float, alike: float) -> tuple[float, float]:
    """Return how many standard errors the level moves at a cut, and the size of the move."""
    edges = [0, *cuts, len(series.values)]
    begin, at, end = edges[index : index + 3]
    (low, below), (high, above) = series.mean(begin, at), series.mean(at, end)
    # A few bad days in a row are no level, because they also differ from each other.
    unlike = max(
        variance / (noise * widened(alike, length)) ** 2
        for variance, length in ((below, at - begin), (above, end - at))
    )
    step, weight = _step(series, begin, at, end, alike)
    fresh = noise * math.sqrt((1 - alike * alike) * max(unlike, 1.0))
    return abs(step) * math.sqrt(weight) / fresh, high - low


def _step(series: Readings, begin: int, at: int, end: int, alike: float) -> tuple[float, float]:
    """Return the step of a level before run ``at``, and the inverse of its variance in units of the runs' new noise.

    It is the best estimate for runs of which each keeps the share ``alike`` of the deviation of the run before (least
    squares on what is new in each run, Prais and Winsten 1954). A step within one run is new as a whole, so it stands
    out more than the difference of the means.

    With a design of two columns, level and step, the sums over runs have closed forms. ``own`` is what is new in a run
    that is not the first, ``(1 - alike)`` of the level.
    """
    before, after, own = at - begin, end - at, 1 - alike
    first = math.sqrt(1 - alike * alike)
    # The step explains one run before the new level's others: as a whole there, by ``own`` in each run after it.
    share = (own + (after - 1) * own * own) / (first * first + (before + after - 1) * own * own)
    rest = -share * first, -share * own, 1 - share * own, own - share * own
    counts = 1, before - 1, 1, after - 1
    # All values less the mean before the step, which keeps the digits of the sums.
    low, high = series.mean(begin, at)[0], series.mean(at, end)[0]
    start, last, new, final = (series.values[index] - low for index in (begin, at - 1, at, end - 1))
    risen = (high - low) * after
    fresh = (first * start, -start - alike * -last, new - alike * last, risen - new - alike * (risen - final))
    # A level that is subtracted from all values changes neither the step nor its variance.
    weight = math.fsum(number * one * one for number, one in zip(counts, rest, strict=True))
    return math.fsum(map(operator.mul, rest, fresh)) / weight, weight


def _shift(series: Readings, cuts: Sequence[int], index: int, noise: float, alike: float) -> LevelShift:
    """Return a cut with the range of places that fit nearly as well."""
    values, leaps = series.values, series.leaps
    edges = [0, *cuts, len(values)]
    begin, at, end = edges[index : index + 3]
    _, size = _strength(series, cuts, index, noise, alike)
    middle = series.mean(begin, at)[0] + size / 2
    # The change in squares, in units of the noise, if the cut moves over a reading. An outlier counts as 0.
    costs = [0.0 if i in leaps else 2 * size * (value - middle) / (noise * noise) for i, value in enumerate(values)]
    allowed = 2 * math.log(100) * widened(alike) ** 2
    before = _reach([-costs[i] for i in range(at - 1, begin, -1)], allowed)
    after = _reach([costs[i] for i in range(at, end - 1)], allowed)
    return LevelShift(at, at - before, at + after, size)


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
