"""The identity of a process that holds a place, and the heartbeats that show that it is still alive.

labgrid keeps a place acquired for ever. A holder writes a counter into a tag of one of its places, however many places
it has. The coordinator sends the tag to all processes. They check by their own clock whether the counter still changes,
so no clocks are compared between hosts. The mark in the tag identifies the holder: a tag that a crashed holder left
behind does not count for the next one. A holder without an identity of this plugin, such as a user of labgrid-client,
is never considered dead.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from collections.abc import Mapping
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


TAG = "pinet_lease"
BEAT_S = 3.0
# Five beats: on a busy machine some beats may be late. With the time of one check the total stays well below 30 s.
STILL_S = 15.0


@dataclass(frozen=True)
class Heartbeat:
    """The content of the tag: the holder's mark, the sequence number, and the start of the lease (s since 1970)."""

    mark: str
    count: int
    since: float

    def __str__(self) -> str:
        return f"{self.mark}.{self.count}.{self.since:.0f}"

    @classmethod
    def parse(cls, text: str | None) -> Heartbeat | None:
        mark, _, rest = (text or "").partition(".")
        count, _, since = rest.partition(".")
        return cls(mark, int(count), float(since)) if mark and count.isdecimal() and since.isdecimal() else None

    @classmethod
    def of(cls, holder: Identity, text: str | None) -> Heartbeat | None:
        """Return the heartbeat in a tag's text, or None if there is none of this holder."""
        beat = cls.parse(text)
        return beat if beat is not None and beat.mark == holder.mark else None


class Watch:
    """Finds holders whose heartbeat has stopped, from the counters that this process has seen."""

    def __init__(self, still_s: float = STILL_S) -> None:
        self._still_s = still_s
        self._seen: dict[Identity, tuple[int | None, float]] = {}

    def look(self, counts: Mapping[Identity, int | None], watched_s: float) -> list[Identity]:
        """Update the counter of each holder (None: no beat yet); return the holders that are dead.

        ``watched_s`` is how long their beats could have been seen since the last look. It is 0 if the coordinator did
        not answer in between, so that an outage of the coordinator makes no holder count as dead.
        """
        seen: dict[Identity, tuple[int | None, float]] = {}
        for holder, count in counts.items():
            before, still_s = self._seen.get(holder, (count, -watched_s))
            seen[holder] = (count, still_s + watched_s if count == before else 0.0)
        self._seen = seen
        return [holder for holder, (_, still_s) in seen.items() if still_s >= self._still_s]
