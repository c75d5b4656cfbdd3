"""Like with like: a connection is compared with the baseline's connection at the same place.

The first connection after a boot or link-up may differ from later ones, and traffic may heat a board.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from pytest_pinet.judge.baseline import Baseline, RunPlace
from pytest_pinet.judge.statistics import student, variance
from pytest_pinet.model.quantities import Bitrate

# Traffic before a connection that differs by less is alike (s).
ALIKE_S = 1.5
# Places differ if this many runs or more show it, with this probability of error on both sides together.
LEAST_RUNS = 3
ERROR = 0.01
# The lowest standard deviation of a difference between two connections of one run.
FLOOR = 0.0035


class Step(NamedTuple):
    """A place of a baseline, and by how much its connections lie above the first ones (a logarithm)."""

    number: int
    traffic_before_s: float
    above: float


class Counterpart(NamedTuple):
    """By how much the counterpart lies above the first connections; ``beyond``: the baseline has none so late."""

    above: float
    beyond: bool


@dataclass(frozen=True)
class Course:
    """The places of a baseline. ``usual`` has a step for each number since the link-up and traffic before it."""

    usual: tuple[Step, ...] = ()

    def counterpart(self, number: int | None, traffic_before_s: float | None) -> Counterpart | None:
        """Return what a place is compared with; None if all connections of the baseline came after more traffic.

        It has the same number since the link-up (beyond the last: the last) and as much traffic before it, or the next
        less. A connection whose place is not known is compared with the first ones.
        """
        if not self.usual or number is None:
            return Counterpart(0.0, beyond=False)
        before_s = traffic_before_s or 0.0
        last = max((step.number for step in self.usual if step.number <= number), default=0)
        own = [s for s in self.usual if s.number == last and s.traffic_before_s <= before_s + ALIKE_S]
        if not own:
            return None
        step = max(own, key=lambda each: each.traffic_before_s)
        return Counterpart(step.above, step.number < number or step.traffic_before_s < before_s - ALIKE_S)


# Places do not matter.
ANYWHERE = Course()


def course_of(baseline: Baseline) -> Course:
    """Return the course of a baseline. A place counts as the first one unless its runs certainly differ."""
    # The connections of each run by their number since the link-up, and by their number in the run.
    runs: list[dict[tuple[int, int], float]] = []
    before_s: dict[tuple[int, int], int] = {}
    last = RunPlace()
    for place, run in baseline.placed:
        if not runs or place.boot_of_day != last.boot_of_day or place.traffic_before_s <= last.traffic_before_s:
            runs.append({})
        key = place.number, len(runs[-1])
        runs[-1][key], last = math.log(run.bps), place
        before_s[key] = min(place.traffic_before_s, before_s.get(key, place.traffic_before_s))
    if not runs:
        return ANYWHERE
    first = min(before_s, key=lambda key: (before_s[key], key))
    apart = {key: [run[key] - run[first] for run in runs if first in run and key in run] for key in before_s}
    known = {key: own for key, own in apart.items() if key == first or len(own) >= LEAST_RUNS}
    # The differences of the first connections from themselves have no spread.
    freedom = sum(len(own) - 1 for key, own in known.items() if key != first)
    squares = math.fsum(variance(own) * (len(own) - 1) for own in known.values() if len(own) > 1)
    sd = max(math.sqrt(squares / freedom), FLOOR) if freedom else math.inf
    steps = []
    for key, own in known.items():
        above, least = fmean(own), student(1 - ERROR / 2, max(freedom, 1)) * sd / math.sqrt(len(own))
        steps.append(Step(key[0], before_s[key], above if abs(above) > least else 0.0))
    return Course(tuple(steps))


def without_course(baseline: Baseline, course: Course) -> Baseline:
    """Return the baseline as if each of its connections were at the first place."""

    def moved(place: RunPlace, run: Bitrate) -> Bitrate:
        there = course.counterpart(place.number, place.traffic_before_s)
        return Bitrate(run.bps * math.exp(-there.above)) if there else run

    runs = tuple(moved(place, run) for place, run in baseline.placed)
    return replace(baseline, runs=runs, places=tuple(place for place, _ in baseline.placed))
