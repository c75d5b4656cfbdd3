"""How many guests run at the same time in this process: as many as its processors and the free memory allow."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.2
_ROOT = Path("/")


class Room:
    """The guests that run at the same time. The others wait. One guest always has room."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # The memory of each guest that runs, in octets.
        self._running: list[int] = []
        self._most = self._free = 0

    @contextmanager
    def guest(self, memory: int, check: Callable[[], None]) -> Iterator[None]:
        """Wait for room for a guest with so many octets of memory. An error of ``check`` ends the wait."""
        with self._changed:
            while not self._fits(memory):
                self._changed.wait(_POLL_S)
                check()
            self._running.append(memory)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(memory)
                self._changed.notify_all()

    def _fits(self, memory: int) -> bool:
        if not self._running:
            # Not later: memory that a guest has not touched yet seems to be free.
            self._most, self._free = usable_processors(), free_memory()
            return True
        return len(self._running) < self._most and sum(self._running) + memory <= self._free


def usable_processors() -> int:
    """Return how many processors this process can use, by its affinity and by the quotas of its control groups."""
    counts = [float(len(os.sched_getaffinity(0)))]
    for group in _groups("cpu"):
        # Version 2 of control groups has both in one file. No quota is "max" in version 2 and -1 in version 1.
        words = [*_words(group / "cpu.max"), *_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
        if len(words) == 2 and words[0].isdigit():
            counts.append(int(words[0]) / int(words[1]))
    return max(1, int(min(counts)))


def free_memory() -> int:
    """Return the octets of memory that are free, at most the limit of the control groups of this process."""
    free = re.search(r"^MemAvailable: +(\d+) kB$", (_ROOT / "proc/meminfo").read_text(), re.MULTILINE)
    assert free is not None
    limits = [int(free[1]) << 10]
    for group in _groups("memory"):
        words = [*_words(group / "memory.max"), *_words(group / "memory.limit_in_bytes")]
        limits += [int(word) for word in words if word.isdigit()]
    return min(limits)


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of the control groups of this process that can limit it, and of their parents."""
    for line in _lines(_ROOT / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        top = _ROOT / "sys/fs/cgroup"
        if controllers:
            # Version 1: each controller has its own tree.
            top /= controller
        if not controllers or controller in controllers.split(","):
            own = top / path.lstrip("/")
            yield from (group for group in (own, *own.parents) if group.is_relative_to(top))


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: Path) -> list[str]:
    """Return the lines of a file; none if it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
