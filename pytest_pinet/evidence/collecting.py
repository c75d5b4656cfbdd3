"""Reads all sources at all ends right before and right after traffic, with one remote command per end and reading.

Nothing here raises an error of an end: missing evidence stays missing, and the traffic tool reports an end that is
lost.

Each connection costs two remote commands at each end. A measurement has a time budget for these readings. When the
budget is spent, further connections are not read separately: one reading at the end covers all of them together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeVar

from pytest_pinet.errors import LabError
from pytest_pinet.evidence.node_state import COMMAND as HEAT
from pytest_pinet.evidence.node_state import KernelMessages, Processors, Thermals, last_stamp, parse_temperature, uptime
from pytest_pinet.evidence.other_work import OtherPrograms, ThisMachine
from pytest_pinet.evidence.sources import EvidenceSource, Texts, installed_sources
from pytest_pinet.execution.shell import Shell
from pytest_pinet.execution.undo import at_once
from pytest_pinet.model.evidence import EndEvidence

T = TypeVar("T")
MARK = "@@pinet "
# A node that is busy with traffic answers late. Other code reports a node that does not answer.
ANSWER_S = 5.0
HALF = 0.5
# Time budget (s) for all readings of one measurement. The first connection is always read.
ALLOWED_S = 0.3
# Used if the first reading is missing: no kernel message counts as new.
NEVER = float("inf")


def sources() -> tuple[EvidenceSource, ...]:
    """Return all sources in reading order: the installed ones, and last the other programs.

    These are no entry point: what is ours on an end is known only here.
    """
    return (*installed_sources(), OtherPrograms())


def script(device: str, since: float | None = None) -> str:
    """Return the shell command for one reading: before traffic, or with ``since`` after traffic.

    ``since`` is the time stamp at which the kernel's log ended before traffic.
    """
    first = since is None
    ordered = sources()[:: -1 if first else 1]
    moment = "" if since in (None, NEVER) else f"{since:.6f}"
    # One process reads all files. It runs nearest to the traffic.
    files = " ".join(name for source in ordered for name in source.files(device))
    reading = [f"echo '{MARK}'", f"grep -H '' {files} 2>/dev/null"] if files else []
    others = []
    for source in ordered:
        if command := source.command(device):
            others += [f"echo '{MARK}{source.name}'", f"{{ {command}; }} 2>/dev/null"]
    lines = [*others, *reading] if first else [*reading, *others]
    # The exit status of the last command is ignored.
    return "\n".join([f"since={moment}", "PATH=$PATH:/usr/sbin:/sbin", *lines, ":"])


def sections(text: str, device: str) -> dict[str, str]:
    """Return the output of each source by the source's name."""
    found: dict[str, list[str]] = {}
    files = [(name, source.name) for source in sources() for name in source.files(device)]
    patterns = [*files, *((name.partition("*")[0] + "*", source) for name, source in files)]
    owners: dict[str, str] = {}
    owner: str | None = None
    for line in text.splitlines():
        if line.startswith(MARK):
            owner = line.removeprefix(MARK)
        elif owner:
            found.setdefault(owner, []).append(line)
        elif owner is not None:
            path, _, rest = line.partition(":")
            if path not in owners:
                # The path of a device that the firmware describes contains a colon.
                owners[path] = next((name for pattern, name in patterns if fnmatchcase(path, pattern)), "")
            found.setdefault(owners[path], []).append(rest if path.startswith("/proc/") else line)
    found.pop("", None)
    return {name: "\n".join(lines) for name, lines in found.items()}


class EndReader:
    """Reads the evidence of one end. ``end`` is the end's name in reports."""

    def __init__(self, shell: Shell, device: str, end: str) -> None:
        self._shell = shell
        self._device = device
        self._end = end
        self._before: Mapping[str, str] = {}
        self._after: Mapping[str, str] = {}
        self._since = NEVER
        self._half = ""
        self._kept: dict[str, list[str]] = {}

    def before(self, number: int) -> None:
        """Read the sources right before the traffic of a connection."""
        self._half = ""
        self._before = self._read(number, "before", None)
        since = last_stamp(self._before.get(KernelMessages.name, ""))
        if since is None:
            since = uptime(self._before.get(Processors.name, ""))
        self._since = NEVER if since is None else since

    def pass_over(self) -> None:
        """Note that this connection is not read separately."""
        self._half = ""

    def half_way(self, number: int) -> None:
        """Read the CPU clock under load, if this end reports CPU clocks."""
        if self._before.get(Thermals.name):
            self._half = self._ask(HEAT)
            self._keep(Thermals.name, number, "during", self._half)

    def after(self, number: int, traffic_s: float) -> EndEvidence:
        """Read the sources right after the traffic of a connection, and return the differences."""
        return self._differences(self._before, number, traffic_s)

    def passed(self, traffic_s: float) -> EndEvidence:
        """Return the evidence of a connection that is not read separately: only the reading taken in mid-traffic."""
        return EndEvidence(self._end, self._device, traffic_s=traffic_s, under_load=parse_temperature(self._half))

    def rest(self, first: int, number: int, traffic_s: float) -> EndEvidence:
        """Read the sources after the last connection that was not read separately.

        Returns the differences over all these connections, from connection ``first`` on.
        """
        since = last_stamp(self._after.get(KernelMessages.name, ""))
        self._since = self._since if since is None else since
        found = self._differences(self._after, number, traffic_s)
        # The CPU times include our own work between the connections, so they are left out.
        return replace(found, processors=None, first_connection=first)

    def _differences(self, before: Mapping[str, str], number: int, traffic_s: float) -> EndEvidence:
        self._after = self._read(number, "after", self._since)
        found = EndEvidence(self._end, self._device, traffic_s=traffic_s, under_load=parse_temperature(self._half))
        for source in sources():
            found = source.add(found, Texts(before.get(source.name, ""), self._after.get(source.name, "")))
        return replace(found, restarted=tuple(dict.fromkeys(found.restarted)))

    def _read(self, number: int, moment: str, since: float | None) -> Mapping[str, str]:
        found = sections(self._ask(script(self._device, since)), self._device)
        for name, text in found.items():
            self._keep(name, number, moment, text)
        return found

    def _ask(self, command: str) -> str:
        try:
            return self._shell.run(command, timeout_s=ANSWER_S).stdout
        except LabError:
            return ""

    def _keep(self, name: str, number: int, moment: str, text: str) -> None:
        if text:
            title = f"# {moment} try {number}, {datetime.now(UTC):%H:%M:%S.%f} UTC"
            self._kept.setdefault(name, []).append(f"{title}\n{text}\n")

    @property
    def raw(self) -> dict[str, str]:
        """Return all text that was read, by source."""
        return {name: "\n".join(texts) for name, texts in self._kept.items()}


