"""Computes a metric's trend from its points: levels, changes, and the builds before and after each change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.config.baselines import Reviewed
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.history.differences import DUT, differences, identity, settings_differences
from pytest_pinet.history.drift import SeriesCourse, course_of
from pytest_pinet.history.levels import MATTERS, LevelShift
from pytest_pinet.history.points import EMULATED, PARAMETERS, VALUE, VERDICT, LevelChange, Point, Points, Trend
from pytest_pinet.model.figures import GOODPUT
from pytest_pinet.model.verdict import Verdict

NOTHING = Reviewed()
ONLY_PEER = "only the peer changed, not the device under test"
# An invalid value is not comparable, and an error has no value.
COUNTED = (Verdict.PASS, Verdict.MARGINAL, Verdict.IMPROVED, Verdict.FAIL, Verdict.INCONCLUSIVE)


def trend(
    figure: str,
    lab: str,
    points: Points,
    reviewed: Reviewed = NOTHING,
    matters: float = MATTERS,
    find: Callable[[Sequence[float], float], SeriesCourse] = course_of,
) -> Trend:
    """Return the trend of a metric's points, oldest first. Level changes below ``matters`` (0.01 = 1 %) are ignored.

    ``find`` searches, or knows what a search found (`courses`).
    """
    levels: list[float | None] = [None] * len(points)
    found: list[LevelChange] = []
    values, kind = points.column(VALUE), points[-1].kind if points else GOODPUT
    for indices in comparable(points):
        one = find([kind.rate(values[index] or 0.0) for index in indices], matters)
        for index, level in zip(indices, one.levels, strict=True):
            levels[index] = kind.of_rate(math.exp(level))
        found += _changes(_Chosen(points, indices), one)
    found.sort(key=lambda change: change.time)
    baseline, acknowledgement = reviewed.baseline(figure, lab), reviewed.acknowledgement(figure, lab)
    return Trend(figure, lab, points, baseline, tuple(found), tuple(levels), acknowledgement)


def counts(point: Point) -> bool:
    """Return whether a point counts for the level."""
    return point.value is not None and point.verdict in COUNTED


def comparable(points: Points) -> Iterator[list[int]]:
    """Yield groups of points that are comparable: same parameters, and all emulated or none."""
    # As `counts`, without the points: a page has a hundred thousand.
    values, verdicts = points.column(VALUE), points.column(VERDICT)
    parameters, emulated = points.column(PARAMETERS), points.column(EMULATED)
    one_kind = len(set(parameters)) == len(set(emulated)) == 1
    # The hash of a verdict is slow, and most verdicts are the first of these.
    if one_kind and None not in values and all(map(COUNTED.__contains__, verdicts)):
        yield list(range(len(points)))
        return
    alike = grouped(
        ((parameters[index], emulated[index]), index)
        for index, (value, verdict) in enumerate(zip(values, verdicts, strict=True))
        if value is not None and verdict in COUNTED
    )
    yield from alike.values()


@dataclass(frozen=True)
class _Chosen:
    """Some points of a metric, by their place among them."""

    all: Points
    indices: Sequence[int]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, place: int) -> Point:
        return self.all[self.indices[place]]


def _changes(points: _Chosen, one: SeriesCourse) -> Iterator[LevelChange]:
    for shift in one.shifts:
        place = _of_build(points, shift)
        possible = points[min(shift.first, place)].run, points[max(shift.last, place)].run
        levels = one.levels[shift.at - 1], one.levels[shift.at]
        yield _change(points[place - 1], points[place], levels, possible)
    if one.drift is not None:
        begin, end = one.drift.begin, one.drift.end
        yield _change(points[begin], points[end], (one.levels[begin], one.levels[end]), None)


def _of_build(points: _Chosen, shift: LevelShift) -> int:
    """Return where the level moved: the possible place nearest to the cut at which the build changed, too.

    One bad run right before the change looks like its beginning, so one more run on either side is considered.
    """
    around = range(max(shift.first - 1, 1), min(shift.last + 2, len(points)))
    places = (place for place in around if identity(points[place].build) != identity(points[place - 1].build))
    return min(places, key=lambda place: abs(place - shift.at), default=shift.at)


def differences_of(before: Point, at: Point) -> tuple[str, ...]:
    """Return in words what differs between two points: builds, tools, boards, and settings of both ends.

    The last text says if only the peer changed.
    """
    tool = "nginx or wrk" if "/http-" in at.figure else "iperf3"
    found = (
        *differences(before.build, at.build),
        *(f"{tool} of {text}" for text in differences(before.versions, at.versions)),
        *(f"board of {text}" for text in differences(before.serials, at.serials)),
        *settings_differences(before.settings, at.settings),
    )
    same_dut = DUT in before.settings.keys() & at.settings.keys() and _of_dut(before) == _of_dut(at)
    return (*found, ONLY_PEER) if found and same_dut else found


def _of_dut(point: Point) -> tuple[object, ...]:
    """Return all that is recorded of the device under test: its build, serial number, tools, and settings."""
    board = _board(point.settings[DUT])
    settings = {role: own for role, own in point.settings.items() if _board(own) == board}
    # Each version is that of a role, or of an end if there are several flows.
    versions, serials = (
        {name: value for name, value in values.items() if name == DUT or name.partition(":")[0] == board}
        for values in (point.versions, point.serials)
    )
    return identity(point.build), versions, serials, settings


def _board(settings: Mapping[str, str]) -> str:
    return settings.get("end", "").partition(":")[0]


def _change(before: Point, at: Point, logs: tuple[float, float], possible: tuple[str, str] | None) -> LevelChange:
    """Return the change between two points. ``possible`` are the first and the last possible run; None for a drift."""
    old, new = (at.kind.of_rate(math.exp(log)) for log in logs)
    levels, builds = (old, new), (before.build, at.build)
    runs, differs = possible or (before.run, at.run), differences_of(before, at)
    return LevelChange(at.run, before.run, at.time, *levels, *builds, *runs, differs, possible is None, at.kind)
