"""From the points of a figure to its trend: levels, changes, and the builds before and after each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_pinet.history.builds import differences, identity
from pytest_pinet.history.drift import Course, course
from pytest_pinet.history.levels import MATTERS, Shift
from pytest_pinet.history.points import Band, Change, Point, Trend
from pytest_pinet.model.verdict import Verdict

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import AcceptedBaseline

# An invalid figure is one of something else; of an error there is none.
_COUNTED = (Verdict.PASS, Verdict.MARGINAL, Verdict.IMPROVED, Verdict.FAIL, Verdict.INCONCLUSIVE)


def trend(
    figure: str,
    lab: str,
    points: Sequence[Point],
    accepted: AcceptedBaseline | None = None,
    changes: bool = True,
    matters: float = MATTERS,
) -> Trend:
    """The trend of a figure's points, oldest first. ``matters``: levels that move by less (0.01 = 1 %) are one."""
    band = None if accepted is None else band_of(accepted)
    if not changes:
        return Trend(figure, lab, tuple(points), band)
    levels: list[float | None] = [None] * len(points)
    found: list[Change] = []
    for indices in comparable(points):
        own = [points[index] for index in indices]
        one = course([math.log(max(point.goodput_bps or 0.0, 1.0)) for point in own], matters=matters)
        for index, level in zip(indices, one.levels, strict=True):
            levels[index] = math.exp(level)
        found += _changes(own, one)
    found.sort(key=lambda change: change.time)
    return Trend(figure, lab, tuple(points), band, tuple(found), tuple(levels))


def band_of(accepted: AcceptedBaseline) -> Band:
    """A baseline as a reader draws it."""
    runs = [run.bps for run in accepted.runs]
    return Band(accepted.goodput.bps, min(runs), max(runs), len(runs), accepted.date.isoformat(), accepted.reason)


def counts(point: Point) -> bool:
    """Whether a point says something of the level."""
    return point.goodput_bps is not None and point.verdict in _COUNTED


def comparable(points: Sequence[Point]) -> Iterator[list[int]]:
    """Which points were measured alike: with other parameters, or emulated, a figure is another one."""
    alike: dict[tuple[str, bool], list[int]] = {}
    for index, point in enumerate(points):
        if counts(point):
            alike.setdefault((point.parameters, point.emulated), []).append(index)
    yield from alike.values()


def _changes(points: Sequence[Point], one: Course) -> Iterator[Change]:
    for shift in one.shifts:
        place = _of_build(points, shift)
        first, last = points[min(shift.first, place)].run, points[max(shift.last, place)].run
        at, before = points[place], points[place - 1]
        low, high = math.exp(one.levels[shift.at - 1]), math.exp(one.levels[shift.at])
        yield _change(before, at, low, high, first, last, False)
    if one.drift is not None:
        before, at = points[one.drift.begin], points[one.drift.end]
        low, high = math.exp(one.levels[one.drift.begin]), math.exp(one.levels[one.drift.end])
        yield _change(before, at, low, high, before.run, at.run, True)


def _of_build(points: Sequence[Point], shift: Shift) -> int:
    """Where the level moved; of the places that it may be, the nearest where the build changed, too.

    One bad run right beside it looks like its beginning, so that a run more is looked at on either side.
    """

    def is_new(place: int) -> bool:
        return identity(points[place].build) != identity(points[place - 1].build)

    around = range(max(shift.first - 1, 1), min(shift.last + 2, len(points)))
    places = (place for place in around if is_new(place))
    return min(places, key=lambda place: abs(place - shift.at), default=shift.at)


def _change(before: Point, at: Point, low: float, high: float, first: str, last: str, gradual: bool) -> Change:
    tool = "nginx or wrk" if "/http-" in at.figure else "iperf3"
    return Change(
        at.run,
        before.run,
        at.time,
        low,
        high,
        before.build,
        at.build,
        first,
        last,
        (
            *differences(before.build, at.build),
            *(f"{tool} of {text}" for text in differences(before.versions, at.versions)),
            *(f"board of {text}" for text in differences(before.serials, at.serials)),
        ),
        gradual,
    )
