"""The traffic of an exact boot, in fixed amounts, and its results as the traffic program gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.model.exact import ExactWindow, Function
from pytest_pinet.model.traffic import Direction

PKTGEN, SENDER, TCP, REQUEST = "pktgen", "sender", "tcp", "request"


@dataclass(frozen=True)
class Amount:
    """One fixed amount of traffic: ``count`` frames of ``octets``, ``octets`` over TCP, or ``count`` requests.

    It is sent ``turns`` times.
    """

    traffic: str
    direction: Direction
    octets: int
    count: int
    turns: int

    def command(self, sender: str) -> str:
        """Return the line of the script. ``sender`` sends frames: pktgen, or our own sender."""
        words = [sender if self.traffic == PKTGEN else self.traffic, str(self.direction), str(self.octets)]
        return " ".join([*words, str(self.count)] if self.count else words)


# pktgen counts frames without the frame check sequence: 60 is the smallest, 1514 the largest.
AMOUNTS = (
    *(Amount(PKTGEN, direction, size, 2500, 3) for size in (60, 1514) for direction in (Direction.TX, Direction.RX)),
    *(Amount(TCP, direction, 1_000_000, 0, 9) for direction in (Direction.TX, Direction.RX)),
    Amount(REQUEST, Direction.TX, 64, 300, 3),
)


def joined_turns(windows: Sequence[ExactWindow]) -> tuple[ExactWindow, ...]:
    """Return one window for each amount, in the order of the first turns.

    Of frames, the turn with the middle time counts: with full load, a driver and the kernel's softirqs may fall into
    another rhythm for some thousand packets (e1000e: 64 packets a poll instead of one, +60 % packets per second), and
    one turn of three must not decide. Connections are added up: acknowledgements and interrupts meet other packets in
    each of them, so that one connection of several megabytes differs from the next by up to 12 %.
    """
    turns: dict[str, list[ExactWindow]] = {}
    for window in windows:
        turns.setdefault(f"{window.traffic} {window.octets} {window.direction}", []).append(window)
    return tuple(_sum(own) if own[0].traffic in (TCP, REQUEST) else _middle(own) for own in turns.values())


def _middle(turns: Sequence[ExactWindow]) -> ExactWindow:
    return sorted(turns, key=lambda window: window.virtual_ns)[len(turns) // 2]


def _sum(turns: Sequence[ExactWindow]) -> ExactWindow:
    first = turns[0]
    functions: Counter[Function] = Counter()
    for window in turns:
        functions.update(window.functions)
    return replace(
        first,
        octets=first.octets * len(turns) if first.traffic == TCP else first.octets,
        packets=sum(window.packets for window in turns),
        virtual_ns=sum(window.virtual_ns for window in turns),
        instructions=_sum_known([window.instructions for window in turns]),
        functions=dict(functions),
        pmu_instructions=_sum_known([window.pmu_instructions for window in turns]),
    )


def _sum_known(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count for count in counts if count is not None)
