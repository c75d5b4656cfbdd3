"""The interface of a traffic tool (one measurement between two ends, from start to end), and the tools by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from pytest_pinet.execution.entry_points import TRAFFIC_TOOLS
from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.traffic import WARMUP_CAP_S, Traffic

# Receives the seconds of traffic so far, about twice a second.
Progress = Callable[[float], None]
# Called throughout a run; can end the run by raising.
Watch = Callable[[], None]
# Receives the client's end and may wait for others. Returns the uptime of this end at which to begin (None: at once).
BeforeClient = Callable[[Shell], float | None]


class TrafficTool(Protocol):
    """Measures between a device under test and its peer. Leaves nothing behind on either end, whatever happens.

    One object measures for a whole session, and several flows at once from several threads.
    """

    def prepare(self, dut: Shell, peer: Shell, traffic: Traffic) -> None:
        """Check once that both ends have what a measurement needs. Raises TrafficError if something is missing."""

    def measure(
        self,
        dut: Shell,
        peer: Shell,
        dut_address: str,
        peer_address: str,
        traffic: Traffic,
        on_progress: Progress | None = None,
        *,
        watch: Watch | None = None,
        before_client: BeforeClient | None = None,
        warmup_cap_s: float = WARMUP_CAP_S,
    ) -> Measurement:
        """Send ``traffic`` between the two addresses and return what the receivers got.

        ``before_client`` is called when everything but the traffic is ready. Raises ConfigError, UnsupportedError,
        LabError.
        """


def make_tool(name: str, lab: Lab) -> TrafficTool:
    """Return the traffic tool of this name for the lab. Raises ConfigError if that is not possible.

    The entry point names a callable that takes the lab and returns a `TrafficTool`, such as a class.
    """
    made, what = TRAFFIC_TOOLS.make(name, lab, takes="the lab")
    TRAFFIC_TOOLS.require(made, what, TrafficTool)
    return cast(TrafficTool, made)
