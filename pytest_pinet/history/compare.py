"""Compares two sets of runs: which metrics are slower, cannot be compared, or exist on one side only. No I/O."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.history.differences import name_of
from pytest_pinet.history.points import Point
from pytest_pinet.history.trends import counts, differences_of
from pytest_pinet.judge.baseline import LEAST_RUNS, Baseline, RunPlace
from pytest_pinet.judge.days import compare_sets
from pytest_pinet.judge.words import words_of
from pytest_pinet.model.figures import GOODPUT, Better, Figure
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.verdict import COMPARED, GOOD, Verdict

# Why a metric is skipped.
MISSING, NEW, NOT_COMPARABLE = "missing", "new", "not comparable"
# What B is in comparison with A, worst first.
WORDS = ("slower", "inconclusive", MISSING, NOT_COMPARABLE, NEW, "faster", "same")


@dataclass(frozen=True)
class RunSet:
    """Set A or B: the user's name for it, and its points. Points of several runs make the comparison more certain."""

    name: str
    points: Sequence[Point]

    @property
    def builds(self) -> list[str]:
        """Return the names of the set's builds, in order of appearance."""
        return list(dict.fromkeys(name_of(point.build) for point in self.points if point.build))


@dataclass(frozen=True)
class Compared:
    """The comparison of metric ``figure``. A value is None if its side lacks it. ``change`` is B over A minus one.

    ``kind`` has the unit of both values.

    ``skipped`` is the reason of the verdict ``skipped``: ``missing`` (only A has a value), ``new`` (only B) or ``not
    comparable``. ``differs`` says in words what differs between the newest runs of both sides: builds, boards, settings
    of the ends.
    """

    figure: str
    a: float | None
    b: float | None
    verdict: Verdict
    why: str
    change: float | None = None
    differs: tuple[str, ...] = ()
    skipped: str = ""
    kind: Figure = GOODPUT

    @property
    def lost(self) -> float:
        """The change, below 0 if B is worse; 0 if it is not known."""
        return 0.0 if self.change is None else self.change if self.kind.better is Better.UP else -self.change

    @property
    def word(self) -> str:
        """What B is in comparison with A, one of WORDS."""
        return self.skipped or COMPARED[self.verdict]


def compared(a: RunSet, b: RunSet, tolerance: float) -> list[Compared]:
    """Compare all metrics of both sets, worst first. ``tolerance`` is a fraction (0.03: B may be 3 % slower)."""
    figures = dict.fromkeys(point.figure for point in (*a.points, *b.points) if point.direction)
    own_a, own_b = (grouped((point.figure, point) for point in side.points if counts(point)) for side in (a, b))
    found = [
        replace(_one(figure, old, new, tolerance), differs=differences_of(old[-1], new[-1]) if old and new else ())
        for figure in figures
        for old, new in [(own_a.get(figure, []), own_b.get(figure, []))]
    ]
    return sorted(found, key=lambda one: (WORDS.index(one.word), one.lost, one.figure))


def _one(figure: str, a: Sequence[Point], b: Sequence[Point], tolerance: float) -> Compared:
    """Compare the rates in place of the values (`Point.rate`), in which the higher one is always better."""
    if not a and not b:
        why = "neither side has a value that can be judged"
        return Compared(figure, None, None, Verdict.SKIPPED, why, skipped=NOT_COMPARABLE)
    kind = (*a, *b)[-1].kind
    a_bps, b_bps = (statistics.median(point.rate for point in side) if side else None for side in (a, b))
    old, new = (None if bps is None else kind.of_rate(bps) for bps in (a_bps, b_bps))
    found = Compared(figure, old, new, Verdict.SKIPPED, "", kind=kind)
    if a_bps is None or b_bps is None:
        side, word = ("B", NEW) if a_bps is None else ("A", MISSING)
        return replace(found, why=f"only {side} has a value", skipped=word)
    if why := _mismatch(a, b):
        return replace(found, why=why, skipped=NOT_COMPARABLE)
    found = replace(found, change=new / old - 1 if old and new is not None else None)
    if not a_bps or not b_bps:
        return _by_intervals(found, a, b, a_bps, b_bps, tolerance)
    judged = compare_sets(placed(a, a_bps), placed(b, b_bps), Tolerance(Share(tolerance)), words=words_of(kind))
    if len(a) >= LEAST_RUNS:
        return replace(found, verdict=judged.verdict, why=judged.why)
    few = _by_intervals(found, a, b, a_bps, b_bps, tolerance)
    if few.verdict is Verdict.FAIL and judged.verdict is not Verdict.FAIL:
        # The intervals know nothing of other days.
        return replace(few, verdict=Verdict.INCONCLUSIVE, why=judged.why)
    return few


def placed(points: Sequence[Point], bps: float) -> Baseline:
    """Return a baseline of this rate with the runs of these points, their days, boots and link-ups."""
    runs = [point for point in points if point.rate > 0]
    places = (RunPlace(point.time.date().isoformat(), point.boot, point.link_up) for point in runs)
    return Baseline(Bitrate(bps), tuple(Bitrate(point.rate) for point in runs), places=tuple(places))


def _by_intervals(
    found: Compared, a: Sequence[Point], b: Sequence[Point], a_bps: float, b_bps: float, tolerance: float
) -> Compared:
    """Compare by the runs' own confidence intervals, because there are only few runs."""
    a_low, a_high = _interval(a)
    b_low, b_high = _interval(b)
    if b_bps < a_bps * (1 - tolerance):
        verdict = Verdict.FAIL if b_high < a_low else Verdict.INCONCLUSIVE
    elif b_bps > a_bps * (1 + tolerance) and b_low > a_high:
        verdict = Verdict.IMPROVED
    else:
        verdict = Verdict.PASS
    why = "the intervals of A and B overlap; " if verdict is Verdict.INCONCLUSIVE else ""
    runs = f"{len(a)} against {len(b)} run{'s' if len(b) > 1 else ''}"
    return replace(found, verdict=verdict, why=why + runs, change=found.change or 0.0)


def _interval(points: Sequence[Point]) -> tuple[float, float]:
    ends = [[point.kind.rate(one) for one in point.interval] if point.interval else [point.rate] for point in points]
    rates = [one for both in ends for one in both]
    return min(rates), max(rates)


def _mismatch(a: Sequence[Point], b: Sequence[Point]) -> str:
    """Return why the values cannot be compared; empty if they can."""
    if a[-1].emulated != b[-1].emulated:
        return "one side is emulated, the other was measured on hardware"
    parameters = {point.parameters for point in (*a, *b) if point.parameters}
    return "measured with different parameters" if len(parameters) > 1 else ""


def exit_code(found: Sequence[Compared]) -> int:
    """Return 0 if nothing is slower, 1 if something is, 3 if a metric of A could not be judged, or none at all."""
    verdicts = {one.verdict for one in found if one.skipped != NEW}
    if Verdict.FAIL in verdicts:
        return 1
    return 0 if verdicts and verdicts <= set(GOOD) else 3
