"""A traffic tool around another one, which sends or tells otherwise what is measured."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.traffic import WARMUP_CAP_S, Traffic
from pytest_pinet.shell import Shell
from pytest_pinet.traffic.tool import BeforeClient, Progress, TrafficTool, Watch


class WrappingTool(ABC):
    """Measures as ``tool`` does, but for what it sends and tells."""

    def __init__(self, tool: TrafficTool) -> None:
        self._tool = tool

    def _sent(self, traffic: Traffic) -> Traffic:
        """What is sent where ``traffic`` is asked for."""
        return traffic

    @abstractmethod
    def _told(self, found: Measurement, dut: Shell, peer: Shell, traffic: Traffic, warmup_cap_s: float) -> Measurement:
        """What to tell of it, where ``traffic`` was asked for. Raises TrafficError."""

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
        return self._told(found, dut, peer, traffic, warmup_cap_s)
