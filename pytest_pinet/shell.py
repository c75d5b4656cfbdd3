"""The seam between what measures and where it runs: an end is just ``run`` and ``spawn``.

A node over ssh and the runner itself look the same to traffic, evidence, tunings and switch backends.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Completed:
    """A command that ended: exit status (255 is also what ssh gives when it lost the connection) and its text."""

    returncode: int
    stdout: str
    stderr: str


class Process(Protocol):
    """A command that runs."""

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""

    def wait(self, timeout_s: float) -> Completed:
        """Wait for the end. Raises TimeoutError when it does not come in time (the process goes on)."""

    def stop(self) -> Completed:
        """End it, here and on the far end, and return what it printed so far; harmless when it has ended."""

    def lines(self) -> list[str]:
        """The complete lines of standard output that arrived since the last call; never blocks."""


def as_root(command: str) -> str:
    """A command line that runs ``command`` as root, whoever logged in: itself, or by sudo without a password."""
    quoted = shlex.quote(f"PATH=$PATH:/usr/sbin:/sbin; {command}")
    return f'if [ "$(id -u)" = 0 ]; then sh -c {quoted}; else sudo -n sh -c {quoted}; fi'


class Shell(Protocol):
    """An end that takes POSIX shell command lines."""

    @property
    def name(self) -> str:
        """How messages call this end (``pi4b-1``)."""

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        """Run a command line to its end.

        A non-zero exit is the caller's to judge. Raises SshError when the end does not answer within ``timeout_s``.
        """

    def spawn(self, command: str) -> Process:
        """Start a command line and return at once. Raises SshError when the end does not answer."""
