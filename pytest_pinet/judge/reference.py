"""Earlier knowledge about a metric."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.judge.baseline import Baseline
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.tolerance import DEFAULT_TOLERANCE

# The least specific tolerance, for accepted baselines without a configured one.
ANY_TOLERANCE = Limit(DEFAULT_TOLERANCE, Origin.LAB_FILE, "nobody said otherwise", metric=Metric.TOLERANCE)


@dataclass(frozen=True)
class Reference:
    """The noise of a metric, its accepted baseline, and how far below the baseline it may lie.

    ``tolerance`` applies if no other limit sets one.
    """

    noise: Noise = UNKNOWN
    baseline: Baseline | None = None
    tolerance: Limit = ANY_TOLERANCE
