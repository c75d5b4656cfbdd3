"""Who holds a place: one identity for each process, which also tells whether that process is still alive."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

_USER = re.compile(r"pinet-(?P<worker>[a-z0-9]+)-(?P<pid>\d+)-(?P<start>\d+)-(?P<machine>[0-9a-f]+)-(?P<run>\w+)")


def _word(run: str) -> str:
    """A run's id as an identity can carry it; ``--testrunuid`` takes any text."""
    return re.sub(r"\W", "_", run, flags=re.ASCII)


def start_time(pid: int) -> int | None:
    """The start time of a process in clock ticks since boot (proc(5), field 22), or None when there is no such process.

    Together with the pid it names a process for ever: a recycled pid has another start time.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    # A zombie holds nothing any more.
    return None if fields[0] in "ZX" else int(fields[19])


def machine() -> str:
    """Where pids mean what they mean here: this boot of this kernel, and this pid namespace.

    Host names do not tell: many a Pi is called raspberrypi, and two containers may share theirs.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = Path("/proc/self/ns/pid").readlink()
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Identity:
    """``host/user`` as labgrid writes it into ``place.acquired``."""

    host: str
    user: str

    @classmethod
    def of_this_process(cls, worker: str = "main", run: str = "0") -> Identity:
        """``run`` is the same for all workers of one run."""
        pid = os.getpid()
        return cls(socket.gethostname(), f"pinet-{worker}-{pid}-{start_time(pid)}-{machine()}-{_word(run)}")

    @classmethod
    def parse(cls, acquired: str) -> Identity:
        host, _, user = acquired.partition("/")
        return cls(host, user)

    @property
    def is_dead(self) -> bool:
        """Whether this is a process of ours on this very machine that does not live any more."""
        match = _USER.fullmatch(self.user)
        if match is None or match["machine"] != machine():
            return False
        return start_time(int(match["pid"])) != int(match["start"])

    @property
    def beats(self) -> bool:
        """Whether this is a process of ours, on whatever machine: it has a heartbeat, so that its silence tells."""
        return _USER.fullmatch(self.user) is not None

    @property
    def mark(self) -> str:
        """A short name for exactly this identity, for a place tag that may outlive it."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:8]

    def is_worker(self, worker: str, run: str) -> bool:
        """Whether this is that xdist worker of that run."""
        match = _USER.fullmatch(self.user)
        return match is not None and match["worker"] == worker and match["run"] == _word(run) != "0"

    def is_sibling_of(self, other: Identity) -> bool:
        """Whether both are workers of the same run."""
        own, theirs = _USER.fullmatch(self.user), _USER.fullmatch(other.user)
        return own is not None and theirs is not None and own["run"] == theirs["run"] != "0"

    def export(self) -> None:
        """Make labgrid's client use this identity; must come before its session starts."""
        os.environ["LG_HOSTNAME"] = self.host
        os.environ["LG_USERNAME"] = self.user

    def __str__(self) -> str:
        return f"{self.host}/{self.user}"
