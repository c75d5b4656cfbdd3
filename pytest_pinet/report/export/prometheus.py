"""Exports the values of a run in Prometheus' own text format, for the Pushgateway and node_exporter.

Both refuse the types ``stateset`` and ``info`` of OpenMetrics (Pushgateway 1.5.1: ``unknown metric type "stateset"``).
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.history.points import Point
from pytest_pinet.report.openmetrics import families


def prometheus(points: Sequence[Point]) -> str:
    """Return the samples of ``openmetrics`` as gauges, without timestamps, which the Pushgateway refuses."""
    lines: list[str] = []
    for family in families(points):
        name = f"{family.name}{family.suffix}"
        lines += [f"# HELP {name} {family.text}", f"# TYPE {name} gauge", *family.lines]
    return "".join(f"{line}\n" for line in lines)
