"""Finds what a metric lost since its best level, and whether the loss is open. This module does no I/O.

A loss is open until the level recovers, a later baseline accepts the lower level, or a user acknowledges the loss. A
baseline with the value of the old level accepts nothing, whatever its date: its runs were from before the loss.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from pytest_pinet.history.accepting import connections_of
from pytest_pinet.history.compare import placed
from pytest_pinet.history.levels import LEAST_RUNS, MATTERS
from pytest_pinet.history.points import RUN, TIME, Column, LevelChange, Point, Points, T, Trend
from pytest_pinet.history.trends import comparable
from pytest_pinet.judge.baseline import Baseline
from pytest_pinet.judge.days import compare_sets
from pytest_pinet.model.figures import GOODPUT, Figure
from pytest_pinet.model.quantities import Share, Tolerance, amount
from pytest_pinet.model.verdict import Verdict

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import Acknowledgement

# Levels that differ by less are taken for the same level when an accepted value is looked up among them.
_ALIKE = MATTERS / 2
_MORE_THAN_A_MONTH = timedelta(days=32)
# Runs after a baseline that must be slower than the baseline's own runs. After 10 runs, 2 of 100 simulated links whose
# days differ by 2 % seem slower than a baseline of one day (after 3 runs: 6 of 60); at 0.5 % none of 100.
_LEAST_SINCE_BASELINE = 10


class LossState(StrEnum):
    """Whether a user must act. An expired acknowledgement leaves a loss open again."""

    OPEN = "open"
    EXPIRED = "expired"
    ACKNOWLEDGED = "acknowledged"


@dataclass(frozen=True)
class BestMonth:
    """The month (``2026-07``) with the best median level."""

    month: str
    level: float


@dataclass(frozen=True)
class Loss:
    """The level of metric ``figure`` got worse and did not recover. ``since`` is the time of ``run``, the first worse.

    ``change`` is the level change that began the loss; None if the loss began before the runs that are known.
    ``acknowledgement`` is what a user wrote about the loss, also if it has expired.
    """

    figure: str
    lab: str
    run: str
    since: datetime
    before: float
    now: float
    state: LossState
    change: LevelChange | None = None
    acknowledgement: Acknowledgement | None = None
    kind: Figure = GOODPUT

    @property
    def relative(self) -> float:
        """The present level over the old one, minus one: -0.05 is 5 % less."""
        return self.now / self.before - 1

    @property
    def is_open(self) -> bool:
        """Whether a user must act."""
        return self.state is not LossState.ACKNOWLEDGED

    def days(self, today: date) -> int:
        """Return the age of the loss."""
        return max((today - self.since.date()).days, 0)


@dataclass(frozen=True)
class MetricLevel:
    """The present level of a metric; ``now`` is None if no run counts.

    ``since_baseline`` and ``since_best_month`` are changes (-0.05: 5 % less); None if the other value is not known.
    """

    now: float | None = None
    since_baseline: float | None = None
    best_month: BestMonth | None = None
    loss: Loss | None = None
    kind: Figure = GOODPUT

    def is_below(self, bps: float) -> bool:
        """Return whether the level is worse, by more than what matters, than that of this rate (`Point.rate`)."""
        return (0.0 if self.now is None else self.kind.rate(self.now)) * (1 + MATTERS) < bps

    @property
    def since_best_month(self) -> float | None:
        """The present level over that of the best month, minus one."""
        if self.now is None or self.best_month is None:
            return None
        return self.now / self.best_month.level - 1


@dataclass(frozen=True)
class _Course:
    """The points that can be compared with the newest one, and the level at each as a rate (`Point.rate`).

    ``all_points`` are all points of the metric, ``indices`` the places of the comparable ones.
    """

    all_points: Points
    indices: Sequence[int]
    levels: Sequence[float]
    kind: Figure

    @property
    def now(self) -> float:
        return self.levels[-1]

    def point(self, place: int) -> Point:
        return self.all_points[self.indices[place]]

    def column(self, of: Column[T]) -> list[T]:
        """See `Points.column`."""
        whole = self.all_points.column(of)
        return [whole[index] for index in self.indices]

    def until(self, day: date) -> int:
        """Return how many points were measured up to the end of a day."""
        return sum(time.date() <= day for time in self.column(TIME))


def level_of(trend: Trend, today: date) -> MetricLevel:
    """Return the present level of a metric, and its loss. ``trend`` has its changes, and what users decided."""
    course = _newest(trend)
    if course is None:
        return MetricLevel()
    baseline = trend.baseline if course.point(-1).scale == 1 else None
    now, kind = trend.kind.of_rate(course.now), trend.kind
    return MetricLevel(
        now,
        None if baseline is None else now / amount(baseline.value) - 1,
        _best_month(course),
        _loss(trend, course, today),
        kind,
    )


def _newest(trend: Trend) -> _Course | None:
    """Return the course of the newest points that count; None if there are none, or their levels are not known."""
    groups = [group for group in comparable(trend.points) if trend.levels]
    if not groups:
        return None
    group = max(groups, key=lambda own: own[-1])
    levels = [trend.kind.rate(level) for index in group if (level := trend.levels[index]) is not None]
    return _Course(trend.points, group, levels, trend.kind)


def _best_month(course: _Course) -> BestMonth | None:
    """Return the best month, the newest of equals; None if fewer than two months have enough runs to be compared."""
    times, known, begin = course.column(TIME), [], 0
    while begin < len(times):
        # Half a million points have few months.
        first = times[begin].replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        end = bisect_left(times, (first + _MORE_THAN_A_MONTH).replace(day=1), begin)
        if end - begin >= LEAST_RUNS:
            known.append((statistics.median(course.levels[begin:end]), f"{first.year}-{first.month:02}"))
        begin = end
    if len(known) < 2:
        return None
    best, month = max(known, key=lambda one: (round(one[0]), one[1]))
    return BestMonth(month, course.kind.of_rate(best))


def _loss(trend: Trend, course: _Course, today: date) -> Loss | None:
    baseline = trend.baseline if course.point(-1).scale == 1 else None
    accepted = None if baseline is None else baseline.baseline(trend.kind)
    begin = 0 if baseline is None or accepted is None else _place(course, baseline.date, accepted.figure.bps)
    if (found := _fall(course, begin)) is not None:
        peak, at = found
        loss = _with_change(trend, course, at, course.levels[peak])
    elif baseline is not None and accepted is not None and _below(course, accepted, baseline.date):
        first = course.point(min(course.until(baseline.date), len(course.levels) - 1))
        loss = _loss_of(trend, course, first, accepted.figure.bps)
    else:
        return None
    # An acknowledgement does not cover a fall below the level that was acknowledged.
    if trend.acknowledgement is None or trend.acknowledgement.date < loss.since.date():
        return loss
    seen, bps = course.until(trend.acknowledgement.date) > 0, course.kind.rate(amount(trend.acknowledgement.value))
    fell = _fall(course, _place(course, trend.acknowledgement.date, bps)) is not None
    if fell or (not seen and course.now <= bps * (1 - MATTERS)):
        return loss
    state = LossState.ACKNOWLEDGED if today <= trend.acknowledgement.until else LossState.EXPIRED
    return replace(loss, state=state, acknowledgement=trend.acknowledgement)


def _loss_of(trend: Trend, course: _Course, first: Point, before_bps: float, change: LevelChange | None = None) -> Loss:
    before, now = map(trend.kind.of_rate, (before_bps, course.now))
    return Loss(trend.figure, trend.lab, first.run, first.time, before, now, LossState.OPEN, change, kind=trend.kind)


def _place(course: _Course, day: date, bps: float) -> int:
    """Return the last point up to a day at the level with this value; 0 if there are no points of this age.

    If the value was accepted before the loss was found, the level is the old one, and the loss is not accepted.
    """
    distances = [abs(math.log(level / bps)) for level in course.levels[: course.until(day)]]
    least = min(distances, default=0.0)
    return max((index for index, one in enumerate(distances) if one <= least + _ALIKE), default=0)


def _fall(course: _Course, begin: int) -> tuple[int, int] | None:
    """Return the last point at the best level from ``begin`` on, and the first after it at which goodput stays lower.

    None if the present level is as good as the best one.
    """
    levels = course.levels
    best = max(levels[begin:])
    allowed = best * (1 - MATTERS)
    if course.now > allowed:
        return None
    peak = max(index for index in range(begin, len(levels)) if levels[index] == best)
    return peak, 1 + max(index for index in range(peak, len(levels)) if levels[index] > allowed)


def _with_change(trend: Trend, course: _Course, at: int, before_bps: float) -> Loss:
    """Return the loss that begins at point ``at``, with the change of the level there."""
    places = {run: index for index, run in enumerate(course.column(RUN))}
    falls = [change for change in trend.changes if change.is_loss and change.run in places]
    change = min(falls, key=lambda one: abs(places[one.run] - at), default=None)
    first = course.point(at if change is None or change.gradual else places[change.run])
    return _loss_of(trend, course, first, before_bps, change)


def _below(course: _Course, baseline: Baseline, day: date) -> bool:
    """Return whether the runs after a baseline are slower than the baseline: the fall may be older than all points."""
    newer = [course.point(place) for place in range(course.until(day), len(course.levels))]
    newer = [point for point, own in zip(newer, connections_of(newer), strict=True) if own]
    if len(newer) < _LEAST_SINCE_BASELINE or course.now > baseline.figure.bps * (1 - MATTERS):
        return False
    return compare_sets(baseline, placed(newer, course.now), Tolerance(Share(MATTERS))).verdict is Verdict.FAIL
