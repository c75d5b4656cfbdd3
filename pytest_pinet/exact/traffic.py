"""The traffic of an exact boot, in fixed amounts, and its results as the traffic program gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.emulated.machine import INSTRUCTION_SHIFT
from pytest_pinet.exact.board import ExactBoard
from pytest_pinet.model.exact import (
    BATCH,
    DOWN_UP,
    FAULT,
    FRAME,
    LINK,
    MULTICAST,
    REPLUG,
    USER,
    VLAN,
    ExactWindow,
    Function,
    is_one_by_one,
)
from pytest_pinet.model.traffic import Direction

PKTGEN, SENDER, TCP, REQUEST, BULK = "pktgen", "sender", "tcp", "request", "bulk"
# As in devices/cable.h.
FAULTS = tuple(f"{FAULT}{name}" for name in ("checksum", "padding", "overrun", "short", "stall"))


@dataclass(frozen=True)
class Amount:
    """One fixed amount of traffic: ``count`` frames of ``octets``, ``octets`` over TCP, or ``count`` requests.

    Frames of FRAME, VLAN, MULTICAST and FAULTS come one by one, to an idle driver; PKTGEN frames come as fast as they
    can be sent. Of BATCH, ``count`` times 32 frames come at once. LINK, REPLUG and DOWN_UP are one
    ping, from the moment at which the link is switched on again, the NIC is plugged in again, or the guest closes the
    NIC to open it again.

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
    *(Amount(FRAME, direction, size, 256, 3) for size in (60, 1514) for direction in (Direction.TX, Direction.RX)),
    *(Amount(PKTGEN, direction, size, 2500, 3) for size in (60, 1514) for direction in (Direction.TX, Direction.RX)),
    *(Amount(TCP, direction, 1_000_000, 0, 9) for direction in (Direction.TX, Direction.RX)),
    Amount(REQUEST, Direction.TX, 64, 64, 3),
    Amount(BULK, Direction.TX, 16384, 16, 3),
)
# What only some boards measure, if their NIC has it in ``windows``. The bulk traffic and the events after a fault show
# that the NIC works again.
MORE = (
    *(Amount(BATCH, direction, 1514, 6, 3) for direction in (Direction.TX, Direction.RX)),
    *(Amount(VLAN, direction, 60, 64, 3) for direction in (Direction.TX, Direction.RX)),
    Amount(MULTICAST, Direction.RX, 60, 8, 3),
    # Shorter frames than the shortest on the cable get padding. Their odd number of octets was once a trap
    # ("hw csum failure" of 4.14.71 to 4.19 on a Raspberry Pi 3; docs/explanation/exact.md).
    *(Amount(fault, Direction.RX, 47, 64, 3) for fault in FAULTS),
    *(Amount(event, Direction.TX, 64, 1, 3) for event in (DOWN_UP, LINK, REPLUG)),
)


def amounts_of(board: ExactBoard, qemu: Sequence[int]) -> tuple[Amount, ...]:
    """Return what a board measures with this version of QEMU."""
    if board.machine.slot:
        windows = (LINK, REPLUG) if tuple(qemu) >= board.nic.link else (REPLUG,)
        return tuple(amount for amount in MORE if amount.traffic in windows)
    every = (*AMOUNTS, *(amount for amount in MORE if amount.traffic in board.nic.windows))
    # Single frames come before all traffic whose number of frames another binary can change: then each of them uses the
    # same entry of the driver's ring in every build. At the end of a ring, or with two entries a frame (igc with a
    # VLAN), a driver executes some instructions more.
    return tuple(sorted(every, key=lambda amount: not is_one_by_one(f"{amount.traffic}-")))


def joined_turns(windows: Sequence[ExactWindow]) -> tuple[ExactWindow, ...]:
    """Return one window for each amount, in the order of the first turns.

    Of single frames, batches, requests and events, each function has its middle count of all turns: a timer of a driver
    or of the kernel (e1000e reads its counters every two seconds) meets one turn of three, or none. The traffic
    program's own instructions do not count, because it waits between frames.

    Of frames at full load, the turn with the middle time counts: a driver and the kernel's softirqs may fall into
    another rhythm for some thousand packets (e1000e: 64 packets a poll instead of one, +60 % packets per second), and
    one turn of three must not decide. Connections are added up: acknowledgements and interrupts meet other packets in
    each of them, so that one connection of several megabytes differs from the next by up to 12 %.
    """
    turns: dict[str, list[ExactWindow]] = {}
    for window in windows:
        turns.setdefault(f"{window.traffic} {window.octets} {window.direction}", []).append(window)
    joined = {TCP: _sum, **dict.fromkeys((PKTGEN, SENDER), _middle)}
    found = (joined.get(own[0].traffic, _each_middle if own[0].is_timed else _busy)(own) for own in turns.values())
    # Without a count, there is nothing to say about frames one by one.
    return tuple(window for window in found if window.virtual_ns)


def _middle(turns: Sequence[ExactWindow]) -> ExactWindow:
    return sorted(turns, key=lambda window: window.virtual_ns)[len(turns) // 2]


def _busy(turns: Sequence[ExactWindow]) -> ExactWindow:
    """Return the middle counts. The time is that of the instructions, since the program waits after each frame."""
    window = _each_middle(turns)
    counted = window.pmu_instructions if window.instructions is None else window.instructions
    return replace(window, virtual_ns=(counted or 0) << INSTRUCTION_SHIFT)


def _each_middle(turns: Sequence[ExactWindow]) -> ExactWindow:
    every = {function for window in turns for function in window.functions if function.name != USER}
    middle = {function: _median([window.functions.get(function, 0) for window in turns]) for function in every}
    functions = {function: count for function, count in middle.items() if count}
    counted = [window.pmu_instructions for window in turns if window.pmu_instructions is not None]
    return replace(
        turns[0],
        packets=_median([window.packets for window in turns]),
        virtual_ns=_median([window.virtual_ns for window in turns]),
        instructions=sum(functions.values()) if turns[0].instructions is not None else None,
        functions=functions,
        pmu_instructions=_median(counted) if counted else None,
    )


def _median(counts: Sequence[int]) -> int:
    return sorted(counts)[len(counts) // 2]


def _sum(turns: Sequence[ExactWindow]) -> ExactWindow:
    first = turns[0]
    functions: Counter[Function] = Counter()
    for window in turns:
        functions.update(window.functions)
    return replace(
        first,
        octets=first.octets * len(turns),
        packets=sum(window.packets for window in turns),
        virtual_ns=sum(window.virtual_ns for window in turns),
        instructions=_sum_known([window.instructions for window in turns]),
        functions=dict(functions),
        pmu_instructions=_sum_known([window.pmu_instructions for window in turns]),
    )


def _sum_known(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count for count in counts if count is not None)