class Collector:
    """Reads all ends of a link, connection by connection. ``spent_s`` is the time that the readings have taken."""

    def __init__(self, ends: Sequence[EndReader], allowed_s: float = ALLOWED_S) -> None:
        self.spent_s = 0.0
        self._ends = ends
        self._allowed_s = allowed_s
        self._read = 0
        self._passed_from: int | None = None
        self._number = 0
        self._looks = LooksDuring([partial(self._half_way, end) for end in ends])
        self._here = ThisMachine()

    def before(self, number: int) -> None:
        """Read all ends right before the traffic of this connection."""
        self._number = number
        # Estimated time with one more pair of readings and the reading at the end.
        if self._read and self.spent_s * (1 + 1.5 / self._read) > self._allowed_s:
            self._passed_from = self._passed_from or number
            for end in self._ends:
                end.pass_over()
        else:
            self._here.before()
            self._timed(lambda end: end.before(number))

    def _half_way(self, end: EndReader) -> None:
        end.half_way(self._number)

    def watching(self, watch: Callable[[], None] | None, traffic_s: float) -> Callable[[], None]:
        """Return a function to call throughout the traffic. It calls ``watch``, and reads all ends in mid-traffic."""
        return self._looks.watching(watch, HALF * traffic_s)

    def after(self, traffic_s: float) -> tuple[EndEvidence, ...]:
        """Read all ends right after the traffic, which took ``traffic_s``, and return the differences at each end."""
        self._looks.join(ANSWER_S)
        number = self._number
        if self._passed_from is not None:
            return tuple(end.passed(traffic_s) for end in self._ends)
        found = self._timed(lambda end: end.after(number, traffic_s))
        self._read += 1
        return self._here.added(found)

    def rest(self, traffic_s: float) -> tuple[EndEvidence, ...]:
        """Read all ends after the last connection, which took ``traffic_s``, if some were not read separately.

        Returns the differences over these connections; empty if every connection was read. The time budget starts again
        afterwards.
        """
        first, number = self._passed_from, self._number
        found = [] if first is None else self._timed(lambda end: end.rest(first, number, traffic_s))
        self._passed_from = None
        self.renew()
        return self._here.added(found)

    def renew(self) -> None:
        """Start the time budget again, so that the next connection is read separately."""
        self._read, self.spent_s = 0, 0.0

    def _timed(self, do: Callable[[EndReader], T]) -> list[T]:
        started = time.monotonic()
        found = at_once(do, self._ends)
        self.spent_s += time.monotonic() - started
        return found

    def raw(self) -> dict[str, str]:
        """Return all text that was read, by file name: the number of the end, and the source."""
        return {f"{index}-{name}.txt": text for index, end in enumerate(self._ends) for name, text in end.raw.items()}


def once_after(after_s: float, start: Callable[[], None], watch: Callable[[], None] | None) -> Callable[[], None]:
    """Return a function to call repeatedly during traffic.

    It calls ``watch`` each time, and ``start`` once: at the first call that is ``after_s`` or more after the first one.
    """
    begun: list[float] = []
    started = False

    def look() -> None:
        nonlocal started
        if watch is not None:
            watch()
        now = time.monotonic()
        if not begun:
            begun.append(now)
        elif not started and now >= begun[0] + after_s:
            started = True
            start()

    return look


class LooksDuring:
    """Calls these ``looks`` once during traffic, each in a thread of its own.

    The thread that waits for the traffic must not wait for the answer of an end. That thread also reports an end that
    is lost, so errors of a look are ignored.
    """

    def __init__(self, looks: Sequence[Callable[[], object]]) -> None:
        self._looks = looks
        self._threads: list[threading.Thread] = []

    def watching(self, watch: Callable[[], None] | None, after_s: float) -> Callable[[], None]:
        """Return a function to call repeatedly during traffic, as ``once_after``."""
        # A connection that failed can leave its threads here.
        self._threads = []
        return once_after(after_s, self._start, watch)

    def _start(self) -> None:
        self._threads = [threading.Thread(target=_quietly, args=(look,), daemon=True) for look in self._looks]
        for thread in self._threads:
            thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the looks that have begun."""
        for thread in self._threads:
            thread.join(timeout_s)


def _quietly(look: Callable[[], object]) -> None:
    with suppress(Exception):
        look()
