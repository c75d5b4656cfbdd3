"""Traffic tools by name. Each one is an entry point, including our own."""

from __future__ import annotations

from typing import cast

from pytest_pinet.execution.entry_points import TRAFFIC_TOOLS
from pytest_pinet.model.lab import Lab
from pytest_pinet.traffic.tool import TrafficTool


def make_tool(name: str, lab: Lab) -> TrafficTool:
    """Return the traffic tool of this name for the lab. Raises ConfigError if that is not possible.

    The entry point names a callable that takes the lab and returns a `TrafficTool`, such as a class.
    """
    made, what = TRAFFIC_TOOLS.make(name, lab, takes="the lab")
    TRAFFIC_TOOLS.require(made, what, TrafficTool)
    return cast(TrafficTool, made)
