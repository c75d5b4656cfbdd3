"""The limits that a combination is held against, by the rule that the gate goes by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.judge.limits import most_specific
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.traffic import Direction


def held(combination: Combination, limits: Sequence[Limit]) -> dict[Direction, Limit]:
    """The limit on what the NIC under test sends and receives, one way at a time where the topology has that."""
    topology = combination.topology
    one_way = [way for way in (Direction.TX, Direction.RX) if way in topology.directions]
    # Flows that share a NIC are held against a limit as a sum.
    metrics = (Metric.SUM, Metric.GOODPUT) if topology.shared else (Metric.GOODPUT, Metric.SUM)
    found: dict[Direction, Limit] = {}
    for way in one_way or Direction.BIDIR.parts:
        for metric in metrics:
            limit = most_specific(limits, combination.board, combination.nic, topology.name, way, not one_way, metric)
            if limit is not None:
                found[way] = limit
                break
    return found


def held_lines(found: Mapping[Direction, Limit]) -> list[str]:
    """``94% (lab/virtual.yaml:88)``, or a line for each direction where they differ; none without a limit."""
    limits = list(found.values())
    if len(limits) > 1 and limits.count(limits[0]) == len(limits):
        return [_line(limits[0])]
    return [f"{way} {_line(limit)}" for way, limit in found.items()]


def _line(limit: Limit) -> str:
    return f"{limit.minimum} ({limit.source})"
