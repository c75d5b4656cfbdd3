"""What the traffic program sends, and what the host does to the NIC meanwhile: the plugin stops the guest."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count

from pytest_pinet.emulated.machine import INSTRUCTION_SHIFT
from pytest_pinet.errors import LabError
from pytest_pinet.exact.board import SLOT_NIC, ExactBoard, properties
from pytest_pinet.execution.grouping import grouped
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
    # A timer of the kernel meets some of these. Of three turns, unchanged builds differed by up to 14 %.
    *(Amount(event, Direction.TX, 64, 1, 15) for event in (DOWN_UP, LINK)),
    Amount(REPLUG, Direction.TX, 64, 1, 3),
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
    turns = grouped((f"{window.traffic} {window.octets} {window.direction}", window) for window in windows)
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


# QEMU answers within milliseconds, unless the machine is very busy.
ANSWER_S = 60.0


class Event(StrEnum):
    """One event. A device model knows it by this name; for a NIC of QEMU it is a command of QMP, QEMU's monitor."""

    LINK_OFF = "link off"
    LINK_ON = "link on"
    UNPLUG = "unplug"
    PLUG_IN = "plug in"
    HOLD = "hold frames"
    RELEASE = "release frames"
    FAULT_CHECKSUM = "fault checksum"
    FAULT_PADDING = "fault padding"
    FAULT_OVERRUN = "fault overrun"
    FAULT_SHORT = "fault short"
    FAULT_STALL = "fault stall"
    FAULT_NONE = "fault none"


EVENTS_OF = {LINK: (Event.LINK_OFF, Event.LINK_ON), REPLUG: (Event.UNPLUG, Event.PLUG_IN)}


def events_of(amount: Amount) -> tuple[Event, ...]:
    """Return what the host does during an amount of traffic, in all its turns."""
    if amount.traffic in FAULTS:
        each: tuple[Event, ...] = (Event(amount.traffic.replace("-", " ")), Event.FAULT_NONE)
    elif amount.traffic == BATCH and amount.direction is Direction.RX:
        each = (Event.HOLD, Event.RELEASE) * amount.count
    else:
        each = EVENTS_OF.get(amount.traffic, ())
    return each * amount.turns


class Events:
    """Does the events of one boot, each when the guest waits for it. Ends of two socket pairs belong to QEMU."""

    def __init__(self, board: ExactBoard, events: Sequence[Event]) -> None:
        self._board = board
        self._has_any = bool(events)
        self._events = iter(events)
        self._ids = count(1)
        self._nic = SLOT_NIC
        # QMP, or the control socket of a device model.
        self._monitor, self._monitor_of_qemu = socket.socketpair()
        self.guest, self._plugin = socket.socketpair()
        self._monitor.settimeout(ANSWER_S)
        self._answers = self._lines()
        self._connected = False

    @property
    def arguments(self) -> list[str]:
        """QEMU's arguments."""
        monitor = f"socket,id=events,fd={self._monitor_of_qemu.fileno()}"
        by_qmp = self._has_any and self._board.nic.model is None
        return ["-chardev", monitor, "-mon", "events,mode=control"] if by_qmp else []

    @property
    def plugin_words(self) -> str:
        """The arguments of the plugin, with a comma before each."""
        return f",hold={self._plugin.fileno()}" if self._has_any else ""

    @property
    def model_words(self) -> str:
        """The arguments of a device model, with a comma before each."""
        return f",control={self._monitor_of_qemu.fileno()}" if self._has_any else ""

    @property
    def inherited(self) -> tuple[int, int]:
        """The descriptors that QEMU inherits."""
        return self._monitor_of_qemu.fileno(), self._plugin.fileno()

    def close(self) -> None:
        for one in (self._monitor, self._monitor_of_qemu, self.guest, self._plugin):
            one.close()

    def do_next(self) -> None:
        """Do the next event and let the guest continue. Raises LabError."""
        self.guest.recv(1)
        event = next(self._events, None)
        if event is None:
            raise LabError("the guest waits for an event that its script does not have")
        try:
            if self._board.nic.model is not None:
                self._monitor.sendall(f"{event}\n".encode())
                if (answer := next(self._answers).decode()) != "ok":
                    raise LabError(f"the device model of {self._board.name} refused '{event}': {answer}")
            else:
                self._tell_qemu(event)
        except (OSError, StopIteration):
            raise LabError(f"QEMU did not answer when the host did the event '{event}'") from None
        self.guest.send(b"\n")

    def _tell_qemu(self, event: Event) -> None:
        if not self._connected:
            self._call("qmp_capabilities")
            self._connected = True
        if event in (Event.LINK_OFF, Event.LINK_ON):
            self._call("set_link", name=self._nic, up=event is Event.LINK_ON)
        elif event is Event.UNPLUG:
            self._call("device_del", id=self._nic)
        else:
            # QEMU may still know the id of the NIC that was unplugged.
            self._nic = f"{SLOT_NIC}{next(self._ids)}"
            own = {name: _typed(value) for name, value in properties(self._board, 0).items()}
            self._call("device_add", driver=self._board.nic.device, **{**own, "id": self._nic})
        # What QEMU put off until after its answer is done before the next one.
        self._call("query-status")

    def _call(self, command: str, **arguments: object) -> None:
        """Call a command of QMP and wait for its answer. Raises LabError if QEMU refuses."""
        self._monitor.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = json.loads(next(self._answers))
            if "error" in answer:
                raise LabError(f"QEMU refused {command}: {answer['error'].get('desc', answer['error'])}")
            if "return" in answer:
                return

    def _lines(self) -> Iterator[bytes]:
        text = b""
        while data := self._monitor.recv(65536):
            *lines, text = (text + data).split(b"\n")
            yield from filter(bytes.strip, lines)


def _typed(value: str) -> object:
    """Return a property as QMP wants it: numbers and truth values are no text."""
    if value in ("on", "off"):
        return value == "on"
    return int(value) if value.isdecimal() else value
