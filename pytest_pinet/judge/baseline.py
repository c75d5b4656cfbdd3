"""Comparison with an accepted earlier result: the difference and its interval, from runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.judge.moments import variance
from pytest_pinet.judge.quantiles import student
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.tolerance import Tolerance

# With fewer runs nobody knows what the link does when nothing changed.
LEAST_RUNS = 5


@dataclass(frozen=True)
class Baseline:
    """An accepted result: its figure, and the figures of runs on separate connections, link-ups or boots.

    ``builds`` name what ran (kernel, firmware); ``date`` is ISO 8601; ``reason`` says why it was accepted.
    """

    figure: Bitrate
    runs: tuple[Bitrate, ...]
    builds: tuple[str, ...] = ()
    date: str = ""
    reason: str = ""


class Change(StrEnum):
    """What the runs of a candidate say against those of the baseline."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    NOT_GATED = "not gated"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Difference:
    """Candidate over baseline minus one, between ``low`` and ``high``; None where there are too few runs."""

    change: Change
    why: str
    relative: float | None = None
    low: float | None = None
    high: float | None = None


def compare(
    candidate: Sequence[Bitrate], baseline: Baseline, tolerance: Tolerance, error_rate: float = 0.01
) -> Difference:
    """Compare runs with the baseline's, one-sided at ``error_rate`` on either side.

    Each run is one figure: the spread inside a run says nothing about the next. Student's interval of the difference of
    mean logarithms, with the variance that both have in common. Slower only when the interval lies below both parts of
    the tolerance, faster when it lies above them, the same when it reaches neither.
    """
    usable = [run.bps for run in baseline.runs if _is_figure(run)]
    found = [run.bps for run in candidate if _is_figure(run)]
    if len(usable) < LEAST_RUNS:
        return Difference(Change.NOT_GATED, f"not gated: {len(usable)} of {LEAST_RUNS} baseline runs")
    if not found:
        return Difference(Change.NOT_GATED, "not gated: no run of the candidate gave a figure")
    old, new = [math.log(bps) for bps in usable], [math.log(bps) for bps in found]
    freedom = len(old) + len(new) - 2
    pooled = (_squares(old) + _squares(new)) / freedom
    half = student(1 - error_rate, freedom) * math.sqrt(pooled * (1 / len(old) + 1 / len(new)))
    mean = math.fsum(new) / len(new) - math.fsum(old) / len(old)
    middle = math.exp(math.fsum(old) / len(old))
    relative, low, high = math.expm1(mean), math.expm1(mean - half), math.expm1(mean + half)
    allowed = 1 - tolerance.lowest(Bitrate(middle)).bps / middle
    if high < -allowed:
        change = Change.SLOWER
    elif low > allowed:
        change = Change.FASTER
    elif low > -allowed:
        change = Change.SAME
    else:
        change = Change.INCONCLUSIVE
    runs = f"{len(found)} run{'s' if len(found) > 1 else ''} against {len(usable)} of the baseline"
    why = f"{change}: {relative * 100:+.1f} % ({low * 100:+.1f} to {high * 100:+.1f} %), tolerance {tolerance}; {runs}"
    return Difference(change, why, relative, low, high)


def _is_figure(run: Bitrate) -> bool:
    return math.isfinite(run.bps) and run.bps > 0


def _squares(logs: Sequence[float]) -> float:
    return variance(logs) * (len(logs) - 1) if len(logs) > 1 else 0.0
