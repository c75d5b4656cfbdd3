"""Compare a result with an accepted earlier one: the difference and its interval, from runs.

In a gated test this difference is shown only; the verdict comes from `gate`. In `pinet compare` the difference decides.

`Reference` is all earlier knowledge about a metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.statistics import logarithms, mean, student, variance
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.quantities import DEFAULT_TOLERANCE, Bitrate, Tolerance

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
    apart, middle = mean(new) - mean(old), math.exp(mean(old))
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
