"""Watches boards: a thread reads their samples and writes what they show. The caller boots them and sends traffic."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby

from pytest_pinet.errors import LabError, PinetError
from pytest_pinet.evidence.nics import read_board
from pytest_pinet.evidence.vitals import NOT_READ, REBOOT, SILENCE, LinkWatch, Sign, Vitals, command, kernel_sign, parse
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Process
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.link.end import with_devices
from pytest_pinet.lab.node.shutdown import BOOT_ID
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Lab, Node
from pytest_pinet.watch.journal import Journal, Tally, tally

POLL_S = 1.0
# The hours watched so far are written this often: a killed watch loses at most so much of them, and no event.
ALIVE_S = 60.0
# Samples arrive up to this much later than what we did to a board.
LATE_S = 20.0
# The script at the board is started again after this time, so that no output grows for days.
RENEW_S = 3600.0
# A board is silent if its samples stay away for so long.
SILENT_S = 30.0
RETRY_S = 5.0
# Samples further apart belong together only if the board still runs (s).
GAP_S = 5.0
# This many packets a second are traffic.
TRAFFIC_PPS = 100
_STAMP = re.compile(r"\[ *(\d+\.\d+)\]")


class WatchedBoard:
    """Follows one board: its ``links`` by device, and the seconds seen, with traffic on a device or without.

    ``shell`` runs commands at the board. ``devices`` are those to watch, with the switch of each. ``boot`` identifies
    the last known boot; it is empty if no boot is known.
    """

    def __init__(self, name: str, shell: SshShell, devices: Mapping[str, str], boot: str = "") -> None:
        self.name, self.boot = name, boot
        self.links = {device: LinkWatch(f"{name} {device}", switch) for device, switch in devices.items()}
        self.watched_s = self.loaded_s = 0.0
        self.reads_log: bool | None = None
        # The time of the last sample; None before the first one.
        self.heard_s: float | None = None
        self._is_silent = False
        self._shell = shell
        self._process: Process | None = None
        # When the script ends or begins.
        self._next_s = 0.0
        # The uptime of the last sample that belongs to the next one, and how many packets the devices had.
        self._last: tuple[float, int] | None = None
        # The last uptime of this boot. Messages of the kernel up to the stamp `_known_s` are known.
        self._uptime_s = 0.0
        self._known_s: float | None = None

    def begin_anew(self) -> None:
        """Forget the samples: the board was booted, or its links were changed on purpose."""
        self.links = {device: LinkWatch(link.name, link.switch) for device, link in self.links.items()}
        self._last = None

    def poll(self, now_s: float, others: Sequence[LinkWatch]) -> list[Sign]:
        """Return what the samples show that have arrived since the last call. ``others`` are the links of other boards.

        Does not wait for samples. Once an hour it ends the script at the board, for which ssh has at most some seconds.
        """
        lines = self._process.lines() if self._process is not None else []
        signs = [sign for line in lines for sign in self._line(line, now_s, others)]
        if self._process is not None and (now_s >= self._next_s or self._process.poll() is not None):
            # The script is to be started again, or ssh has lost the board.
            self._next_s = min(self._next_s, now_s + RETRY_S)
            self.stop()
        if self._process is None and now_s >= self._next_s:
            self._process = self._shell.spawn(command([*self.links], RENEW_S + 120, BOOT_ID))
            self._next_s = now_s + RENEW_S
        return signs

    def silence(self, now_s: float) -> list[Sign]:
        """Return that the board has become silent, if it has."""
        if self.heard_s is None or self._is_silent or now_s - self.heard_s < SILENT_S:
            return []
        self._is_silent = True
        return [Sign(self.heard_s, SILENCE, f"{self.name} does not answer over ssh", part=self.name)]

    def take_seconds(self) -> tuple[float, float]:
        """Return the seconds seen, and the seconds with traffic on a device, since the last call."""
        seconds = self.watched_s, self.loaded_s
        self.watched_s = self.loaded_s = 0.0
        return seconds

    def stop(self) -> None:
        """End the script at the board."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def _line(self, line: str, now_s: float, others: Sequence[LinkWatch]) -> list[Sign]:
        word, _, rest = line.partition(" ")
        if word == "boot":
            uptime, _, boot = rest.partition(" ")
            before, self.boot, self._uptime_s = self.boot, boot.strip(), float(uptime)
            if before != self.boot:
                self.begin_anew()
            if before and before != self.boot:
                # Of a later boot, all messages are new.
                self._known_s = 0.0
                return [Sign(now_s, REBOOT, f"{self.name} was booted", over=True)]
            self._known_s = self._uptime_s if self._known_s is None else self._known_s
        elif word == "log":
            self.reads_log = rest == "yes"
        elif word == "kernel":
            return self._kernel(rest, now_s)
        return self.add(parse(line), now_s, others)

    def add(self, samples: Sequence[Vitals], now_s: float, others: Sequence[LinkWatch] = ()) -> list[Sign]:
        """Add the samples that arrived now; return what they show."""
        if not samples:
            return []
        signs: list[Sign] = []
        if self._is_silent:
            signs.append(Sign(now_s, SILENCE, f"{self.name} answers again", over=True, part=self.name))
        self._is_silent, self.heard_s, self._uptime_s = False, now_s, samples[-1].uptime_s
        for uptime_s, together in groupby(samples, key=lambda one: one.uptime_s):
            packets = 0
            for one in together:
                if one.device in self.links:
                    link = self.links[one.device]
                    packets += (one.rx or 0) + (one.tx or 0)
                    peers = [other for other in others if other.switch == link.switch]
                    signs += link.add(now_s - (self._uptime_s - uptime_s), one, peers)
            passed, moved = (0.0, 0) if self._last is None else (uptime_s - self._last[0], packets - self._last[1])
            self._last = uptime_s, packets
            if 0 < passed <= GAP_S:
                self.watched_s += passed
                self.loaded_s += passed if moved >= TRAFFIC_PPS * passed else 0.0
        return signs

    def _kernel(self, text: str, now_s: float) -> list[Sign]:
        stamp = _STAMP.search(text)
        if stamp is None or (at := float(stamp[1])) <= (self._known_s or 0.0):
            return []
        self._known_s = at
        sign = kernel_sign(text, now_s - max(self._uptime_s - at, 0.0))
        return [sign] if sign is not None else []


