"""The journal of switch ports: it keeps their original states on disk while they are changed, in case of a crash.

Each lab file has one file under ``$XDG_STATE_HOME/pinet/journal``, with an entry for each changed port. A process that
changes a port with an entry of a dead process takes the entry over. The file is removed when all ports are restored.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel

from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.execution.files import state_home, write_file
from pytest_pinet.execution.names import quoted
from pytest_pinet.lab.labgrid.identity import machine, start_time
from pytest_pinet.lab.switch.switchport import PortState

_log = logging.getLogger(__name__)


def journal_folder() -> Path:
    """Return ``$XDG_STATE_HOME/pinet/journal``, by default ``~/.local/state/pinet/journal``."""
    return state_home() / "pinet" / "journal"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Entry(BaseModel):
    """The original state of a port, and the process that changes it. ``machine`` is where its ``pid`` is valid."""

    state: PortState
    host: str
    boot: str
    machine: str
    pid: int
    start: int | None = None

    @classmethod
    def of_this_process(cls, state: PortState) -> Entry:
        pid = os.getpid()
        return cls(
            state=state, host=socket.gethostname(), boot=_boot(), machine=machine(), pid=pid, start=start_time(pid)
        )

    @property
    def is_alive(self) -> bool | None:
        """Whether the process lives; None if this cannot be determined from this machine."""
        if self.machine == machine():
            return start_time(self.pid) == self.start
        # This machine was rebooted since, or it is another machine.
        return False if self.host == socket.gethostname() and self.boot != _boot() else None

    @property
    def is_own(self) -> bool:
        """Whether this is an entry of this process."""
        return self.pid == os.getpid() and self.is_alive is True


class _Content(BaseModel):
    """The content of a file: the entries by switch, then by port."""

    lab: str
    switches: dict[str, dict[str, Entry]] = {}


class Journal:
    """The original states of the ports of one lab file that this process, and earlier processes, have changed."""

    def __init__(self, lab_file: str, folder: Path | None = None) -> None:
        self._lab = str(lab_path(lab_file).resolve())
        self._folder = folder or journal_folder()

    @property
    def _path(self) -> Path:
        return self._folder / f"{hashlib.sha256(self._lab.encode()).hexdigest()[:16]}.json"

    def _read(self) -> dict[str, dict[str, Entry]]:
        try:
            return _Content.model_validate_json(self._path.read_bytes()).switches
        except OSError:
            return {}
        except ValueError as error:
            # Our files are written by rename, so a broken file is not ours.
            why = " ".join(str(error).split())[:200]
            _log.warning("%s cannot be read, so its switch ports are not restored: %s", self._path, quoted(why))
            return {}

    @contextmanager
    def _changed(self, switch: str) -> Iterator[dict[str, Entry]]:
        """Change the entries of a switch. Only one process does this at a time."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            switches = self._read()
            yield switches.setdefault(switch, {})
            kept = {name: ports for name, ports in switches.items() if ports}
            if not kept:
                self._path.unlink(missing_ok=True)
                return
            content = _Content(lab=self._lab, switches=kept)
            write_file(self._path, [content.model_dump_json(indent=1, exclude_none=True).encode()])
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def record(self, switch: str, found: Mapping[str, PortState]) -> dict[str, PortState]:
        """Write the original states of these ports to disk before they are changed, and return them.

        They contain what a dead process has changed and not restored: who restores the port restores that, too.
        """
        with self._changed(switch) as entries:
            for port, state in found.items():
                left = entries[port].state if port in entries else PortState()
                known = {name: value for name, value in asdict(state).items() if value is not None}
                entries[port] = Entry.of_this_process(PortState(**asdict(left) | known))
            return {port: entries[port].state for port in found}

    def original(self, switch: str, port: str) -> PortState | None:
        """Return the original state of a port, or None if no process on this machine changed it."""
        entry = self._read().get(switch, {}).get(port)
        return entry.state if entry is not None else None

    def forget(self, switch: str, ports: Iterable[str]) -> None:
        """Remove the entries of these ports, which are restored, but not the entries of processes that may live."""
        with self._changed(switch) as entries:
            for port in ports:
                if port in entries and (entries[port].is_own or entries[port].is_alive is False):
                    del entries[port]

    def left_behind(self) -> tuple[dict[str, dict[str, PortState]], list[str]]:
        """Return the ports that dead processes left changed, by switch, and a sentence about each that is left out.

        The port of a process that lives, or of which this is unknown, belongs to that process.
        """
        left: dict[str, dict[str, PortState]] = {}
        sentences = []
        for switch, entries in self._read().items():
            for port, entry in entries.items():
                if entry.is_alive is False:
                    left.setdefault(switch, {})[port] = entry.state
                elif entry.is_alive is None:
                    sentences.append(
                        f"not restored: port {port} of switch {switch}, because this machine cannot tell whether "
                        f"process {entry.pid} on {entry.host} still uses it"
                    )
        return left, sentences
