"""Who holds a place: one identity for each process, which also tells whether that process is still alive."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

_USER = re.compile(r"pinet-(?P<worker>[a-z0-9]+)-(?P<pid>\d+)-(?P<start>\d+)")


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


@dataclass(frozen=True)
class Identity:
    """``host/user`` as labgrid writes it into ``place.acquired``."""

    host: str
    user: str

    @classmethod
    def of_this_process(cls, worker: str = "main") -> Identity:
        pid = os.getpid()
        return cls(socket.gethostname(), f"pinet-{worker}-{pid}-{start_time(pid)}")

    @classmethod
    def parse(cls, acquired: str) -> Identity:
        host, _, user = acquired.partition("/")
        return cls(host, user)

    @property
    def is_dead(self) -> bool:
        """Whether this is a process of ours on this very host that does not live any more."""
        match = _USER.fullmatch(self.user)
        if match is None or self.host != socket.gethostname():
            return False
        return start_time(int(match["pid"])) != int(match["start"])

    def export(self) -> None:
        """Make labgrid's client use this identity; must come before its session starts."""
        os.environ["LG_HOSTNAME"] = self.host
        os.environ["LG_USERNAME"] = self.user

    def __str__(self) -> str:
        return f"{self.host}/{self.user}"