class Watching:
    """The watched boards and the journal. ``say`` prints a sentence.

    A thread reads samples and writes signs, so that nothing waits for our own boots and traffic.
    """

    def __init__(self, journal: Journal, boards: Sequence[WatchedBoard], say: Callable[[str], None]) -> None:
        self.journal, self.say = journal, say
        self._boards = {board.name: board for board in boards}
        self._error: BaseException | None = None
        # When we changed each board: begin and end.
        self._changed: dict[str, list[tuple[float, float]]] = {}
        self._counted_s = time.time()
        self._ended = threading.Event()
        self._lock = threading.RLock()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch while the context lasts. All scripts at the boards end with it."""
        thread = threading.Thread(target=self._run, name="pinet-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(SILENT_S)
            for board in self._boards.values():
                board.stop()
            self.count()

    @contextmanager
    def changing(self, names: Collection[str]) -> Iterator[None]:
        """Ignore what we do to these boards: boots, and links that are opened and closed."""
        begin_s = time.time()
        with self._lock:
            for name in names:
                self._changed.setdefault(name, []).append((begin_s, float("inf")))
        try:
            yield
        finally:
            with self._lock:
                for name in names:
                    self._changed[name] = [*self._changed[name][-4:-1], (begin_s, time.time())]
                    # What was there before is over: nothing is said of its end.
                    if name in self._boards:
                        self._boards[name].begin_anew()

    def note(self, what: str, **values: object) -> None:
        """Write a record of now."""
        with self._lock:
            self.journal.add(time.time(), what, **values)

    def sign(self, node: str, sign: Sign) -> None:
        """Write a sign, and say it."""
        with self._lock:
            over = {"over": True} if sign.over else {}
            self.journal.add(sign.at_s, "sign", node=node, kind=sign.kind, part=sign.part, text=sign.text, **over)
            self.count()
            self.say(f"{time.strftime('%H:%M:%S', time.localtime(sign.at_s))} {sign.kind}: {sign.text}")

    def count(self) -> Tally:
        """Write the hours so far, and return what is known."""
        with self._lock:
            seen = {name: board.take_seconds() for name, board in self._boards.items()}
            grown = {name: [round(one, 1) for one in seconds] for name, seconds in seen.items() if any(seconds)}
            if grown:
                self.journal.add(time.time(), "alive", of=grown)
            self._counted_s = time.time()
            return tally(self.journal.records)

    def is_over(self, end: Deadline) -> bool:
        """Return whether the time is over, or more hours would change nothing."""
        return end.expired or self.count().is_final

    def check(self) -> None:
        """Raise the error that has ended the thread, if there is one."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._ended.wait(POLL_S):
                with self._lock:
                    self._look(time.time())
        except BaseException as error:
            self._error = error

    def _look(self, now_s: float) -> None:
        for board in self._boards.values():
            before, log = board.boot, board.reads_log
            others = [link for other in self._boards.values() if other is not board for link in other.links.values()]
            for sign in board.poll(now_s, others):
                self._take(board.name, sign)
            if board.boot != before:
                self.journal.add(now_s, "boot", node=board.name, id=board.boot)
            if board.reads_log is False and log is not False:
                self.journal.add(now_s, "note", text=f"{board.name}: {NOT_READ}")
        heard = [board for board in self._boards.values() if board.heard_s is not None]
        away = [board for board in heard if now_s - (board.heard_s or 0.0) >= SILENT_S / 2]
        # If all boards become silent together, the runner has lost the lab: this is no event of a board.
        if len(away) < len(heard) or len(heard) == 1:
            for board in away:
                for sign in board.silence(now_s):
                    self._take(board.name, sign)
        if now_s - self._counted_s >= ALIVE_S:
            self.count()

    def _take(self, name: str, sign: Sign) -> None:
        """Write a sign of samples, unless what we do to the board explains it."""
        if not any(begin - LATE_S <= sign.at_s <= end + LATE_S for begin, end in self._changed.get(name, ())):
            self.sign(name, sign)


