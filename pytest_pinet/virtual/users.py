"""Who uses a lab that runs, so that nobody stops it under another."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Users:
    """A file for each run, on which every process of that run holds a shared ``flock`` as long as it uses the lab.

    A process that dies lets go, however it dies. Joining and counting go under ``Runtime.locked``; leaving, which is to
    close the descriptor, needs no lock.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def join(self, run: str) -> int:
        """A descriptor that counts as a user until it is closed; children do not inherit it over an exec."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(self._directory / run, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return fd

    def runs(self) -> list[str]:
        """The runs of which at least one process uses the lab; forgets the others."""
        found = []
        for file in sorted(self._directory.glob("*")):
            fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink()
            except BlockingIOError:
                found.append(file.name)
            finally:
                os.close(fd)
        return found
