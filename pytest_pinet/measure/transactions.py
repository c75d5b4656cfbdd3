"""Transactions: how often for each second a small request is answered before the next one is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import Probe
from pytest_pinet.measure.link_result import tool_of_end
from pytest_pinet.model.figures import TRANSACTIONS, Sample
from pytest_pinet.traffic import sockperf
from pytest_pinet.traffic.tool import Watch, check_whole

SECONDS = (1, 3600)
# The smallest message has a header of sockperf; the largest is the payload of an IPv4 datagram.
SIZE = (14, 65_507)


@dataclass(frozen=True)
class Transactions(Probe):
    """Requests of ``size`` bytes from the device under test, answered by its peer, over one connection."""

    seconds: int = 5
    size: int = 64
    udp: bool = False

    figures: ClassVar = (TRANSACTIONS,)

    def __post_init__(self) -> None:
        check_whole("duration", self.seconds, *SECONDS)
        check_whole("size", self.size, *SIZE)

    @property
    def name(self) -> str:
        return f"transactions-sockperf-{'udp' if self.udp else 'tcp'}-s{self.size}"

    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Measure once. Raises LabError."""
        client, server = (tool_of_end(end, "sockperf") for end in (link.dut, link.peer))
        own, address = link.dut.ip, link.peer.ip
        rate, raw = sockperf.ask(
            server,
            client,
            lambda port: (
                sockperf.server_argv(address, port, self.udp),
                sockperf.ping_pong_argv(own, address, port, self.seconds, self.size, self.udp),
            ),
            self.seconds,
            watch,
            self.udp,
            sockperf.transactions,
            self.setup.family,
        )
        return Sample({TRANSACTIONS.name: rate}, raw, tool=client.version)
