"""The traffic of an exact boot, in fixed amounts, and its results as the traffic program gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.model.exact import ExactWindow
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


# Each amount is sent so often in a boot, and the middle one counts. With full load, a driver and the kernel's softirqs
# may fall into another rhythm for some thousand packets (e1000e: 64 packets a poll instead of one, +60 % packets per
# second), which one window of three does not decide.
TURNS = 3
# pktgen counts frames without the frame check sequence: 60 is the smallest, 1514 the largest.
AMOUNTS = (
    *(Amount(PKTGEN, direction, size, 2500) for size in (60, 1514) for direction in (Direction.TX, Direction.RX)),
    *(Amount(TCP, direction, 3_000_000) for direction in (Direction.TX, Direction.RX)),
    Amount(REQUEST, Direction.TX, 64, 300),
)


def middle_turns(windows: Sequence[ExactWindow]) -> tuple[ExactWindow, ...]:
    """Return of the turns of each amount the one with the middle time, in the order of the first turns."""
    turns: dict[str, list[ExactWindow]] = {}
    for window in windows:
        turns.setdefault(window.name, []).append(window)
    return tuple(sorted(own, key=lambda window: window.virtual_ns)[len(own) // 2] for own in turns.values())
