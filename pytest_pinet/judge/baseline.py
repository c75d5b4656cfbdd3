"""An accepted earlier result: its runs, their places, and how a result differs from it.

Like is compared with like: the first connection after a boot or link-up may differ from later ones, and traffic may
heat a board, so a connection is compared with the connection of the baseline at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import NamedTuple

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.spread import UNKNOWN, Noise
from pytest_pinet.judge.statistics import logarithms, robust_sd, student, variance
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.quantities import DEFAULT_TOLERANCE, Bitrate, Tolerance

# Traffic before a connection that differs by less is alike (s).
ALIKE_S = 1.5
# A place may be so much traffic earlier (s) than all of a baseline whose places do not differ: boards that throttle do
# so after more traffic.
EARLIER_S = 30.0
# Runs are alike if the traffic before them differs by less than a factor of about 1.4; less than this (s) is none.
LIKE_S = 3.0
# Places differ if this many runs or more show it, with this probability of error on both sides together.
RUNS_OF_PLACE = 3
ERROR = 0.01
# The lowest standard deviation of a difference between two connections of one run.
FLOOR = 0.0035
# The first connections of link-ups say little if they differ by this factor more than the second ones of so many runs.
RESTLESS = 3.0
RESTLESS_RUNS, RESTLESS_DAYS = 12, 3

_Place = tuple[int, int, int]


class Step(NamedTuple):
    """A place of a baseline, and by how much its connections lie above the first place (a logarithm)."""

    number: int
    traffic_before_s: float
    above: float


class Counterpart(NamedTuple):
    """By how much the counterpart lies above the first place.

    ``beyond``: the baseline has none so late, or so early; ``before``: so early.
    """

    above: float
    beyond: bool
    before: bool = False


@dataclass(frozen=True)
class Course:
    """The places of a baseline. ``usual`` has a step for each number since the link-up and traffic before it.

    ``restless``: the first connections of link-ups differ far more from each other than later ones, as where a link
    saves energy until it is used. Then only later ones count.
    """

    usual: tuple[Step, ...] = ()
    restless: bool = False

    @property
    def is_flat(self) -> bool:
        """No place of the baseline certainly differs from another."""
        return not any(step.above for step in self.usual)

    def counterpart(self, number: int | None, traffic_before_s: float | None) -> Counterpart | None:
        """Return what a place is compared with; None if all connections of the baseline came after more traffic.

        It has the same number since the link-up (beyond the last: the last) and as much traffic before it, or the next
        less. A connection whose place is not known is compared with the first ones. If no place of the baseline differs
        from another, the earliest one is the counterpart of a place that is a little earlier.
        """
        if not self.usual or number is None:
            return Counterpart(0.0, beyond=False)
        before_s = traffic_before_s or 0.0
        alike = [step for step in self._numbered(number) if step.number <= number]
        own = [step for step in alike if step.traffic_before_s <= before_s + ALIKE_S]
        if not own:
            near = self.is_flat and self.earlier_s(number, before_s) <= EARLIER_S
            return Counterpart(0.0, beyond=True, before=True) if near else None
        step = max(own, key=lambda each: each.traffic_before_s)
        return Counterpart(step.above, step.number < number or step.traffic_before_s < before_s - ALIKE_S)

    def earlier_s(self, number: int, traffic_before_s: float) -> float:
        """Return by how much traffic a place is earlier than all of the baseline with its number, or with the next."""
        return max(min(step.traffic_before_s for step in self._numbered(number)) - traffic_before_s, 0.0)

    def _numbered(self, number: int) -> list[Step]:
        """Return the steps with this number, or the next less; if all have a higher one, the steps with the lowest."""
        least = min(step.number for step in self.usual)
        last = max((step.number for step in self.usual if step.number <= number), default=least)
        return [step for step in self.usual if step.number == last]


def course_of(baseline: Baseline) -> Course:
    """Return the course of a baseline. A place counts as the first one unless its runs certainly differ."""
    # The connections of each run by their number since the link-up, their number in the run, and the traffic before it.
    runs: list[tuple[str, dict[_Place, float]]] = []
    before_s: dict[_Place, int] = {}
    last, began_s = RunPlace(), 0
    for place, run in baseline.placed:
        if not runs or place.boot_of_day != last.boot_of_day or place.traffic_before_s <= last.traffic_before_s:
            runs.append((place.day, {}))
            began_s = place.traffic_before_s
        values = runs[-1][1]
        key = place.number, len(values), round(math.log2(1 + began_s / LIKE_S))
        values[key], last = math.log(run.bps), place
        before_s[key] = min(place.traffic_before_s, before_s.get(key, place.traffic_before_s))
    if not runs:
        return Course()
    restless = _is_restless(runs)
    if restless:
        before_s = {key: value for key, value in before_s.items() if key[0] > 1}
        runs = [(day, {key: value for key, value in one.items() if key in before_s}) for day, one in runs]
    first = min(before_s, key=lambda key: (before_s[key], key))
    # Places without a run in common are paired by their day: a test is not always the first one of its run.
    of_days = [_means(own) for own in grouped(runs).values()]
    apart = _apart(first, before_s, [one for _, one in runs])
    by_day = _apart(first, before_s, of_days)
    apart |= {key: by_day[key] for key, own in apart.items() if len(own.runs) < RUNS_OF_PLACE}
    later = {key: own for key, own in apart.items() if key != first and len(own.runs) >= RUNS_OF_PLACE}
    freedom = sum(len(own.runs) - 1 for own in later.values())
    squares = math.fsum(variance(own.runs) * (len(own.runs) - 1) for own in later.values())
    sd = max(math.sqrt(squares / freedom), FLOOR) if freedom else 0.0
    steps = [Step(first[0], before_s[first], 0.0)]
    for key, own in later.items():
        above, of_mean = fmean(own.runs), sd**2 * own.leverage + own.of_first
        certain = abs(above) > student(1 - ERROR / 2, freedom) * math.sqrt(of_mean)
        steps.append(Step(key[0], before_s[key], above if certain else 0.0))
    return Course(tuple(steps), restless)


def _is_restless(runs: Iterable[tuple[str, Mapping[_Place, float]]]) -> bool:
    """Return whether the first connections of link-ups differ far more from each other than the second ones.

    Only runs with both count: a run whose first connection is unlike the others has more connections. The deviations
    are robust, since a link may have two levels.
    """
    numbered = [(day, {number: value for (number, *_), value in reversed([*one.items()])}) for day, one in runs]
    both = [(day, one[1], one[2]) for day, one in numbered if 1 in one and 2 in one]
    if len(both) < RESTLESS_RUNS or len({day for day, *_ in both}) < RESTLESS_DAYS:
        return False
    _, *ends = zip(*both, strict=True)
    first, second = (robust_sd(values, median(values)) for values in ends)
    return first > RESTLESS * max(second, FLOOR)


def _means(runs: Iterable[Mapping[_Place, float]]) -> dict[_Place, float]:
    """Return the mean of each place of the runs of a day."""
    each: dict[_Place, list[float]] = grouped(item for one in runs for item in one.items())
    return {key: fmean(values) for key, values in each.items()}


class _Apart(NamedTuple):
    """By how much a place lies above the first one, in each run where both were measured.

    The variance of their mean is that of ``runs`` times ``leverage``, plus ``of_first``.
    """

    runs: list[float]
    leverage: float
    of_first: float


def _apart(first: _Place, places: Iterable[_Place], both: Sequence[Mapping[_Place, float]]) -> dict[_Place, _Apart]:
    """Return by how much each place lies above the first one.

    A run with a low first connection has more later ones. So later connections are compared with the first one of their
    run as far as they share its deviation from all first ones, which the slope of a regression says: choosing runs by
    their first connection does not change the slope. If no place has such runs on both sides of the mean, the
    difference within each run counts.
    """
    pairs = {key: [(one[first], one[key]) for one in both if first in one and key in one] for key in places}
    firsts = [one[first] for one in both if first in one]
    middle = fmean(firsts)
    # A place whose runs all have lower first connections than the mean does not tell.
    around = [own for key, own in pairs.items() if key != first and own and min(own)[0] <= middle <= max(own)[0]]
    middles = [tuple(map(fmean, zip(*own, strict=True))) for own in around]
    each = [(x - mid[0], y - mid[1]) for own, mid in zip(around, middles, strict=True) for x, y in own]
    squares = math.fsum(x * x for x, _ in each)
    slope = min(max(math.fsum(x * y for x, y in each) / squares, 0.0), 1.0) if squares else 1.0
    of_first = (1 - slope) ** 2 * variance(firsts) / len(firsts) if len(firsts) > 1 else 0.0
    found = {}
    for key, own in pairs.items():
        runs = [y - middle - slope * (x - middle) for x, y in own]
        beside = fmean([x - middle for x, _ in own]) if own else 0.0
        leverage = 1 / max(len(own), 1) + (beside**2 / squares if squares else 0.0)
        found[key] = _Apart(runs, leverage, of_first)
    return found


def without_course(baseline: Baseline, course: Course) -> Baseline:
    """Return the baseline as if each of its connections were at the first place, without restless ones."""
    calm = _without_restless(baseline, course.restless)
    there = [course.counterpart(place.number, place.traffic_before_s) for place in calm.places]
    factors = [math.exp(-one.above) if one else 1.0 for one in there]
    runs = tuple(Bitrate(run.bps * by) for run, by in zip(calm.runs, factors, strict=True))
    return replace(calm, runs=runs)


def _without_restless(baseline: Baseline, restless: bool) -> Baseline:
    """Return the baseline without values that are 0, and without the first connections of link-ups if restless."""
    placed = [(place, run) for place, run in baseline.placed if place.number > 1 or not restless]
    return replace(baseline, runs=tuple(run for _, run in placed), places=tuple(place for place, _ in placed))


# With fewer runs, the noise of the unchanged link is not known.
LEAST_RUNS = 5


@dataclass(frozen=True)
class RunPlace:
    """The day (ISO 8601) of a run of a baseline, and the names of its boot and link-up; empty: not known.

    ``number`` counts the connections since the link-up, from 1. ``traffic_before_s`` is the traffic before it in its
    boot, in whole seconds.
    """

    day: str = ""
    boot: str = ""
    link_up: str = ""
    number: int = 1
    traffic_before_s: int = 0

    @property
    def boot_of_day(self) -> tuple[str, str]:
        """The boot. A run of an unknown boot shares that of its day."""
        return (self.boot, "") if self.boot else (self.day, self.boot)

    @property
    def session(self) -> str:
        """The name of boot and link-up together: runs of one session share its level."""
        return f"{self.boot}/{self.link_up}"


@dataclass(frozen=True)
class Baseline:
    """An accepted result: its goodput, and the goodput of runs on separate connections, link-ups or boots.

    ``builds`` name what ran (kernel, firmware); ``date`` is ISO 8601; ``reason`` says why the result was accepted.
    ``places`` says when each run was made; empty: not known, and then all runs count as one day.
    """

    figure: Bitrate
    runs: tuple[Bitrate, ...]
    builds: tuple[str, ...] = ()
    date: str = ""
    reason: str = ""
    places: tuple[RunPlace, ...] = ()

    @property
    def placed(self) -> list[tuple[RunPlace, Bitrate]]:
        """Every run with a value, and its place."""
        places = self.places or (RunPlace(),) * len(self.runs)
        both = zip(places, self.runs, strict=True)
        return [(place, run) for place, run in both if math.isfinite(run.bps) and run.bps > 0]

    @property
    def days(self) -> set[str]:
        """The days of all runs."""
        return {place.day for place, _ in self.placed}


def compare(
    candidate: Sequence[Bitrate], baseline: Baseline, tolerance: Tolerance, error_rate: float = 0.01
) -> Difference:
    """Compare runs with the baseline's, one-sided at ``error_rate`` on either side.

    Each run is one value: the spread inside a run does not predict the next run. The interval is Student's for the
    difference of mean logarithms, with a common variance. The result is slower only if the interval lies below both
    parts of the tolerance, faster if it lies above both, and the same if its lower end is within the tolerance.
    """
    old, new = logarithms(run.bps for run in baseline.runs), logarithms(run.bps for run in candidate)
    if len(old) < LEAST_RUNS:
        return Difference(Relation.NOT_GATED, f"not gated: the baseline has {len(old)} runs, but needs {LEAST_RUNS}")
    if not new:
        return Difference(Relation.NOT_GATED, "not gated: no run under test gave a value")
    freedom = len(old) + len(new) - 2
    pooled = (_squares(old) + _squares(new)) / freedom
    half = student(1 - error_rate, freedom) * math.sqrt(pooled * (1 / len(old) + 1 / len(new)))
    apart, middle = fmean(new) - fmean(old), math.exp(fmean(old))
    relative, low, high = math.expm1(apart), math.expm1(apart - half), math.expm1(apart + half)
    allowed = 1 - tolerance.lowest(Bitrate(middle)).bps / middle
    if high < -allowed:
        result = Relation.SLOWER
    elif low > allowed:
        result = Relation.FASTER
    elif low > -allowed:
        result = Relation.SAME
    else:
        result = Relation.INCONCLUSIVE
    runs = f"{len(new)} run{'s' if len(new) > 1 else ''} against {len(old)} of the baseline"
    why = f"{result}: {relative * 100:+.1f} % ({low * 100:+.1f} to {high * 100:+.1f} %), tolerance {tolerance}; {runs}"
    return Difference(result, why, change=relative, interval=(low, high))


def _squares(logs: Sequence[float]) -> float:
    return variance(logs) * (len(logs) - 1) if len(logs) > 1 else 0.0


# The least specific tolerance, for accepted baselines without a configured one.
ANY_TOLERANCE = Limit(DEFAULT_TOLERANCE, Origin.LAB_FILE, "default tolerance", metric=Metric.TOLERANCE)


@dataclass(frozen=True)
class Reference:
    """The noise of a metric, its accepted baseline, and how far below the baseline it may lie.

    ``tolerance`` applies if no other limit sets one.
    """

    noise: Noise = UNKNOWN
    baseline: Baseline | None = None
    tolerance: Limit = ANY_TOLERANCE
