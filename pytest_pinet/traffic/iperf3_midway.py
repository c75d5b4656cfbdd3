"""One question to the sending ends in the middle of the traffic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.evidence.sockets import read_sockets
from pytest_pinet.model.sockets import Sockets
from pytest_pinet.model.traffic import Direction
from pytest_pinet.shell import Shell
from pytest_pinet.traffic.iperf3_watch import Watch


@dataclass
class Midway:
    """Reads the sockets of each flow's sender once, when half of the traffic is over; ``look`` is called all the time.

    ``senders`` by the direction of their flow. A run that ends earlier leaves ``found`` empty.
    """

    senders: Mapping[Direction, Shell]
    port: int
    streams: int
    seconds: float
    watch: Watch | None = None
    found: dict[Direction, Sockets] = field(default_factory=dict)
    _begun: float | None = None
    _done: bool = False

    def look(self) -> None:
        """Pass the caller's watch on, and ask when it is time."""
        if self.watch is not None:
            self.watch()
        now = time.monotonic()
        if self._begun is None:
            self._begun = now
        if self._done or now < self._begun + self.seconds / 2:
            return
        self._done = True
        for way, shell in self.senders.items():
            sockets = read_sockets(shell, self.port, self.streams)
            if sockets is not None:
                self.found[way] = sockets
