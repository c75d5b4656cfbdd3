"""Transactions: how often for each second a small request is answered before the next one is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.messages import Messages
from pytest_pinet.model.figures import TRANSACTIONS, Sample
from pytest_pinet.traffic import sockperf
from pytest_pinet.traffic.tool import Watch

# The payload of the largest IPv4 datagram.
LARGEST = 65_507


@dataclass(frozen=True)
class Transactions(Messages):
    """Requests from the device under test, answered by its peer, over one connection."""

    udp: bool = False

    figures: ClassVar = (TRANSACTIONS,)

    def __post_init__(self) -> None:
        self.check(LARGEST)

    @property
    def name(self) -> str:
        return f"transactions-sockperf-{'udp' if self.udp else 'tcp'}-s{self.size}"

    def once(self, link: Link, watch: Watch | None) -> Sample:
        rate, raw, version = self.ask(link, watch, sockperf.PING_PONG, self.udp, sockperf.transactions)
        return Sample({TRANSACTIONS.name: rate}, raw, tool=version)
