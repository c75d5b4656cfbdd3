"""What the host does to the NIC under test, each at an exact instruction: the plugin stops the guest meanwhile."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import count

from pytest_pinet.errors import LabError
from pytest_pinet.exact.board import SLOT_NIC, ExactBoard, properties
from pytest_pinet.exact.traffic import FAULTS, Amount
from pytest_pinet.model.exact import BATCH, LINK, REPLUG
from pytest_pinet.model.traffic import Direction

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
        """Close all four sockets."""
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
                self._tell_model(event)
            else:
                self._tell_qemu(event)
        except (OSError, StopIteration):
            raise LabError(f"QEMU did not answer when the host did the event '{event}'") from None
        self.guest.send(b"\n")

    def _tell_model(self, event: Event) -> None:
        self._monitor.sendall(f"{event}\n".encode())
        if (answer := next(self._answers).decode()) != "ok":
            raise LabError(f"the device model of {self._board.name} refused '{event}': {answer}")

    def _tell_qemu(self, event: Event) -> None:
        if not self._connected:
            self._call("qmp_capabilities")
            self._connected = True
        self._call_for(event)
        # What QEMU put off until after its answer is done before the next one.
        self._call("query-status")

    def _call_for(self, event: Event) -> None:
        if event in (Event.LINK_OFF, Event.LINK_ON):
            self._call("set_link", name=self._nic, up=event is Event.LINK_ON)
        elif event is Event.UNPLUG:
            self._call("device_del", id=self._nic)
        else:
            # QEMU may still know the id of the NIC that was unplugged.
            self._nic = f"{SLOT_NIC}{next(self._ids)}"
            own = {name: _typed(value) for name, value in properties(self._board, 0).items()}
            self._call("device_add", driver=self._board.nic.device, **{**own, "id": self._nic})

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
