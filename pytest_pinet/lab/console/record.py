"""The record of one serial console: its lines with their times, and the kernel events in them.

A file holds all lines; the latest lines are also in memory. The console's reading thread feeds the record. The thread
that runs tests queries it.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from pytest_pinet.execution.deadline import Deadline


class KernelEventKind(StrEnum):
    """The kinds of kernel events, with their names in messages."""

    PANIC = "kernel panic"
    OOPS = "kernel oops"
    HUNG_TASK = "hung task"
    LOCKUP = "CPU lockup"
    RCU_STALL = "RCU stall"
    WATCHDOG = "watchdog timeout"
    NETDEV_WATCHDOG = "NETDEV WATCHDOG"
    RESTART = "restart"
    UNDER_VOLTAGE = "under-voltage"
    VOLTAGE_NORMAL = "voltage normalised"

    @property
    def blames_kernel(self) -> bool:
        """Whether this is a kernel failure. After such an event, the node must not be used for further measurements."""
        return self not in (KernelEventKind.UNDER_VOLTAGE, KernelEventKind.VOLTAGE_NORMAL)


# The leftmost match wins. A lockup, whose line also contains "BUG:", therefore needs its own pattern.
_PATTERNS = (
    # kernel/panic.c. The last line, "---[ end Kernel panic - not syncing: ... ]---", is no second panic.
    (KernelEventKind.PANIC, r"(?<!end )Kernel panic - not syncing"),
    # kernel/watchdog.c, kernel/workqueue.c
    (KernelEventKind.LOCKUP, r"soft lockup - CPU#\d+ stuck|hard LOCKUP|BUG: workqueue lockup"),
    # kernel/rcu/tree_stall.h, tree_exp.h
    (
        KernelEventKind.RCU_STALL,
        r"INFO: rcu_\w+ (?:self-detected stall|detected (?:expedited )?stalls)|rcu_\w+ kthread starved for",
    ),
    # kernel/hung_task.c
    (KernelEventKind.HUNG_TASK, r"INFO: task .+ blocked (?:in I/O wait )?for more than \d+ seconds"),
    # drivers/watchdog/pretimeout_noop.c, softdog.c. Most hardware watchdogs reset without a message: see RESTART.
    (KernelEventKind.WATCHDOG, r"watchdog\d*: pretimeout event|softdog: Initiating (?:system reboot|panic)"),
    # net/sched/sch_generic.c, before and after 6.7
    (KernelEventKind.NETDEV_WATCHDOG, r"NETDEV WATCHDOG: .*transmit queue \d+ timed out"),
    # arch/arm64/mm/fault.c, arch/*/kernel/traps.c, lib/bug.c, and all code that prints "BUG: " at the start of a
    # message
    (
        KernelEventKind.OOPS,
        r"Unable to handle kernel|Internal error: (?:Oops|.*\[#\d+\])|\bOops(?:: .*)? \[#\d+\]|kernel BUG at "
        r"|(?:^|\] |login: )BUG: (?!\w+ lockup)",
    ),
    # arch/arm64/kernel/setup.c, arch/arm/kernel/setup.c: the first line of every boot
    (KernelEventKind.RESTART, r"\[ *0\.000000\](?:\[ *[TC]\d+\])? Booting Linux on physical CPU"),
    # drivers/hwmon/raspberrypi-hwmon.c; drivers/firmware/raspberrypi.c before 4.20
    (KernelEventKind.UNDER_VOLTAGE, r"Under-?voltage detected!|Undervoltage detected!"),
    (KernelEventKind.VOLTAGE_NORMAL, r"Voltage normali[sz]ed"),
)
_ANY = re.compile("|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in _PATTERNS))
# CSI and OSC sequences, other escapes, and characters that a terminal does not show.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")


def recognise(line: str) -> KernelEventKind | None:
    """Return the kernel event in this line (as ``plain_line`` returns it), or None, as for nearly all lines."""
    match = _ANY.search(line)
    return KernelEventKind[match.lastgroup] if match is not None and match.lastgroup else None


def plain_line(raw: bytes) -> str:
    """Return a line without colours, cursor movements and line end, and with a mark for each invalid UTF-8 sequence."""
    return _CONTROL.sub("", raw.decode("utf-8", "replace")).rstrip()


KEPT_LINES = 2000
# An excerpt has 50 lines: the line itself, and these numbers of lines before and after it.
LINES_BEFORE = 25
LINES_AFTER = 24
# At 115200 baud, the following lines take 0.2 s. A node that hangs prints nothing more.
SETTLE_S = 1.5
QUIET_S = 0.3
# Noise of a wrong baud rate has no line ends.
LONGEST_LINE = 4096
_STAMP_BLANKS = re.compile(r"\[ +(?=\d)")


@dataclass(frozen=True)
class ConsoleLine:
    """One line and the time when its end arrived; ``number`` counts all lines of this console from 1."""

    number: int
    time: datetime
    text: str

    def __str__(self) -> str:
        return f"{clock(self.time)} {self.text}"


@dataclass(frozen=True)
class KernelFinding:
    """A line that shows a kernel event of a node."""

    kind: KernelEventKind
    node: str
    line: ConsoleLine

    def __str__(self) -> str:
        # "[    2.716043]" without its blanks, so that a message is not wrapped there.
        return f"at {clock(self.line.time)}: {_STAMP_BLANKS.sub('[', self.line.text.strip())}"


def clock(when: datetime) -> str:
    """Return a time in the format of records and messages: ISO 8601, UTC, milliseconds."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ConsoleRecord:
    """The output of the console of ``node``; ``now`` is the wall clock."""

    def __init__(self, node: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.node = node
        self._on_finding: Callable[[KernelFinding], None] = lambda _: None
        self.trouble: str | None = None
        self._now = now
        self._lock = threading.Lock()
        self._lines: deque[ConsoleLine] = deque(maxlen=KEPT_LINES)
        self._findings: list[KernelFinding] = []
        self._under_voltage: KernelFinding | None = None
        # Whether the kernel panicked since the last boot. Such a kernel does nothing more.
        self.panicked = False
        self._partial = b""
        self._number = 0
        self._last_data = time.monotonic()
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._open = False

    def assign(self, node: str, path: Path | None) -> None:
        """Name the node, and append all further lines to this file, creating its folder (None: only in memory)."""
        with self._lock:
            self._close()
            self.node, self._path = node, path

    # -- input ----------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        with self._lock:
            self._last_data = time.monotonic()
            *complete, self._partial = (self._partial + data).split(b"\n")
            for raw in complete:
                self._add(plain_line(raw))
            while len(self._partial) > LONGEST_LINE:
                self._add(plain_line(self._partial[:LONGEST_LINE]))
                self._partial = self._partial[LONGEST_LINE:]

    def idle(self) -> None:
        """Complete a line that a dying kernel left unfinished, if it shows an event. Called when no data comes."""
        with self._lock:
            if self._partial and time.monotonic() - self._last_data > QUIET_S and recognise(plain_line(self._partial)):
                self._end_line()

    def note(self, text: str) -> None:
        """Add a line about what we did to the node, so that a reader finds the boot that it caused."""
        with self._lock:
            self._end_line()
            self._add(f"-- {text}", ours=True)

    def begin(self) -> None:
        """Note that the console was opened; the file stays open until ``end``."""
        self._open = True
        self.note("console open")

    def lost(self, error: Exception) -> None:
        """Note that the console server went away, or that the port was unplugged."""
        self.trouble = f"the console of {self.node} was lost, and nothing is recorded since then: {error}"
        self.note(f"console lost: {error}")

    def take_trouble(self) -> list[str]:
        """Return why the console is not recorded any more, if it is not; only once."""
        trouble, self.trouble = self.trouble, None
        return [trouble] if trouble is not None else []

    def end(self) -> None:
        self._open = False
        self.note("console closed")

    def _end_line(self) -> None:
        if self._partial:
            raw, self._partial = self._partial, b""
            self._add(plain_line(raw))

    def _add(self, text: str, ours: bool = False) -> None:
        self._number += 1
        line = ConsoleLine(self._number, self._now(), text)
        self._lines.append(line)
        self._write(line)
        kind = None if ours else recognise(text)
        if kind is None:
            return
        finding = KernelFinding(kind, self.node, line)
        if kind is KernelEventKind.VOLTAGE_NORMAL:
            self._under_voltage = None
            return
        if kind is KernelEventKind.UNDER_VOLTAGE:
            self._under_voltage = finding
        if kind in (KernelEventKind.PANIC, KernelEventKind.RESTART):
            self.panicked = kind is KernelEventKind.PANIC
        self._findings.append(finding)
        self._on_finding(finding)

    def _write(self, line: ConsoleLine) -> None:
        if self._path is None:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("ab", buffering=0)
            self._file.write(f"{line}\n".encode("utf-8", "replace"))
            if not self._open:
                self._close()
        except OSError as error:
            # A full disk must not stop the reading of the console.
            self.trouble = f"the console of {self.node} is no longer recorded: {error}"
            self._path = None
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    # -- queries --------------------------------------------------------------------------------------------------

    @property
    def findings(self) -> tuple[KernelFinding, ...]:
        """The findings that were not taken yet, oldest first. Cheap: read many times a second."""
        return tuple(self._findings)

    def take(self, kinds: Iterable[KernelEventKind] = tuple(KernelEventKind), since: int = 0) -> list[KernelFinding]:
        """Remove the findings of these kinds in lines after the line number ``since``, and return them."""
        wanted = set(kinds)
        with self._lock:
            taken = [finding for finding in self._findings if finding.kind in wanted and finding.line.number > since]
            self._findings = [finding for finding in self._findings if finding not in taken]
        return taken

    @property
    def number(self) -> int:
        return self._number

    @property
    def quiet_s(self) -> float:
        return time.monotonic() - self._last_data

    def lines_since(self, number: int) -> list[ConsoleLine]:
        """Return the lines after the line with this number, without our own notes."""
        with self._lock:
            return [line for line in self._lines if line.number > number and not line.text.startswith("-- ")]

    @property
    def under_voltage(self) -> KernelFinding | None:
        """The present under-voltage; None if the kernel reported no under-voltage, or reported its end."""
        return self._under_voltage

    @contextmanager
    def listening(self, on_finding: Callable[[KernelFinding], None]) -> Iterator[None]:
        """Call ``on_finding``, which must be quick, in the reading thread for every finding during the block."""
        self._on_finding = on_finding
        try:
            yield
        finally:
            self._on_finding = lambda _: None

    def forget_panic(self) -> None:
        """Note that another system runs, or will be booted unseen."""
        self.panicked = False

    def restarted(self) -> None:
        """Note that the node lost its power. The kernel's last report of an under-voltage is out of date."""
        with self._lock:
            self._under_voltage = None
            self.panicked = False

    def excerpt(self, finding: KernelFinding) -> str:
        """Return the 50 lines around a finding, as far as they exist; wait up to SETTLE_S while more lines arrive."""
        Deadline(SETTLE_S).wait_until(lambda: self._is_complete(finding))
        number = finding.line.number
        with self._lock:
            self._end_line()
            near = [line for line in self._lines if number - LINES_BEFORE <= line.number <= number + LINES_AFTER]
        return "\n".join(map(str, near))

    def _is_complete(self, finding: KernelFinding) -> bool:
        with self._lock:
            enough = self._number >= finding.line.number + LINES_AFTER
            return enough or time.monotonic() - self._last_data > QUIET_S

    def tail(self, count: int = LINES_BEFORE + LINES_AFTER + 1) -> str:
        with self._lock:
            return "\n".join(str(line) for line in list(self._lines)[-count:])
