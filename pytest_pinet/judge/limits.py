"""Which limit holds for a combination and direction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_pinet.judge.rules_goodput import goodput_rule
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction


def most_specific(
    limits: Iterable[Limit],
    board: str,
    nic: str,
    topology: str,
    direction: Direction,
    both_ways: bool = False,
    metric: Metric = Metric.GOODPUT,
) -> Limit | None:
    """The limit that holds for one direction of a run (``both_ways``: the other one runs too), or None.

    The command line speaks of this very run, a call of this very measurement: they beat files and markers. Below them
    the most specific selectors win, then the marker over the lab file, then the one that was written last.
    """
    matching = [
        limit
        for limit in limits
        if limit.metric is metric and limit.matches(board, nic, topology, direction, both_ways)
    ]
    ranked = [
        ((_tier(limit), limit.specificity, limit.origin, position), limit) for position, limit in enumerate(matching)
    ]
    return max(ranked, key=lambda entry: entry[0])[1] if ranked else None


def _tier(limit: Limit) -> Origin:
    """Files and markers rank alike here; what somebody wanted of this very run is above them."""
    return max(limit.origin, Origin.MARKER)


def goodput_limit(
    limits: Sequence[Limit],
    board: str,
    nic: str,
    topology: str,
    direction: Direction,
    both_ways: bool,
    most: Bitrate,
    baseline: Bitrate | None = None,
    metrics: Sequence[Metric] = (Metric.GOODPUT,),
) -> Limit | None:
    """The one limit that a bit rate is judged by, or None: the most specific minimum, or tolerance below the baseline.

    Of ``metrics`` the first that any limit speaks of counts. Where both a minimum and a tolerance hold, both must be
    met, and the one that is harder to meet judges; but a call or the command line sets aside what the other says in
    files and markers. ``most`` is the physical limit, or what was sent where that is less; without a ``baseline`` no
    tolerance judges.
    """

    def holding(metric: Metric) -> Limit | None:
        return most_specific(limits, board, nic, topology, direction, both_ways, metric)

    minimum = next((found for metric in metrics if (found := holding(metric)) is not None), None)
    tolerance = None if baseline is None else holding(Metric.TOLERANCE)
    if minimum is None or tolerance is None:
        return minimum or tolerance
    if _tier(minimum) != _tier(tolerance):
        return max(minimum, tolerance, key=_tier)

    def threshold(limit: Limit) -> float:
        rule = goodput_rule(limit, most, baseline)
        return 0.0 if rule is None else rule.threshold

    return max(minimum, tolerance, key=threshold)
