"""Processes, identified by pid and start time, so that a reused pid is never taken for ours."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.execution.deadline import Deadline

_POLL_S = 0.01


@dataclass(frozen=True)
class ProcessId:
    """A pid and the start time of its process (clock ticks since boot, field 22 of ``/proc/PID/stat``)."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Return the process that has this pid now, or None if there is none or only a zombie."""
        stat = _stat(pid)
        if stat is None or stat[0] in ("Z", "X"):
            return None
        return cls(pid, int(stat[19]))

    @property
    def alive(self) -> bool:
        return ProcessId.of(self.pid) == self

    def kill(self, number: int) -> None:
        """Send a signal, by sudo if the process belongs to root and we do not. Does nothing if it has ended."""
        if not self.alive:
            return
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return
        except PermissionError:
            subprocess.run(
                ["sudo", "-n", "kill", f"-{int(number)}", str(self.pid)], check=False, capture_output=True, timeout=10
            )


def hurry(pid: int, with_children: bool = True) -> None:
    """Give real-time priority over all other work to a process and its children, or to its first thread only.

    The priority is a scheduling class, since nice values count only within a session (autogroups). Where it is not
    permitted, nothing happens.
    """
    with suppress(OSError):
        policy = os.SCHED_RR if with_children else os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(pid, policy, os.sched_param(1))


def children_of(pid: int) -> list[int]:
    """Return the pids of the children of ``pid``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            stat = _stat(int(entry.name))
            if stat is not None and int(stat[1]) == pid:
                found.append(int(entry.name))
    return found


def wait_gone(processes: Iterable[ProcessId], timeout_s: float) -> list[ProcessId]:
    """Wait until the processes have ended. Return the processes that still run at the deadline."""
    known = list(processes)
    Deadline(timeout_s).wait_until(lambda: not any(process.alive for process in known), _POLL_S)
    return [process for process in known if process.alive]


def end(processes: Iterable[ProcessId], grace_s: float) -> list[ProcessId]:
    """Send SIGTERM, and SIGKILL after ``grace_s``. Return the processes that survive both."""
    wanted = list(processes)
    for process in wanted:
        process.kill(signal.SIGTERM)
    left = wait_gone(wanted, grace_s)
    for process in left:
        process.kill(signal.SIGKILL)
    return wait_gone(left, grace_s)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` after the command, which may contain spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
