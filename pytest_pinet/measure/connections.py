"""Connections: how often for each second a connection is made, a small request answered, and the connection closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_pinet.errors import ConfigError
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import USUAL_S, Probe
from pytest_pinet.measure.link_result import tool_of_end
from pytest_pinet.model.figures import CONNECTIONS, Sample
from pytest_pinet.model.traffic import Direction, HttpTraffic
from pytest_pinet.traffic.http import SECONDS_MAX, Http
from pytest_pinet.traffic.tool import TrafficJob, Watch, check_whole

# A response of one octet is one segment.
SIZE = 1


@dataclass(frozen=True)
class Connections(Probe):
    """wrk of the peer connects to nginx of the device under test, requests one octet, and closes: one after the other.

    With ``direction`` rx, the peer serves and the device under test connects.
    """

    direction: Direction = Direction.TX
    seconds: int = USUAL_S

    figures: ClassVar = (CONNECTIONS,)

    def __post_init__(self) -> None:
        check_whole("duration", self.seconds, 1, SECONDS_MAX)
        if self.direction is Direction.BIDIR:
            raise ConfigError("direction='bidir': connections have one direction; expected 'tx' or 'rx'")

    @property
    def name(self) -> str:
        return f"connections-wrk-{self.direction}"

    def once(self, link: Link, watch: Watch | None) -> Sample:
        serves, asks = (link.dut, link.peer) if self.direction is Direction.TX else (link.peer, link.dut)
        tool_of_end(serves, "nginx")
        tool_of_end(asks, "wrk")
        traffic = HttpTraffic(
            self.direction, streams=1, duration_s=self.seconds, size=SIZE, close=True, setup=self.setup
        )
        ends = link.dut.shell, link.peer.shell, link.dut.ip, link.peer.ip
        found = Http().measure(TrafficJob(*ends, traffic, watch=watch))
        assert found.http is not None
        failed = found.http.troubles
        notes = tuple(f"{count} requests: {kind}" for kind, count in failed.items())
        raw = "".join(f"{name}:\n{text}\n" for name, text in found.raw.items())
        return Sample({CONNECTIONS.name: found.http.rate}, raw, notes=notes, tool=" and ".join(found.versions.values()))