def open_watch(lab: Lab, nodes: Sequence[Node], journal: Journal, say: Callable[[str], None]) -> Watching:
    """Return the watch of these nodes; ``running`` begins it. Raises PinetError."""
    boots = {record["node"]: record["id"] for record in journal.records if record["what"] == "boot"}
    boards = []
    for node, shell in zip(nodes, _shells(lab, nodes), strict=True):
        # For a board that is off, the lab file has the devices.
        with suppress(PinetError):
            node = with_devices(node, read_board(shell))
        devices = {one.device: one.port.switch for one in node.interfaces}
        boards.append(WatchedBoard(node.name, shell, devices, boots.get(node.name, "")))
    return Watching(journal, boards, say)


def _shells(lab: Lab, nodes: Sequence[Node]) -> list[SshShell]:
    """Return a shell for each node, which needs no lease and changes nothing. Raises PinetError."""
    with closing(Targets(lab)) as targets:
        if not lab.has_coordinator:
            return [SshShell(node.name, targets.way_to(node)[0]) for node in nodes]
        with closing(Coordinator(targets.address, Identity.of_this_process("watch"))) as places:
            places.sync()
            shells = []
            for node in nodes:
                service = places.service_of(node.place)
                if service is None:
                    message = f"no exporter offers the NetworkService of {node.name}, so its address is not known"
                    raise LabError(message, "start labgrid-exporter where the board is connected")
                shells.append(SshShell(node.name, targets.way_beside_lease(node, service)))
            return shells
