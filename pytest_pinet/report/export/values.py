"""The values of a run for formats that only take numbers."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.history.points import Point
from pytest_pinet.history.records import OF_B


def metric_name(point: Point, points: Sequence[Point]) -> str:
    """Return the id of a metric, equal in every run. With points of several labs, the lab stands before it.

    The value of build B has the name of the metric: the other build is not exported.
    """
    figure = point.figure.removesuffix(OF_B)
    return f"{point.lab}/{figure}" if len({one.lab for one in points}) > 1 else figure
