"""Exports the values of a run as JSON for Bencher (Bencher Metric Format, ``bencher run --adapter json``)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_pinet.history.points import Point
from pytest_pinet.history.records import OF_B, newest


def metric_name(point: Point, points: Sequence[Point]) -> str:
    """Return the id of a metric, equal in every run. With points of several labs, the lab stands before it.

    The value of build B has the name of the metric: the other build is not exported.
    """
    figure = point.figure.removesuffix(OF_B)
    return f"{point.lab}/{figure}" if len({one.lab for one in points}) > 1 else figure


def bencher(points: Sequence[Point]) -> str:
    """Return one benchmark for each metric that has a value, with its interval if it is known.

    The measure ``goodput`` is in bit/s (higher is better). Exact boards have ``instructions-per-packet`` (lower is
    better) and ``packets-per-second`` (higher is better).
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for point in newest(points):
        measures: dict[str, dict[str, float]] = {}
        if point.goodput_bps is not None:
            measures["goodput"] = {"value": point.goodput_bps}
            if point.interval_bps is not None:
                low, high = point.interval_bps
                measures["goodput"] |= {"lower_value": low, "upper_value": high}
        if point.instructions is not None:
            measures["instructions-per-packet"] = {"value": point.instructions}
        if point.packets_per_second is not None:
            measures["packets-per-second"] = {"value": point.packets_per_second}
        if measures:
            found[metric_name(point, points)] = measures
    return json.dumps(found, indent=1) + "\n"
