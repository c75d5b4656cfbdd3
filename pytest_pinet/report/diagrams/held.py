"""Finds the limits of a combination, by the same rule as the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.judge.limits import most_specific
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.metric_key import MetricKey, metric_keys
from pytest_pinet.model.traffic import Direction, Traffic


def held(combination: Combination, limits: Sequence[Limit]) -> dict[Direction, Limit]:
    """Return the limits for the NIC under test, by direction.

    If the topology has no one-way direction, the limits apply to each direction of bidirectional traffic.
    """
    topology = combination.topology
    one_way = [way for way in (Direction.TX, Direction.RX) if way in topology.directions]
    keys = {way: MetricKey(combination.identity, Traffic(way), way) for way in one_way}
    # If flows share a NIC, the limit on their sum comes first.
    metrics = (Metric.SUM, Metric.GOODPUT) if topology.shared else (Metric.GOODPUT, Metric.SUM)
    found: dict[Direction, Limit] = {}
    for way, key in (keys or metric_keys(combination.identity, Traffic(Direction.BIDIR))).items():
        for metric in metrics:
            limit = most_specific(limits, key, metric)
            if limit is not None:
                found[way] = limit
                break
    return found


def held_lines(found: Mapping[Direction, Limit]) -> list[str]:
    """Return ``94% (lab/virtual.yaml:88)``, or one line per direction if limits differ. No lines without a limit."""
    limits = list(found.values())
    if len(limits) > 1 and limits.count(limits[0]) == len(limits):
        return [_line(limits[0])]
    return [f"{way} {_line(limit)}" for way, limit in found.items()]


def _line(limit: Limit) -> str:
    return f"{limit.minimum} ({limit.source})"
