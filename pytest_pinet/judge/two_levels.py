"""Links whose connections, link-ups, boots or days fall on two levels: recognised in a baseline, found again in a run.

The long-run mean of such a link depends on the levels and on the shares of both. A run is explained by a shift of both
levels and by a share; every plausible explanation must give the same verdict. All connections of a run share its boot
and day, so a link whose boots or days fall on two levels gives one value in each run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.judge.baseline import Baseline, RunPlace
from pytest_pinet.model.quantities import Bitrate

# Levels this many standard deviations apart are two; also, no value lies between them for this many.
APART = 6.0
EMPTY = 3.0
# Closer levels do not matter. Rates that are further apart are no two levels: such a link has many.
LEAST_GAP = 0.01
MOST_GAP = 0.25
# Goodput varies by this much at least.
LEAST_SPREAD = 0.001
# Each level has so many members, and at least this share of all.
MEMBERS = 2
SHARE = 0.05
# If days (boots, link-ups) fall on two levels, at most this share of days with several runs has both.
MIXED = 0.2
# That no day (boot, link-up) has both levels proves something only if chance makes this less probable than so.
BY_CHANCE = 0.05
# Before a run, the probability that the share of the levels changed.
CHANGED_SHARE = 0.1
# Explanations less probable than this part of the error rate are not plausible.
PLAUSIBLE = 0.5
# A value far from both levels is improbable, but possible.
ODD = 1e-6


class Unit(StrEnum):
    """What has one level: the longest of these whose runs have the same one."""

    DAY = "days"
    BOOT = "boots"
    LINK_UP = "link-ups"
    CONNECTION = "connections"

    def key(self, place: RunPlace, number: int) -> tuple[str | int, ...]:
        """Return what the runs of one unit have in common. A run of an unknown boot shares that of its day."""
        if self is Unit.CONNECTION:
            return (number,)
        boot = place.boot_of_day
        return {Unit.DAY: (place.day,), Unit.BOOT: boot, Unit.LINK_UP: (*boot, place.link_up)}[self]


@dataclass(frozen=True)
class TwoLevels:
    """Two levels of a baseline, as logarithms of bit/s; ``spread`` is the standard deviation of each.

    ``lower`` of ``count`` units are on the lower one. ``proven``: units of several runs show that no shorter unit
    has the levels. Else connections may have them as well.
    """

    low: float
    high: float
    spread: float
    lower: int
    count: int
    unit: Unit
    proven: bool = True

    @property
    def gap(self) -> float:
        return self.high - self.low

    @property
    def middle(self) -> float:
        """The long-run mean."""
        return self.high - self.gap * self.lower / self.count

    def level_of(self, value: float, shift: float = 0.0) -> float:
        """Return the level that is nearer to a value, both moved by ``shift``."""
        low, high = self.low + shift, self.high + shift
        return low if abs(value - low) < abs(value - high) else high

    def shows_both(self, values: Sequence[float], best: Explanation) -> bool:
        """Return whether some connections of a run are near the lower level, and the others near the higher one.

        Connections that scatter between the levels prove neither.
        """
        if not 0 < best.lower < len(values) or (self.proven and self.unit is not Unit.LINK_UP):
            return False
        squares = math.fsum((value - self.level_of(value, best.shift)) ** 2 for value in values)
        return math.sqrt(squares / len(values)) <= self.gap / APART

    def misses_one(self, connections: int, lower: bool) -> bool:
        """Return whether so many connections on one level are improbable if connections have the levels."""
        share = self.lower / self.count if lower else 1 - self.lower / self.count
        return share**connections < BY_CHANCE

    def draws(self, error_rate: float) -> int:
        """Return after how many units both levels were seen, except for a probability of ``error_rate``."""
        low = self.lower / self.count
        return next(n for n in range(2, 1000) if low**n + (1 - low) ** n <= error_rate)

    def without(self, baseline: Baseline) -> Baseline:
        """Return the baseline as if all of its runs were on one level: what is left is the spread within levels."""
        units = _units(baseline, self.unit)
        keys = [self.unit.key(place, number) for number, (place, _) in enumerate(baseline.placed)]
        moved = {key: self.middle - self.level_of(fmean(own)) for key, own in units.items()}
        own = [run.bps * math.exp(moved[key]) for key, (_, run) in zip(keys, baseline.placed, strict=True)]
        places = tuple(place for place, _ in baseline.placed)
        return replace(baseline, runs=tuple(Bitrate(bps) for bps in own), places=places)


@dataclass(frozen=True)
class Explanation:
    """A shift of both levels that explains a run, and the change of the long-run mean.

    ``variance`` is that of ``change`` (a logarithm).
    """

    shift: float
    change: float
    variance: float
    lower: int


def two_levels(baseline: Baseline) -> TwoLevels | None:
    """Return the levels of the days of a baseline, or else of its boots, link-ups or connections; None without two.

    If too few units show the lower level, its connections are counted in their place.
    """
    of_runs = split([value for own in _units(baseline, Unit.CONNECTION).values() for value in own], Unit.CONNECTION)
    if of_runs is None:
        return None
    longest = Unit.CONNECTION
    for unit in (Unit.DAY, Unit.BOOT, Unit.LINK_UP):
        units = _units(baseline, unit)
        several = [own for own in units.values() if len(own) > 1]
        mixed = sum(len({of_runs.level_of(value) for value in own}) > 1 for own in several)
        if mixed > MIXED * len(several):
            continue
        found = split([fmean(own) for own in units.values()], unit)
        low = of_runs.lower / of_runs.count
        by_chance = math.prod(low ** len(own) + (1 - low) ** len(own) for own in several)
        if found is not None:
            return replace(found, proven=by_chance < BY_CHANCE)
        longest = unit if longest is Unit.CONNECTION and several else longest
    return replace(of_runs, unit=longest, proven=longest is Unit.CONNECTION)


def _units(baseline: Baseline, unit: Unit) -> dict[tuple[str | int, ...], list[float]]:
    """Return the logarithms of the runs by their unit."""
    placed = enumerate(baseline.placed)
    return grouped((unit.key(place, number), math.log(run.bps)) for number, (place, run) in placed)


def split(values: Sequence[float], unit: Unit) -> TwoLevels | None:
    """Cut the values where they are furthest apart, and return both parts if they are two levels."""
    ranked = sorted(values)
    least = max(MEMBERS, math.ceil(SHARE * len(ranked)))
    if len(ranked) < 2 * least:
        return None
    at = max(range(least, len(ranked) - least + 1), key=lambda index: ranked[index] - ranked[index - 1])
    lower, upper = ranked[:at], ranked[at:]
    squares = math.fsum((value - fmean(own)) ** 2 for own in (lower, upper) for value in own)
    spread = max(math.sqrt(squares / max(len(ranked) - 2, 1)), LEAST_SPREAD)
    gap = fmean(upper) - fmean(lower)
    if gap > MOST_GAP or gap < max(APART * spread, LEAST_GAP) or upper[0] - lower[-1] < EMPTY * spread:
        return None
    return TwoLevels(fmean(lower), fmean(upper), spread, len(lower), len(ranked), unit)


def explanations(values: Sequence[float], levels: TwoLevels, error_rate: float) -> list[Explanation]:
    """Return the plausible explanations of a run, likeliest first.

    ``values`` are the logarithms of its connections, or the one of its boot or day.
    """
    found: dict[int, tuple[float, float, int]] = {}
    for start in {value - level for value in values for level in (levels.low, levels.high)}:
        shift = start
        for _ in range(3):
            shift = fmean(value - levels.level_of(value, shift) for value in values) + shift
        lower = sum(levels.level_of(value, shift) == levels.low + shift for value in values)
        far = [(value - levels.level_of(value, shift)) / levels.spread for value in values]
        likely = math.fsum(math.log(math.exp(-0.5 * min(one * one, 1400)) + ODD) for one in far)
        likely += _share(lower, len(values), levels)[0]
        key = round(shift / levels.spread)
        if key not in found or found[key][0] < likely:
            found[key] = (likely, shift, lower)
    best = max(likely for likely, _, _ in found.values())
    total = math.fsum(math.exp(likely - best) for likely, _, _ in found.values())
    ranked = sorted(found.values(), reverse=True)
    n = len(values)
    plausible: list[Explanation] = []
    for likely, shift, lower in ranked:
        if math.exp(likely - best) / total < PLAUSIBLE * error_rate and plausible:
            break
        _, share, uncertain = _share(lower, n, levels)
        change = shift - (share - levels.lower / levels.count) * levels.gap
        variance = levels.spread**2 / n + uncertain * levels.gap**2
        plausible.append(Explanation(shift, change, variance, lower))
    return plausible


def _share(lower: int, of: int, levels: TwoLevels) -> tuple[float, float, float]:
    """Return the log probability of ``lower`` values on the lower level, their long-run share, and its variance.

    Either the share is that of the baseline, or it changed to any other. If it is the same, what is not known of it
    is not known of the baseline, either, and cancels.
    """
    same = _beta(lower + 1 + levels.lower, of - lower + 1 + levels.count - levels.lower)
    same -= _beta(1 + levels.lower, 1 + levels.count - levels.lower)
    other = _beta(lower + 1, of - lower + 1)
    one, two = math.log(1 - CHANGED_SHARE) + same, math.log(CHANGED_SHARE) + other
    both = max(one, two) + math.log1p(math.exp(-abs(one - two)))
    changed = math.exp(two - both)
    base, own = levels.lower / levels.count, (lower + 1) / (of + 2)
    if changed < 0.5:
        return both, base, 0.0
    return both, own, own * (1 - own) / (of + 3) + base * (1 - base) / levels.count


def _beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def is_other_share(lower: int, of: int, levels: TwoLevels, error_rate: float) -> bool:
    """Return whether so many values on the lower level are improbable with the baseline's share (binomial, both sides).

    The baseline's own share is known only from its counts, so its error counts, too.
    """
    share = (levels.lower + 1) / (levels.count + 2)
    expected = of * share
    sd = math.sqrt(of * share * (1 - share) * (1 + of / levels.count))
    return abs(lower - expected) > 0.5 + sd * 2.58 and _tail(lower, of, share) < error_rate / 2


def _tail(lower: int, of: int, share: float) -> float:
    below = math.fsum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(lower + 1))
    above = math.fsum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(lower, of + 1))
    return min(below, above)
