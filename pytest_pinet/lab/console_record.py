"""The record of one serial console: each line with its time, in a file and for a while in memory, and what it tells.

Fed by the thread that reads the line, asked by the one that runs tests.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.kernel_log import Kind, plain_line, recognise

KEPT_LINES = 2000
# An excerpt is 50 lines: these, the line itself, and those after it.
LINES_BEFORE = 25
LINES_AFTER = 24
# A console of 115200 baud takes 0.2 s for what comes after; one that hangs says nothing more.
SETTLE_S = 1.5
QUIET_S = 0.3
# Noise of a wrong baud rate has no line ends.
LONGEST_LINE = 4096
_STAMP_BLANKS = re.compile(r"\[ +(?=\d)")


@dataclass(frozen=True)
class Line:
    """One line and when its end came; ``number`` counts all lines of this console from 1."""

    number: int
    time: datetime
    text: str

    def __str__(self) -> str:
        return f"{clock(self.time)} {self.text}"


@dataclass(frozen=True)
class Finding:
    """A line that says something of the kernel of a node."""

    kind: Kind
    node: str
    line: Line

    def __str__(self) -> str:
        # "[    2.716043]" without its blanks, at which a message would be wrapped.
        return f"at {clock(self.line.time)}: {_STAMP_BLANKS.sub('[', self.line.text.strip())}"


def clock(when: datetime) -> str:
    """A time as records and messages show it: ISO 8601, UTC, milliseconds."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ConsoleRecord:
    """What the console of ``node`` printed; ``now`` is the wall clock."""

    def __init__(self, node: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.node = node
        # Called from the reading thread, with every finding; must be quick.
        self.on_finding: Callable[[Finding], None] = lambda _: None
        self.trouble: str | None = None
        self._now = now
        self._lock = threading.Lock()
        self._lines: deque[Line] = deque(maxlen=KEPT_LINES)
        self._findings: list[Finding] = []
        self._under_voltage: Finding | None = None
        self._partial = b""
        self._number = 0
        self._last_data = time.monotonic()
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._open = False

    def keep_in(self, path: Path | None) -> None:
        """Append from now on to this file, whose folder is made; None keeps the lines in memory only."""
        with self._lock:
            self._close()
            self._path = path

    # -- what comes in --------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take in what the line delivered."""
        with self._lock:
            self._last_data = time.monotonic()
            *complete, self._partial = (self._partial + data).split(b"\n")
            for raw in complete:
                self._add(plain_line(raw))
            while len(self._partial) > LONGEST_LINE:
                self._add(plain_line(self._partial[:LONGEST_LINE]))
                self._partial = self._partial[LONGEST_LINE:]

    def idle(self) -> None:
        """Nothing came for a moment: a kernel that died in the middle of a line ends it never."""
        with self._lock:
            if self._partial and time.monotonic() - self._last_data > QUIET_S and recognise(plain_line(self._partial)):
                self._end_line()

    def note(self, text: str) -> None:
        """Add a line of our own: what was done to the node, so that a reader finds the boot that it caused."""
        with self._lock:
            self._end_line()
            self._add(f"-- {text}", ours=True)

    def begin(self) -> None:
        """The console was opened; the file stays open until ``end``."""
        self._open = True
        self.note("console open")

    def end(self) -> None:
        """The console was closed."""
        self._open = False
        self.note("console closed")

    def _end_line(self) -> None:
        if self._partial:
            raw, self._partial = self._partial, b""
            self._add(plain_line(raw))

    def _add(self, text: str, ours: bool = False) -> None:
        self._number += 1
        line = Line(self._number, self._now(), text)
        self._lines.append(line)
        self._write(line)
        kind = None if ours else recognise(text)
        if kind is None:
            return
        finding = Finding(kind, self.node, line)
        if kind is Kind.VOLTAGE_NORMAL:
            self._under_voltage = None
            return
        if kind is Kind.UNDER_VOLTAGE:
            self._under_voltage = finding
        self._findings.append(finding)
        self.on_finding(finding)

    def _write(self, line: Line) -> None:
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
            # A full disk must not end the reading.
            self.trouble = f"the console of {self.node} is not recorded any more: {error}"
            self._path = None
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    # -- what it tells --------------------------------------------------------------------------------------------

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found and not yet taken, oldest first. Cheap: asked many times a second."""
        return tuple(self._findings)

    def take(self, kinds: Iterable[Kind] = tuple(Kind)) -> list[Finding]:
        """Those of ``findings`` of these kinds, which are then gone."""
        wanted = set(kinds)
        with self._lock:
            taken = [finding for finding in self._findings if finding.kind in wanted]
            self._findings = [finding for finding in self._findings if finding.kind not in wanted]
        return taken

    @property
    def under_voltage(self) -> Finding | None:
        """The under-voltage that lasts, or None when the kernel reported none, or its end."""
        return self._under_voltage

    def restarted(self) -> None:
        """The node lost its power: what its last kernel reported of the supply is over."""
        with self._lock:
            self._under_voltage = None

    def excerpt(self, finding: Finding) -> str:
        """The 50 lines around a finding, as far as they came; waits up to SETTLE_S while more are coming."""
        Deadline(SETTLE_S).wait_until(lambda: self._is_complete(finding))
        number = finding.line.number
        with self._lock:
            self._end_line()
            near = [line for line in self._lines if number - LINES_BEFORE <= line.number <= number + LINES_AFTER]
        return "\n".join(map(str, near))

    def _is_complete(self, finding: Finding) -> bool:
        with self._lock:
            enough = self._number >= finding.line.number + LINES_AFTER
            return enough or time.monotonic() - self._last_data > QUIET_S

    def tail(self, count: int = LINES_BEFORE + LINES_AFTER + 1) -> str:
        """The last lines."""
        with self._lock:
            return "\n".join(str(line) for line in list(self._lines)[-count:])
