"""Decides which runs may become a baseline, and with which values. This module writes nothing."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby

from pytest_pinet.config.baselines import AcceptedBaseline, SessionEntry
from pytest_pinet.errors import Where
from pytest_pinet.history.differences import identity, is_dirty
from pytest_pinet.history.points import Point, Trend
from pytest_pinet.judge.baseline import LEAST_RUNS
from pytest_pinet.judge.days import days_for_tolerance
from pytest_pinet.judge.starts import Started, shows_level
from pytest_pinet.judge.statistics import robust_sd
from pytest_pinet.model.quantities import DEFAULT_TOLERANCE, Bitrate, Tolerance
from pytest_pinet.model.verdict import Verdict

# A baseline has the newest runs of each of its newest days. More add little, and make files too long for a review.
MOST_DAYS = 15
RUNS_OF_A_DAY = 3
# Why a run did not pass, if its limit came from an accepted baseline.
BELOW_BASELINE = "below the baseline"
_GOOD = (Verdict.PASS, Verdict.IMPROVED)
# Runs of a build that also passed: without them, only the lucky ones of an unchanged link would show its spread.
_UNCHANGED = (Verdict.MARGINAL, Verdict.FAIL, Verdict.INCONCLUSIVE)
# A run that did not pass is no spread of the link if it lies this many standard deviations from the others.
_FAR = 6.0
_LEAST_SPREAD = 0.005
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Candidate:
    """A possible baseline of a metric. If ``baseline`` is None, ``why`` says what is missing.

    ``refused`` counts the runs that must not be part of it, by reason. ``days`` is the number of days that it spans,
    ``missing`` how many more days its ``tolerance`` needs (None: no number of days is enough).
    """

    figure: str
    baseline: AcceptedBaseline | None
    why: str
    refused: Mapping[str, int]
    days: int = 0
    missing: int | None = 0
    tolerance: Tolerance = DEFAULT_TOLERANCE

    @property
    def spread(self) -> float:
        """Return the highest run over the lowest run, minus one."""
        assert self.baseline is not None, "only a baseline has runs"
        runs = [run.bps for run in self.baseline.runs]
        return max(runs) / min(runs) - 1


def candidate(
    trend: Trend,
    today: date,
    reason: str,
    build: str = "",
    least: int = LEAST_RUNS,
    tolerance: Tolerance = DEFAULT_TOLERANCE,
    lower: bool = False,
) -> Candidate:
    """Return the baseline from the newest runs at the present level, for limits with this ``tolerance``.

    At least ``least`` runs must have passed. Runs of the same builds that did not pass count, too. ``build``: use only
    runs whose build contains this text. If the newest build has enough runs, only its runs count. ``lower``: runs that
    only their present baseline failed count as passed.
    """
    refused: Counter[str] = Counter()
    usable: list[Point] = []
    again = Counter(point.run for point in trend.points)
    since = max((change.time for change in trend.changes), default=None)
    for point in trend.points:
        if why := _refusal(point, again[point.run] > 1):
            refused[why] += 1
        elif since is not None and point.time < since:
            refused["before the last level change"] += 1
        elif build and not any(build in (value or "") for value in point.build.values()):
            refused[f"of a build other than {build!r}"] += 1
        else:
            usable.append(point)
    usable = [point for point in usable if _measured(point) == _measured(usable[-1])]
    showing = showing_a_level(usable)
    if len(showing) < len(usable):
        refused["within the slow start of its connections"] = len(usable) - len(showing)
    usable = showing
    good = [point for point in usable if _is_good(point, lower)]
    newest = [point for point in good if identity(point.build) == identity(good[-1].build)]
    good = newest if len(newest) >= least else good
    unchanged = _unchanged(usable, good)
    refused.update(_missed(one) for one in usable if not _is_good(one, lower) and one not in unchanged)
    if len(good) < least:
        why = f"only {len(good)} usable runs, {least} are needed"
        return Candidate(trend.figure, None, why, refused)
    days = [list(of_day) for _, of_day in groupby(unchanged, key=_day)][-MOST_DAYS:]
    chosen = [point for of_day in days for point in of_day[-RUNS_OF_A_DAY if len(days) > 1 else -MOST_DAYS :]]
    runs = tuple(Bitrate(float(round(_rate(point)))) for point in chosen)
    # The mean, also of each day: connections may fall on two levels, and the limit applies to their long-run mean.
    goodput = statistics.fmean(
        statistics.fmean(_rate(point) for point in of_day) for _, of_day in groupby(chosen, key=_day)
    )
    accepted = AcceptedBaseline(
        trend.figure,
        Bitrate(float(round(goodput))),
        runs,
        _build_of(chosen),
        today,
        reason,
        sessions=_sessions_of(chosen),
        where=Where(""),
    )
    missing = days_for_tolerance(accepted.baseline, tolerance)
    return Candidate(trend.figure, accepted, "", refused, len(days), missing, tolerance)


def showing_a_level(points: Sequence[Point]) -> list[Point]:
    """Return the runs that show their level: on a link with slow starts, a short run may lie within its own.

    The gate judges its connections in the same way (`judge.starts`).
    """
    shown = shows_level([_started(point) for point in points])
    return [point for point, shows in zip(points, shown, strict=True) if shows]


def _started(point: Point) -> Started:
    each = [one for one in point.connections if not one.excluded]
    slow_s = max((one.slow_start_s for one in each), default=0.0)
    return Started(slow_s, True, _rate(point), max((one.slow_start_s + one.seconds for one in each), default=0.0))


def _is_good(point: Point, lower: bool) -> bool:
    return point.verdict in _GOOD or (lower and _missed(point) == BELOW_BASELINE)


def _missed(point: Point) -> str:
    """Return why a run did not pass: it missed its baseline, or its verdict."""
    return BELOW_BASELINE if point.verdict is Verdict.FAIL and point.of_baseline else str(point.verdict)


def _rate(point: Point) -> float:
    return point.goodput_bps or 0.0


def _day(point: Point) -> date:
    return point.time.date()


def _unchanged(usable: Sequence[Point], good: Sequence[Point]) -> list[Point]:
    """Return the good runs, and all other runs of their builds that lie near enough to be their spread."""
    if not good:
        return []
    builds = [identity(point.build) for point in good]
    middle = statistics.median(_rate(point) for point in good)
    far = _FAR * max(robust_sd([_rate(point) for point in good], middle), _LEAST_SPREAD * middle)
    return [
        point
        for point in usable
        if identity(point.build) in builds and (point in good or abs(_rate(point) - middle) <= far)
    ]


def _sessions_of(points: Sequence[Point]) -> tuple[SessionEntry, ...]:
    """Return where these runs were made, in their order. Boots and link-ups are numbered from 1."""
    boots: dict[tuple[date | str, ...], int] = {}
    link_ups: dict[tuple[date | str, ...], int] = {}
    found = []
    for (day, boot, link_up), own in groupby(points, key=lambda point: (_day(point), point.boot, point.link_up)):
        # A run without a known boot shares that of its day.
        booted = (boot,) if boot else (day, boot)
        number = boots.setdefault(booted, len(boots) + 1)
        up = link_ups.setdefault((*booted, link_up), len(link_ups) + 1)
        found.append(SessionEntry(day, number, up, len(list(own))))
    return tuple(found)


def _measured(point: Point) -> tuple[str, bool]:
    """Return how a point was measured. Points that differ in it cannot be compared."""
    return point.parameters, point.emulated


def _refusal(point: Point, again: bool) -> str:
    """Return why a run must not be part of a baseline; empty for a good run."""
    if not point.goodput_bps or point.verdict not in (*_GOOD, *_UNCHANGED):
        return str(point.verdict)
    if again or any(one.excluded for one in point.connections):
        return "repeated"
    if is_dirty(point.build):
        return "of a dirty build"
    if point.scale != 1:
        return "with links below full rate"
    return "" if point.complete else "interrupted run"


def _build_of(points: Sequence[Point]) -> dict[str, str | None]:
    """Return the build of all points. A part that differs is given as "first to last"."""
    found: dict[str, str | None] = {}
    for key in points[-1].build:
        values = list(dict.fromkeys(point.build.get(key) for point in points))
        found[key] = values[-1] if len(values) == 1 else f"{values[0]} to {values[-1]}"
    return found


def family_of(figure: str) -> str:
    """Return the file name for the baselines of this board and NIC: ``pi4b-onboard.yaml``."""
    return _NOT_PLAIN.sub("-", figure.partition("/")[0]).strip("-.") + ".yaml"
