"""The traffic of an exact boot, in fixed amounts, and its results as the traffic program gives them."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.traffic import Direction

PKTGEN, SENDER, TCP, REQUEST = "pktgen", "sender", "tcp", "request"


@dataclass(frozen=True)
class Amount:
    """One fixed amount of traffic: ``count`` frames of ``octets``, ``octets`` over TCP, or ``count`` requests."""

    traffic: str
    direction: Direction
    octets: int
    count: int = 0

    def command(self, sender: str) -> str:
        """Return the line of the script. ``sender`` sends frames: pktgen, or our own sender."""
        words = [sender if self.traffic == PKTGEN else self.traffic, str(self.direction), str(self.octets)]
        return " ".join([*words, str(self.count)] if self.count else words)


# pktgen counts frames without the frame check sequence: 60 is the smallest, 1514 the largest.
AMOUNTS = (
    *(Amount(PKTGEN, direction, size, 5000) for size in (60, 1514) for direction in (Direction.TX, Direction.RX)),
    *(Amount(TCP, direction, 4_000_000) for direction in (Direction.TX, Direction.RX)),
    Amount(REQUEST, Direction.TX, 64, 500),
)
