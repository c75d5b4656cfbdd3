"""Connections: how often for each second a connection is made, a small request answered, and the connection closed."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.errors import ConfigError
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.link_result import tool_of_end
from pytest_pinet.model.figures import CONNECTIONS, Figure, Sample
from pytest_pinet.model.traffic import Direction, HttpTraffic
from pytest_pinet.traffic.http import SECONDS_MAX, Http
from pytest_pinet.traffic.tool import TrafficJob, Watch, check_whole

# A response of one octet is one segment.
SIZE = 1


@dataclass(frozen=True)
class Connections:
    """wrk of the peer connects to nginx of the device under test, requests one octet, and closes: one after the other.

    With ``direction`` rx, the peer serves and the device under test connects.
    """

    direction: Direction = Direction.TX
    lasts_s: int = 5

    def __post_init__(self) -> None:
        check_whole("duration", self.lasts_s, 1, SECONDS_MAX)
        if self.direction is Direction.BIDIR:
            raise ConfigError("direction='bidir': connections have one direction; expected 'tx' or 'rx'")

    @property
    def key(self) -> str:
        """The part of an id; stable across runs."""
        return f"connections-wrk-{self.direction}"

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (CONNECTIONS,)

    @property
    def seconds(self) -> float:
        return float(self.lasts_s)

    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Measure once. Raises LabError, CapabilityError."""
        serves, asks = (link.dut, link.peer) if self.direction is Direction.TX else (link.peer, link.dut)
        tool_of_end(serves, "nginx")
        tool_of_end(asks, "wrk")
        traffic = HttpTraffic(self.direction, streams=1, duration_s=self.seconds, size=SIZE, close=True)
        ends = link.dut.shell, link.peer.shell, link.dut.ip, link.peer.ip
        found = Http().measure(TrafficJob(*ends, traffic, watch=watch))
        assert found.http is not None
        failed = found.http.troubles
        notes = tuple(f"{count} requests: {kind}" for kind, count in failed.items())
        raw = "".join(f"{name}:\n{text}\n" for name, text in found.raw.items())
        return Sample({CONNECTIONS.name: found.http.rate}, raw, notes=notes, tool=" and ".join(found.versions.values()))
