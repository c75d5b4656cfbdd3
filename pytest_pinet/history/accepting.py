"""Decides which runs may become a baseline, and with which values. This module writes nothing."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from pytest_pinet.config.baselines import AcceptedBaseline
from pytest_pinet.errors import Where
from pytest_pinet.history.builds import identity, is_dirty
from pytest_pinet.history.points import Point, Trend
from pytest_pinet.judge.baseline import LEAST_RUNS
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict

# More runs add nothing to the spread between runs, and make files too long for a review.
MOST_RUNS = 20
_GOOD = (Verdict.PASS, Verdict.IMPROVED)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Candidate:
    """A possible baseline of a metric. If ``baseline`` is None, ``why`` says what is missing.

    ``refused`` counts the runs that must not be part of it, by reason.
    """

    figure: str
    baseline: AcceptedBaseline | None
    why: str
    refused: Mapping[str, int]

    @property
    def spread(self) -> float:
        """Return the highest run over the lowest run, minus one."""
        assert self.baseline is not None, "only a baseline has runs"
        runs = [run.bps for run in self.baseline.runs]
        return max(runs) / min(runs) - 1


def candidate(
    trend: Trend, today: date, reason: str, build: str = "", least: int = LEAST_RUNS, most: int = MOST_RUNS
) -> Candidate:
    """Return the baseline from the newest good runs at the present level.

    ``build``: use only runs whose build contains this text. If the newest build has enough runs, only its runs count.
    """
    refused: Counter[str] = Counter()
    usable = []
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
    newest = [point for point in usable if identity(point.build) == identity(usable[-1].build)]
    chosen = (newest if len(newest) >= least else usable)[-most:]
    if len(chosen) < least:
        why = f"only {len(chosen)} usable runs, {least} are needed"
        return Candidate(trend.figure, None, why, refused)
    runs = tuple(Bitrate(float(round(point.goodput_bps or 0.0))) for point in chosen)
    goodput = Bitrate(float(round(statistics.median(run.bps for run in runs))))
    accepted = AcceptedBaseline(trend.figure, goodput, runs, _build_of(chosen), today, reason, Where(""))
    return Candidate(trend.figure, accepted, "", refused)


def _measured(point: Point) -> tuple[str, bool]:
    """Return how a point was measured. Points that differ in it cannot be compared."""
    return point.parameters, point.emulated


def _refusal(point: Point, again: bool) -> str:
    """Return why a run must not be part of a baseline; empty for a good run."""
    if point.goodput_bps is None or point.verdict not in _GOOD:
        return str(point.verdict)
    if again or point.attempts.state or any(one.excluded for one in point.attempts.each):
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
