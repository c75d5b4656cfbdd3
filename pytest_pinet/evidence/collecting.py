"""Reads all sources of all ends right before and right after traffic, in one remote command for each end and moment.

Nothing here raises what an end does: evidence that is missing is missing, and an end that is gone is told by the
traffic itself.

A try costs two remote commands at each end, and they have to stay cheap: once a measurement has spent what it may, its
further tries are not read one by one. One more reading at the end tells what was counted during all of them together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TypeVar

from pytest_pinet.errors import LabError
from pytest_pinet.evidence.heat import COMMAND as HEAT
from pytest_pinet.evidence.heat import Thermals, parse_heat
from pytest_pinet.evidence.interface_counters import InterfaceCounters
from pytest_pinet.evidence.interrupts import Interrupts
from pytest_pinet.evidence.kernel_messages import KernelMessages, last_stamp
from pytest_pinet.evidence.nic_counters import NicCounters
from pytest_pinet.evidence.processors import Processors, uptime
from pytest_pinet.evidence.softirqs import SoftIrqs
from pytest_pinet.evidence.softnet import Softnet
from pytest_pinet.evidence.sources import Source, Texts
from pytest_pinet.model.evidence import EndEvidence
from pytest_pinet.shell import Shell

T = TypeVar("T")
# In the order in which they are read afterwards, and the other way round before: the load of the CPUs is nearest to the
# traffic, and what reading the rest costs is not in it.
SOURCES: tuple[Source, ...] = (
    Processors(),
    SoftIrqs(),
    Interrupts(),
    Softnet(),
    InterfaceCounters(),
    NicCounters(),
    Thermals(),
    KernelMessages(),
)
MARK = "@@pinet "
# A node that is busy with traffic answers late; one that does not answer is told by others.
ANSWER_S = 5.0
HALF = 0.5
# What all readings of one measurement may take (s); a first try is read however long that takes.
ALLOWED_S = 0.3
# What came since then nobody knows where the first reading is missing.
NEVER = float("inf")


def script(device: str, since: float | None = None, sources: Sequence[Source] = SOURCES) -> str:
    """The command line of one moment: before the traffic, or after it, with ``since``, where the kernel's log ended."""
    first = since is None
    ordered = list(reversed(sources)) if first else list(sources)
    moment = "" if since in (None, NEVER) else f"{since:.6f}"
    # One process for all files, nearest to the traffic.
    files = " ".join(name for source in ordered for name in source.files(device))
    reading = [f"echo '{MARK}'", f"grep -H '' {files} 2>/dev/null"] if files else []
    others = []
    for source in ordered:
        if command := source.command(device):
            others += [f"echo '{MARK}{source.name}'", f"{{ {command}; }} 2>/dev/null"]
    lines = [*others, *reading] if first else [*reading, *others]
    # The last one's exit status is of no matter.
    return "\n".join([f"since={moment}", "PATH=$PATH:/usr/sbin:/sbin", *lines, ":"])


def sections(text: str, device: str, sources: Sequence[Source] = SOURCES) -> dict[str, str]:
    """What each source printed, by its name."""
    found: dict[str, list[str]] = {}
    patterns = [(name, source.name) for source in sources for name in source.files(device)]
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
                # A device of the firmware has a colon in its path.
                owners[path] = next((name for pattern, name in patterns if _is_of(path, pattern)), "")
            found.setdefault(owners[path], []).append(rest if path.startswith("/proc/") else line)
    found.pop("", None)
    return {name: "\n".join(lines) for name, lines in found.items()}


