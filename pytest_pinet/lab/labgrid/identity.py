"""The identity of a process that holds a place. It also shows whether that process is still alive."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

_USER = re.compile(r"pinet-(?P<worker>[a-z0-9]+)-(?P<pid>\d+)-(?P<start>\d+)-(?P<machine>[0-9a-f]+)-(?P<run>\w+)")


def _word(run: str) -> str:
    """Return a run's id in the form that an identity can carry; ``--testrunuid`` takes any text."""
    return re.sub(r"\W", "_", run, flags=re.ASCII)


def start_time(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot (proc(5), field 22), or None if there is no process.

    Pid and start time together identify a process for ever: a reused pid has another start time.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    # A zombie holds no resources.
    return None if fields[0] in "ZX" else int(fields[19])


def machine() -> str:
    """Return an id of the space in which pids are valid: this boot of this kernel, and this pid namespace.

    Host names are not unique: many Pis are called raspberrypi, and two containers may have the same name.
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
        """Return the identity of this process. ``run`` is the same for all workers of one run."""
        pid = os.getpid()
        return cls(socket.gethostname(), f"pinet-{worker}-{pid}-{start_time(pid)}-{machine()}-{_word(run)}")

    @classmethod
    def parse(cls, acquired: str) -> Identity:
        host, _, user = acquired.partition("/")
        return cls(host, user)

    @property
    def is_dead(self) -> bool:
        """Whether this is a process of this plugin on this machine that is not alive any more."""
        match = _USER.fullmatch(self.user)
        if match is None or match["machine"] != machine():
            return False
        return start_time(int(match["pid"])) != int(match["start"])

    @property
    def beats(self) -> bool:
        """Whether this is a process of this plugin on any machine. Such a process sends heartbeats until it dies."""
        return _USER.fullmatch(self.user) is not None

    @property
    def mark(self) -> str:
        """A short hash of this identity, for a place tag that may stay longer than the process."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:8]

    def is_worker(self, worker: str, run: str) -> bool:
        """Return whether this is that xdist worker of that run."""
        match = _USER.fullmatch(self.user)
        return match is not None and match["worker"] == worker and match["run"] == _word(run) != "0"

    def is_sibling_of(self, other: Identity) -> bool:
        """Return whether both are workers of the same run."""
        own, theirs = _USER.fullmatch(self.user), _USER.fullmatch(other.user)
        return own is not None and theirs is not None and own["run"] == theirs["run"] != "0"

    def export(self) -> None:
        """Make labgrid's client use this identity; call this before its session starts."""
        os.environ["LG_HOSTNAME"] = self.host
        os.environ["LG_USERNAME"] = self.user

    def __str__(self) -> str:
        return f"{self.host}/{self.user}"


@dataclass(frozen=True)
class Holding:
    """The holder of a place, and since when the place is held (s since 1970; None if unknown).

    ``person`` is the login name of the user, if it is known.
    """

    holder: Identity
    since: float | None
    person: str = ""

    @classmethod
    def of_line(cls, line: str) -> Holding | None:
        """Parse the line in the lock on a board: identity, start of the lease (s since 1970), name of the user."""
        identity, _, rest = line.strip().partition(" ")
        since, _, person = rest.partition(" ")
        if not identity:
            return None
        return cls(Identity.parse(identity), float(since) if since.isdecimal() else None, person)

    @property
    def whom(self) -> str:
        """The name and the host of the user to talk to about this lease."""
        return f"{self.person or self.holder.user} on {self.holder.host}"

    def __str__(self) -> str:
        who = f"{self.person} ({self.holder})" if self.person else str(self.holder)
        if self.since is None:
            return who
        then = time.localtime(self.since)
        today = time.strftime("%F", then) == time.strftime("%F")
        return f"{who} since {time.strftime('%T' if today else '%F %T', then)}"
