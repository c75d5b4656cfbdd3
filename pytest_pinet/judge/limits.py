"""Find the limit that applies to a combination and direction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate


def most_specific(limits: Iterable[Limit], key: MetricKey, metric: Metric = Metric.GOODPUT) -> Limit | None:
    """Return the limit that applies to one direction of a run, or None.

    Limits of the command line and of a call apply to this run, so they override files and markers. Below them the most
    specific selectors win, then the marker over the lab file, then the limit that was written last.
    """
    matching = [limit for limit in limits if limit.metric is metric and limit.scope.matches(key)]
    # Of equal limits, max returns the first.
    return max(
        reversed(matching), key=lambda limit: (_tier(limit), limit.scope.specificity, limit.origin), default=None
    )


def _tier(limit: Limit) -> Origin:
    """Return the rank of the origin: files and markers are equal; calls and the command line are above them."""
    return max(limit.origin, Origin.MARKER)


def drops_limit(limits: Sequence[Limit], keys: Iterable[MetricKey]) -> Limit | None:
    """Return the strictest limit on link drops of all directions, since they share the link; None without a limit."""
    found = [limit for key in keys if (limit := most_specific(limits, key, Metric.MAX_DROPS)) is not None]
    return min(found, key=lambda limit: limit.bound if isinstance(limit.bound, int) else 0, default=None)


def goodput_limit(
    limits: Sequence[Limit],
    key: MetricKey,
    most: Bitrate,
    baseline: Bitrate | None = None,
    metrics: Sequence[Metric] = (Metric.GOODPUT,),
) -> Limit | None:
    """Return the one limit that judges a bit rate: the most specific minimum or tolerance below the baseline, or None.

    The first of ``metrics`` with a limit counts. If both a minimum and a tolerance apply, both must be met, so the
    stricter one judges. But a call or the command line overrides the other limit in files and markers. ``most`` is the
    physical limit, or the sent rate if it is lower. Without a ``baseline`` no tolerance applies.
    """

    def holding(metric: Metric) -> Limit | None:
        return most_specific(limits, key, metric)

    minimum = next((found for metric in metrics if (found := holding(metric)) is not None), None)
    tolerance = None if baseline is None else holding(Metric.TOLERANCE)
    if minimum is None or tolerance is None:
        return minimum or tolerance
    if _tier(minimum) != _tier(tolerance):
        return max(minimum, tolerance, key=_tier)

    def threshold(limit: Limit) -> float:
        found = limit.threshold(most, baseline)
        return 0.0 if found is None else found.number

    return max(minimum, tolerance, key=threshold)
