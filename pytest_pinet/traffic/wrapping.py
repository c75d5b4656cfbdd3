"""A base class for a traffic tool that wraps another one and changes what it sends or reports."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.traffic import WARMUP_CAP_S, Traffic
from pytest_pinet.traffic.tool import BeforeClient, Progress, TrafficTool, Watch


class WrappingTool(ABC):
    """Measures with ``tool``, with changes to the sent traffic and to the result."""

    def __init__(self, tool: TrafficTool) -> None:
        self._tool = tool

    def _sent(self, traffic: Traffic) -> Traffic:
        """Return the traffic to send for the requested ``traffic``."""
        return traffic

    @abstractmethod
    def _result(
        self, found: Measurement, dut: Shell, peer: Shell, traffic: Traffic, warmup_cap_s: float
    ) -> Measurement:
        """Return the changed result for the requested ``traffic``. Raises TrafficError."""

    def prepare(self, dut: Shell, peer: Shell, traffic: Traffic) -> None:
        """See TrafficTool."""
        self._tool.prepare(dut, peer, self._sent(traffic))

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
        """See TrafficTool."""
        found = self._tool.measure(
            dut,
            peer,
            dut_address,
            peer_address,
            self._sent(traffic),
            on_progress,
            watch=watch,
            before_client=before_client,
            warmup_cap_s=warmup_cap_s,
        )
        return self._result(found, dut, peer, traffic, warmup_cap_s)
