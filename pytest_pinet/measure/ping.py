"""Round trips of single packets over a link without other traffic. A series of pings gives one value of each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import Probe
from pytest_pinet.model.figures import LATENCY, LOSS, RTT_MAX, RTT_MDEV, RTT_MIN, Sample
from pytest_pinet.model.traffic import Ping, PingReport
from pytest_pinet.traffic import ping as tool
from pytest_pinet.traffic.tool import Watch


def ping_peer(link: Link, ping: Ping, watch: Watch | None) -> tuple[PingReport, str]:
    """Ping the peer from the device under test. Return the report, and the text that it comes from. Raises LabError."""
    dut, peer = link.dut, link.peer
    patience = dut.endpoint.node.patience
    return tool.measure(dut.shell, ping, dut.ip, peer.ip, str(peer.endpoint), watch, patience)


@dataclass(frozen=True)
class Pings(Probe):
    """Pings from the device under test to its peer. The latency is the mean round trip."""

    ping: Ping = field(default_factory=Ping)
    figures: ClassVar = (LOSS, LATENCY, RTT_MIN, RTT_MAX, RTT_MDEV)

    def __post_init__(self) -> None:
        tool.validate(self.ping)

    @property
    def name(self) -> str:
        return f"ping-c{self.ping.count}-i{self.ping.interval_s:g}-s{self.ping.size}"

    @property
    def seconds(self) -> float:
        return self.ping.seconds

    def once(self, link: Link, watch: Watch | None) -> Sample:
        found, text = ping_peer(link, self.ping, watch)
        seen = found.loss, found.mean_s, found.min_s, found.max_s, found.mdev_s
        values = {one.name: value for one, value in zip(self.figures, seen, strict=True) if value is not None}
        return Sample(values, text, tool="ping")
