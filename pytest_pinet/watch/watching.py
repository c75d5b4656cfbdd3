"""Watches boards: a thread reads their samples and writes what they show. The caller boots them and sends traffic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pytest_pinet.errors import ConfigError, LabError, PinetError
from pytest_pinet.evidence.nics import read_board
from pytest_pinet.evidence.vitals import NOT_READ, Sign
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.link.end import with_devices
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Lab, Node, PortRef
from pytest_pinet.watch.board import SILENT_S, WatchedBoard
from pytest_pinet.watch.journal import Journal
from pytest_pinet.watch.report import Tally, tally

POLL_S = 1.0
# The hours watched so far are written this often: a killed watch loses at most so much of them, and no event.
ALIVE_S = 60.0
# Samples arrive up to this much later than what we did to a board.
LATE_S = 20.0


def shells(lab: Lab, nodes: Sequence[Node]) -> dict[str, SshShell]:
    """Return a shell for each node, which needs no lease and changes nothing. Raises PinetError."""
    targets = Targets(lab)
    try:
        ways: dict[str, list[str]] = {}
        if lab.has_coordinator:
            places = Coordinator(targets.address, Identity.of_this_process("watch"))
            try:
                places.expand_places()
                places.sync()
                for node in nodes:
                    service = places.service_of(node.place)
                    if service is None:
                        message = f"no exporter offers the NetworkService of {node.name}, so its address is not known"
                        raise LabError(message, "start labgrid-exporter where the board is connected")
                    ways[node.name] = targets.way_beside_lease(node, service)
            finally:
                places.close()
        else:
            ways = {node.name: targets.way_to(node)[0] for node in nodes}
        return {name: SshShell(name, way) for name, way in ways.items()}
    finally:
        targets.close()


def devices_of(node: Node, shell: SshShell) -> list[tuple[str, PortRef]]:
    """Return the devices of the node's NICs and their switch ports. For a board that is off, the lab file has them."""
    with suppress(PinetError):
        node = with_devices(node, read_board(shell))
    return [(one.device, one.port) for one in node.interfaces]


@dataclass
class Watching:
    """The watched boards and the journal. ``say`` prints a sentence.

    A thread reads samples and writes signs, so that nothing waits for our own boots and traffic.
    """

    journal: Journal
    boards: Mapping[str, WatchedBoard]
    peers: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]
    say: Callable[[str], None]
    error: BaseException | None = None
    _busy: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _counted: dict[str, tuple[float, float]] = field(default_factory=dict)
    _alive_s: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch while the context lasts. All scripts at the boards end with it."""
        thread = threading.Thread(target=self._run, name="pinet-watch", daemon=True)
        self._alive_s = time.time()
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(SILENT_S)
            for board in self.boards.values():
                board.stop()
            self.count()

    @contextmanager
    def changing(self, names: Sequence[str]) -> Iterator[None]:
        """Ignore what we do to these boards: boots, and links that are opened and closed."""
        begin_s = time.time()
        with self._lock:
            for name in names:
                self._busy.setdefault(name, []).append((begin_s, float("inf")))
        try:
            yield
        finally:
            with self._lock:
                for name in names:
                    self._busy[name] = [*self._busy[name][-4:-1], (begin_s, time.time())]
                    # What was there before is over: nothing is said of its end.
                    if name in self.boards:
                        self.boards[name].watch.begin_anew()

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
            grown = {}
            for name, board in self.boards.items():
                now = board.watch.watched_s, board.watch.loaded_s
                before = self._counted.get(name, (0.0, 0.0))
                if now != before:
                    grown[name] = [round(new - old, 1) for new, old in zip(now, before, strict=True)]
                self._counted[name] = now
            if grown:
                self.journal.add(time.time(), "alive", of=grown)
            return tally(self.journal.records)

    def has_failed(self) -> bool:
        """Return whether an error has ended the thread."""
        return self.error is not None

    def check(self) -> None:
        """Raise the error that has ended the thread, if there is one."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            while not self._ended.wait(POLL_S):
                self._look(time.time())
        except BaseException as error:
            self.error = error

    def _look(self, now_s: float) -> None:
        with self._lock:
            for name, board in self.boards.items():
                before, log = board.boot, board.reads_log
                peers = {
                    device: [self.boards[node].watch.links[other] for node, other in others]
                    for device, others in self.peers[name].items()
                }
                for sign in board.poll(now_s, peers):
                    self._take(name, sign)
                if board.boot != before:
                    self.journal.add(now_s, "boot", node=name, id=board.boot)
                if board.reads_log is False and log is not False:
                    self.journal.add(now_s, "note", text=f"{name}: {NOT_READ}")
            self._silence(now_s)
            if now_s - self._alive_s >= ALIVE_S:
                self._alive_s = now_s
                self.count()

    def _silence(self, now_s: float) -> None:
        """If all boards become silent together, the runner has lost the lab: this is no event of a board."""
        heard = [board for board in self.boards.values() if board.heard_s is not None]
        away = [board for board in heard if now_s - (board.heard_s or 0.0) >= SILENT_S / 2]
        if len(heard) > 1 and len(away) == len(heard):
            return
        for board in heard:
            for sign in board.silence(now_s):
                self._take(board.name, sign)

    def _take(self, name: str, sign: Sign) -> None:
        """Write a sign of samples, unless what we do to the board explains it."""
        busy = any(begin - LATE_S <= sign.at_s <= end + LATE_S for begin, end in self._busy.get(name, ()))
        if not busy:
            self.sign(name, sign)


def open_watch(lab: Lab, nodes: Sequence[Node], journal: Journal, say: Callable[[str], None]) -> Watching:
    """Return the watch of these nodes; ``running`` begins it. Raises PinetError."""
    found = shells(lab, nodes)
    devices = {node.name: devices_of(node, found[node.name]) for node in nodes}
    boots = {record["node"]: record["id"] for record in journal.records if record["what"] == "boot"}
    boards = {
        name: WatchedBoard(name, found[name], [device for device, _ in own], boots.get(name, ""))
        for name, own in devices.items()
    }
    peers = {
        name: {
            device: [
                (other, its)
                for other, theirs in devices.items()
                for its, port in theirs
                if other != name and port.switch == own_port.switch
            ]
            for device, own_port in own
        }
        for name, own in devices.items()
    }
    return Watching(journal, boards, peers, say)


def check_same(journal: Journal, about: Mapping[str, object]) -> None:
    """Check that a watch goes on as it began: the same lab, boards and builds. Raises ConfigError."""
    first = next((record for record in journal.records if record["what"] == "begin"), None)
    for key in ("lab", "nodes", "keys"):
        if first is not None and first.get(key) != about.get(key):
            what = {"lab": "of another lab", "nodes": "of other boards", "keys": "of other builds"}[key]
            raise ConfigError(f"this folder has a watch {what}: {first.get(key)}; choose another folder")
