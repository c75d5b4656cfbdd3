"""The users of a running lab, so that a run does not stop a lab that another run uses."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Users:
    """A file for each run. Every process of the run holds a shared ``flock`` on the file while it uses the lab.

    The kernel releases the lock of a process that dies. ``join`` and ``runs`` need ``Runtime.locked``. To leave, a
    process closes the descriptor, without a lock.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def join(self, run: str) -> int:
        """Return a descriptor that counts as a user until it is closed. It is not inherited over an exec."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(self._directory / run, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return fd

    def runs(self) -> list[str]:
        """Return the runs in which a process uses the lab. Remove the files of other runs."""
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
