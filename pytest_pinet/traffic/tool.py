"""What every traffic tool offers: one measurement between two ends, from start to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.traffic import WARMUP_CAP_S, Traffic
from pytest_pinet.shell import Shell

# Gets the seconds of traffic so far, about twice a second.
Progress = Callable[[float], None]
# Called all the time; ends the run by raising.
Watch = Callable[[], None]
# Given the client's end, it may wait for others; returns the uptime of that end at which to begin (None: at once).
BeforeClient = Callable[[Shell], float | None]


class TrafficTool(Protocol):
    """Measures between a device under test and its peer; leaves nothing behind on either, whatever happens."""

    def prepare(self, dut: Shell, peer: Shell, traffic: Traffic) -> None:
        """Ask both ends for what a measurement needs there, once. Raises TrafficError for what is missing."""

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

        ``before_client`` is called when everything stands but traffic. Raises ConfigError, UnsupportedError, LabError.
        """