def _is_of(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or fnmatchcase(path, pattern.partition("*")[0] + "*")


class EndReader:
    """One end; ``end`` is what reports call it."""

    def __init__(self, shell: Shell, device: str, end: str, sources: Sequence[Source] = SOURCES) -> None:
        self._shell = shell
        self._device = device
        self._end = end
        self._sources = sources
        self._before: Mapping[str, str] = {}
        self._after: Mapping[str, str] = {}
        self._since = NEVER
        self._half = ""
        self._kept: dict[str, list[str]] = {}

    def before(self, number: int) -> None:
        """Read it right before the traffic of a try."""
        self._half = ""
        self._before = self._read(number, "before", None)
        since = last_stamp(self._before.get(KernelMessages.name, ""))
        if since is None:
            since = uptime(self._before.get(Processors.name, ""))
        self._since = NEVER if since is None else since

    def pass_over(self) -> None:
        """A try that is not read by itself."""
        self._half = ""

    def half_way(self, number: int) -> None:
        """The clock under load, where this end tells clocks at all."""
        if self._before.get(Thermals.name):
            self._half = self._ask(HEAT)
            self._keep(Thermals.name, number, "during", self._half)

    def after(self, number: int, traffic_s: float) -> EndEvidence:
        """Read it right after the traffic of a try: the differences."""
        return self._differences(self._before, number, traffic_s)

    def passed(self, traffic_s: float) -> EndEvidence:
        """Of a try that is not read by itself: what was seen in its middle."""
        return EndEvidence(self._end, self._device, traffic_s=traffic_s, under_load=parse_heat(self._half))

    def rest(self, first: int, number: int, traffic_s: float) -> EndEvidence:
        """Read it after the last of the tries that were passed over, from ``first`` on: the differences of them all."""
        since = last_stamp(self._after.get(KernelMessages.name, ""))
        self._since = self._since if since is None else since
        found = self._differences(self._after, number, traffic_s)
        # What the processors did between the tries is in it, too.
        return replace(found, processors=None, first_try=first)

    def _differences(self, before: Mapping[str, str], number: int, traffic_s: float) -> EndEvidence:
        self._after = self._read(number, "after", self._since)
        found = EndEvidence(self._end, self._device, traffic_s=traffic_s, under_load=parse_heat(self._half))
        for source in self._sources:
            found = source.add(found, Texts(before.get(source.name, ""), self._after.get(source.name, "")))
        return replace(found, restarted=tuple(dict.fromkeys(found.restarted)))

    def _read(self, number: int, moment: str, since: float | None) -> Mapping[str, str]:
        found = sections(self._ask(script(self._device, since, self._sources)), self._device, self._sources)
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
        """All that was read, by source."""
        return {name: "\n".join(texts) for name, texts in self._kept.items()}


class Collector:
    """All ends of a link, for one try after the other. ``spent_s`` is what reading them took so far."""

    def __init__(self, ends: Sequence[EndReader], allowed_s: float = ALLOWED_S) -> None:
        self.spent_s = 0.0
        self._ends = ends
        self._allowed_s = allowed_s
        self._read = 0
        self._passed_from: int | None = None
        self._number = 0
        self._looks: list[threading.Thread] = []

    def before(self, number: int) -> None:
        """Right before the traffic of this try."""
        self._number = number
        # Of a try that broke.
        self._looks = []
        # Another pair of readings, and the one at the end.
        if self._read and self.spent_s * (1 + 1.5 / self._read) > self._allowed_s:
            self._passed_from = self._passed_from or number
            for end in self._ends:
                end.pass_over()
        else:
            self._timed(lambda end: end.before(number))

    def watching(self, watch: Callable[[], None] | None, traffic_s: float) -> Callable[[], None]:
        """What to call all the time while traffic runs: passes ``watch`` on, and looks once in the middle.

        The look is in threads of its own, since whoever waits for the traffic must not wait for an answer.
        """
        begun: list[float] = []

        def look() -> None:
            if watch is not None:
                watch()
            now = time.monotonic()
            if not begun:
                begun.append(now)
            elif not self._looks and now >= begun[0] + HALF * traffic_s:
                number = self._number
                self._looks = [
                    threading.Thread(target=_quietly, args=(end.half_way, number), daemon=True) for end in self._ends
                ]
                for thread in self._looks:
                    thread.start()

        return look

    def after(self, traffic_s: float) -> tuple[EndEvidence, ...]:
        """Right after the traffic, which took ``traffic_s``: the differences at each end."""
        for thread in self._looks:
            thread.join(ANSWER_S)
        self._looks = []
        number = self._number
        if self._passed_from is not None:
            return tuple(end.passed(traffic_s) for end in self._ends)
        found = self._timed(lambda end: end.after(number, traffic_s))
        self._read += 1
        return tuple(found)

    def rest(self, traffic_s: float) -> tuple[EndEvidence, ...]:
        """After the last try, which took ``traffic_s``: what all passed over counted together; empty without any.

        The next try is read again, and so are those behind it as far as is allowed.
        """
        first, number = self._passed_from, self._number
        found = [] if first is None else self._timed(lambda end: end.rest(first, number, traffic_s))
        self._passed_from, self._read, self.spent_s = None, 0, 0.0
        return tuple(found)

    def _timed(self, do: Callable[[EndReader], T]) -> list[T]:
        started = time.monotonic()
        with ThreadPoolExecutor(max(1, len(self._ends)), thread_name_prefix="pinet-evidence") as pool:
            found = list(pool.map(do, self._ends))
        self.spent_s += time.monotonic() - started
        return found

    def raw(self) -> dict[str, str]:
        """All that was read, by file name: the number of the end, and the source."""
        return {f"{index}-{name}.txt": text for index, end in enumerate(self._ends) for name, text in end.raw.items()}


def _quietly(look: Callable[[int], None], number: int) -> None:
    """What ends a test is told by the thread that waits for the traffic."""
    with suppress(Exception):
        look(number)
