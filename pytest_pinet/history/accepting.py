"""Decides which runs may become a baseline, and with which values. This module writes nothing."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import groupby

from pytest_pinet.config.baselines import AcceptedBaseline, SessionEntry
from pytest_pinet.errors import Where
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.history.differences import identity, is_dirty
from pytest_pinet.history.drift import course_of as course_of_series
from pytest_pinet.history.points import Point, Trend
from pytest_pinet.judge.baseline import LEAST_RUNS, RUNS_OF_PLACE, Baseline, RunPlace, course_of, without_course
from pytest_pinet.judge.days import day_spread, days_for_tolerance
from pytest_pinet.judge.starts import Started, shows_level
from pytest_pinet.model.figures import Better
from pytest_pinet.model.quantities import DEFAULT_TOLERANCE, Bitrate, Tolerance, amount
from pytest_pinet.model.record.measurement import ConnectionRecord
from pytest_pinet.model.verdict import Verdict

# A baseline has the newest runs of each of its newest days. More add little, and make files too long for a review.
MOST_DAYS = 15
RUNS_OF_A_DAY = 3
# Why a run did not pass, if its limit came from an accepted baseline.
BELOW_BASELINE = "below the baseline"
_GOOD = (Verdict.PASS, Verdict.IMPROVED)
# Runs of a build that also passed: without them, only the lucky ones of an unchanged link would show its spread.
_UNCHANGED = (Verdict.MARGINAL, Verdict.FAIL, Verdict.INCONCLUSIVE)
# Of each run, the first connections: as many as any verdict needs on a rough link.
_CONNECTIONS = 10
# Levels that differ by less are the same one.
_SAME_LEVEL = 0.01
# The lowest relative variance of a mean: no weight is infinite.
_LEAST_VARIANCE = 1e-8
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
        runs = [amount(run) for run in self.baseline.runs]
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
    """Return the baseline from the newest runs of a build, for limits with this ``tolerance``.

    At least ``least`` runs must have passed. All runs of the same builds count, also runs that did not pass, and runs
    on another level if the present one was seen before them. ``build``: use only runs whose build contains this text.
    If the newest build has enough runs, only its runs count. ``lower``: runs that only their present baseline failed
    count as passed.
    """
    refused: Counter[str] = Counter()
    if trend.kind.unit == "share" and trend.kind.better is Better.DOWN:
        why = "shares near 0 have no useful logarithm: set an absolute limit"
        return Candidate(trend.figure, None, why, refused)
    usable: list[Point] = []
    again = Counter(point.run for point in trend.points)
    for point in trend.points:
        if why := _refusal(point, again[point.run] > 1):
            refused[why] += 1
        elif build and not any(build in (value or "") for value in point.build.values()):
            refused[f"of a build other than {build!r}"] += 1
        else:
            usable.append(point)
    usable = [point for point in usable if _measured(point) == _measured(usable[-1])]
    placed = {id(point): own for point, own in zip(usable, connections_of(usable), strict=True)}
    if hidden := sum(not own for own in placed.values()):
        refused["within the slow start of its connections"] = hidden
    usable = [point for point in usable if placed[id(point)]]
    if before := _before_present([placed[id(point)][0][1] for point in usable]):
        refused["before the present level was first seen"] = before
    usable = usable[before:]
    good = [point for point in usable if _is_good(point, lower)]
    newest = [point for point in good if identity(point.build) == identity(good[-1].build)]
    good = newest if len(newest) >= least else good
    builds = [identity(point.build) for point in good]
    unchanged = [point for point in usable if identity(point.build) in builds]
    refused.update(_missed(one) for one in usable if not _is_good(one, lower) and one not in unchanged)
    if len(good) < least:
        why = f"only {len(good)} usable runs, {least} are needed"
        return Candidate(trend.figure, None, why, refused)
    days = [list(of_day) for _, of_day in groupby(unchanged, key=_day)][-MOST_DAYS:]
    kept = {id(point) for of_day in days for point in of_day[-RUNS_OF_A_DAY if len(days) > 1 else -MOST_DAYS :]}
    # A gated run that passes at once has one connection, so the newest runs with later ones stay.
    kept.update([id(point) for point in unchanged if len(placed[id(point)]) > 1][-RUNS_OF_PLACE:])
    chosen = [point for point in unchanged if id(point) in kept]
    places, runs = zip(*(one for point in chosen for one in placed[id(point)]), strict=True)
    show, found = trend.kind, Baseline(runs[0], runs, places=places)
    course = course_of(found)
    figure = figure_of(without_course(found, course))
    value, *each = (show.quantity(show.of_rate(rate.bps)) for rate in (figure, *runs))
    accepted = AcceptedBaseline(
        trend.figure,
        value,
        tuple(each),
        _build_of(chosen),
        today,
        reason,
        sessions=_sessions_of(places),
        where=Where(""),
    )
    missing = days_for_tolerance(without_course(accepted.baseline(trend.kind), course), tolerance)
    return Candidate(trend.figure, accepted, "", refused, len(days), missing, tolerance)


def _before_present(firsts: Sequence[Bitrate]) -> int:
    """Return how many runs came before the present level was first seen. Levels between then and now may come again.

    The first connections of the runs are compared, since not all runs have later ones.
    """
    levels = course_of_series([rate.bps for rate in firsts]).levels
    return next((at for at, level in enumerate(levels) if abs(level - levels[-1]) < _SAME_LEVEL), 0)


def connections_of(points: Sequence[Point]) -> list[list[tuple[RunPlace, Bitrate]]]:
    """Return, for each run, its first connections that show their level, with their places, as rates (`Point.rate`).

    On a link with slow starts, a short connection may lie within its own: the gate judges its connections alike
    (`judge.starts`).
    """
    each = [(number, one) for number, point in enumerate(points) for one in point.connections if not one.excluded]
    shown = shows_level([
        Started(one.slow_start_s, one.level_bps is not None, one.goodput_bps, one.slow_start_s + one.seconds)
        for _, one in each
    ])  # fmt: skip
    found = [
        [(_place(point, ConnectionRecord()), Bitrate(point.kind.rate(value))) for value in point.values[:_CONNECTIONS]]
        for point in points
    ]
    # A suspicion takes the link down and up, and the number since the link-up begins again.
    ups, last = Counter[int](), dict[int, int]()
    for (number, one), shows in zip(each, shown, strict=True):
        ups[number] += (one.number or 1) <= last.get(number, 0)
        last[number] = one.number or 1
        if shows and len(found[number]) < _CONNECTIONS:
            place = _place(points[number], one, ups[number])
            found[number].append((place, Bitrate(float(round(one.goodput_bps)))))
    return found


def _place(point: Point, one: ConnectionRecord, ups: int = 0) -> RunPlace:
    before_s = round(one.traffic_before_s or 0.0)
    link_up = f"{point.link_up}+{ups}" if ups else point.link_up
    return RunPlace(_day(point).isoformat(), point.boot, link_up, one.number or 1, before_s)


def figure_of(alike: Baseline) -> Bitrate:
    """Return the mean over the days, of the mean of each day, of a baseline without its course.

    A low run has more connections until it is judged. Where the link-ups of a day differ, each of them counts once,
    else each connection: their weights are inverse variances (Searle, Variance Components, 3.6). The mean, since
    connections may fall on two levels, and the limit applies to their long-run mean.
    """
    spread = day_spread(alike)
    days = []
    for of_day in grouped((place.day, (place.session, run.bps)) for place, run in alike.placed).values():
        link_ups = grouped(of_day).values()
        weights = [1 / max(spread.sessions + spread.runs / len(own), _LEAST_VARIANCE) for own in link_ups]
        days.append(statistics.fmean(map(statistics.fmean, link_ups), weights))
    return Bitrate(float(round(statistics.fmean(days))))


def _is_good(point: Point, lower: bool) -> bool:
    return point.verdict in _GOOD or (lower and _missed(point) == BELOW_BASELINE)


def _missed(point: Point) -> str:
    """Return why a run did not pass: it missed its baseline, or its verdict."""
    return BELOW_BASELINE if point.verdict is Verdict.FAIL and point.of_baseline else str(point.verdict)


def _day(point: Point) -> date:
    return point.time.date()


def _sessions_of(places: Sequence[RunPlace]) -> tuple[SessionEntry, ...]:
    """Return where these runs were made, in their order. Boots and link-ups are numbered from 1."""
    boots: dict[tuple[str, str], int] = {}
    link_ups: dict[tuple[str, ...], int] = {}
    found: list[SessionEntry] = []
    for place in places:
        booted = place.boot_of_day
        boot = boots.setdefault(booted, len(boots) + 1)
        up = link_ups.setdefault((*booted, place.link_up), len(link_ups) + 1)
        one = SessionEntry(date.fromisoformat(place.day), boot, up, 1, place.number, place.traffic_before_s)
        last = found[-1] if found else one
        follows = last.number + last.runs == one.number and (last.each_s or last.runs == 1)
        if found and not last.each_s and replace(last, runs=1) == one:
            found[-1] = replace(last, runs=last.runs + 1)
        elif (last.day, last.boot, last.link_up) == (one.day, boot, up) and follows:
            each_s = last.each_s or one.after_s - last.after_s
            found[-1] = replace(last, runs=last.runs + 1, each_s=each_s)
        else:
            found.append(one)
    return tuple(found)


def _measured(point: Point) -> tuple[str, bool]:
    """Return how a point was measured. Points that differ in it cannot be compared."""
    return point.parameters, point.emulated


def _refusal(point: Point, again: bool) -> str:
    """Return why a run must not be part of a baseline; empty for a good run."""
    if not point.value or point.verdict not in (*_GOOD, *_UNCHANGED):
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
