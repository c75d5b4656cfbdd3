"""The journal of switch ports: it keeps their original states on disk while they are changed, in case of a crash.

Each process has one file under ``$XDG_STATE_HOME/pinet/journal``. The file is removed when all ports are restored.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import BaseModel

from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.execution.names import quoted
from pytest_pinet.execution.output_file import write_file
from pytest_pinet.lab.labgrid.identity import machine, start_time
from pytest_pinet.lab.switch.switchport import PortState

_FILE = re.compile(r"(?P<pid>\d+)-(?P<start>\d+)-(?P<machine>[0-9a-f]+)\.json")
_Entries = dict[str, dict[str, PortState]]  # by switch, then by port


def journal_folder() -> Path:
    """Return ``$XDG_STATE_HOME/pinet/journal``, by default ``~/.local/state/pinet/journal``."""
    state = os.environ.get("XDG_STATE_HOME")
    # The XDG specification requires to ignore a path that is not absolute.
    base = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "pinet" / "journal"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class _Content(BaseModel):
    """The content of a file: where its process runs, and by lab file the original states of the ports it changed."""

    host: str = "another machine"
    boot: str = ""
    labs: dict[str, _Entries] = {}


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _JournalFile:
    path: Path

    @property
    def owner(self) -> str:
        """Name of the process in messages."""
        return f"process {self.path.name.partition('-')[0]} on {self._read().host}"

    def _read(self) -> _Content:
        try:
            return _Content.model_validate_json(self.path.read_bytes())
        except OSError:
            return _Content()
        except ValueError as error:
            # Our files are written by rename, so a broken file is not ours.
            why = " ".join(str(error).split())[:200]
            _log.warning("%s cannot be read, so its switch ports are not restored: %s", self.path, quoted(why))
            return _Content()

    @property
    def is_alive(self) -> bool | None:
        """Whether the process lives; None if this cannot be determined from this machine."""
        match = _FILE.fullmatch(self.path.name)
        assert match is not None
        if match["machine"] == machine():
            return start_time(int(match["pid"])) == int(match["start"])
        content = self._read()
        if content.host == socket.gethostname() and content.boot != _boot():
            return False  # this machine was rebooted since
        return None

    def labs(self) -> dict[str, _Entries]:
        """Return, by lab file, the ports that this process changed and has not restored."""
        return self._read().labs

    def write(self, labs: Mapping[str, _Entries]) -> None:
        """Replace the whole file, or remove it when no port is left."""
        kept = {lab: {switch: ports for switch, ports in switches.items() if ports} for lab, switches in labs.items()}
        kept = {lab: switches for lab, switches in kept.items() if switches}
        if not kept:
            self.path.unlink(missing_ok=True)
            return
        content = _Content(host=socket.gethostname(), boot=_boot(), labs=dict(kept))
        write_file(self.path, [content.model_dump_json(indent=1, exclude_none=True).encode()])
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _not_restored(known: PortState, own: PortState | None) -> PortState:
    """Return the settings of a port that a dead process changed and we did not: nothing has restored them yet."""
    if own is None:
        return PortState()
    return replace(known, **{key: None for key, value in asdict(own).items() if value is not None})


class Journal:
    """The changes of this process, and of earlier processes, on the switches of one lab file."""

    def __init__(self, lab_file: str, folder: Path | None = None) -> None:
        self._lab = str(lab_path(lab_file).resolve())
        self._folder = folder or journal_folder()

    @property
    def _own(self) -> _JournalFile:
        pid = os.getpid()
        return _JournalFile(self._folder / f"{pid}-{start_time(pid)}-{machine()}.json")

    def _files(self) -> list[_JournalFile]:
        """Return all files: our own first, then the files of dead processes."""
        pages = [_JournalFile(path) for path in sorted(self._folder.glob("*.json")) if _FILE.fullmatch(path.name)]
        return sorted(pages, key=lambda page: (page != self._own, page.is_alive is not False))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of all files, because two processes may take over from the same dead one."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def record(self, switch: str, found: Mapping[str, PortState]) -> None:
        """Write the original states of these ports to disk, each with all settings that are changed."""
        with self._locked():
            page = self._own
            labs = page.labs()
            ports = labs.setdefault(self._lab, {}).setdefault(switch, {})
            ports.update(found)
            page.write(labs)

    def original(self, switch: str, port: str) -> PortState | None:
        """Return the original state of a port, or None if no process on this machine changed it."""
        for page in self._files():
            state = page.labs().get(self._lab, {}).get(switch, {}).get(port)
            if state is not None:
                return state
        return None

    def forget(self, switch: str, ports: Iterable[str]) -> None:
        """Remove these ports, which are restored, from our file and from the files of dead processes."""
        gone = set(ports)
        with self._locked():
            pages = self._files()
            own = self._own.labs().get(self._lab, {}).get(switch, {})
            for page in pages:
                if page != self._own and page.is_alive is not False:
                    continue
                labs = page.labs()
                known = labs.get(self._lab, {}).get(switch, {})
                if gone & known.keys():
                    left = {port: _not_restored(known[port], own.get(port)) for port in gone & known.keys()}
                    kept = {port: left.get(port, state) for port, state in known.items()}
                    labs[self._lab][switch] = {port: state for port, state in kept.items() if state != PortState()}
                    page.write(labs)

    def left_behind(self) -> tuple[_Entries, list[str]]:
        """Return the ports that dead processes left changed, by switch, and a sentence for each port that is left out.

        A port in the file of a process that lives, or whose state is unknown, belongs to that process.
        """
        left: _Entries = {}
        theirs: set[tuple[str, str]] = set()
        users: dict[tuple[str, str], str] = {}
        sentences = []
        for page in self._files():
            entries = page.labs().get(self._lab, {})
            ports = [(switch, port) for switch, states in entries.items() for port in states]
            alive = page.is_alive
            if alive is False:
                for switch, port in ports:
                    left.setdefault(switch, {}).setdefault(port, entries[switch][port])
                continue
            theirs.update(ports)
            if alive:
                users.update(dict.fromkeys(ports, page.owner))
            elif ports:
                words = ", ".join(f"{switch}/{port}" for switch, port in ports)
                sentences.append(
                    f"not restored: {words}, because this machine cannot tell whether {page.owner} still uses it"
                )
        for switch, port in sorted(theirs):
            if left.get(switch, {}).pop(port, None) is not None and (switch, port) in users:
                sentences.append(f"not restored: port {port} of switch {switch}, because {users[switch, port]} uses it")
        return {switch: ports for switch, ports in left.items() if ports}, sentences
