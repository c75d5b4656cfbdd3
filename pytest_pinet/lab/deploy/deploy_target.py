"""The interface of a way to deploy a build, and the functions that it needs from a board."""

from __future__ import annotations

from typing import IO, Any, Protocol

from pytest_pinet.execution.shell import Completed, Shell
from pytest_pinet.lab.console.record import ConsoleRecord
from pytest_pinet.model.build import Build

# Where a kernel can be booted instead; part of the messages of refusals.
ELSEWHERE = "a kernel needs a Raspberry Pi, or an emulated board (--lab emulated)"


class Refused(Exception):
    """This board cannot take this build in this way; the text is one sentence.

    ``Deployment.check`` turns it into UnsupportedError.
    """


class FeedingShell(Shell, Protocol):
    """A shell that can also pass a file to the standard input of a command.

    ``fence`` is the start of each of its command lines (``lab/board_lock/fence.py``).
    """

    fence: str

    def feed(self, command: str, source: IO[bytes], timeout_s: float) -> Completed:
        """Run a command like ``run``, with ``source`` as standard input. Raises SshError."""

    def fetch(self, command: str, timeout_s: float) -> bytes:
        """Return the standard output of a command. Raises LabError if the command fails, and SshError."""


class DeployableBoard(Protocol):
    """A leased board that answers over ssh."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str:
        """The name of its model in the catalogue or the lab file."""

    @property
    def boots(self) -> bool:
        """Whether the deployment can boot this board."""

    @property
    def has_power(self) -> bool:
        """Whether its power can be switched."""

    @property
    def boot_timeout_s(self) -> float:
        """How long a boot may take."""

    @property
    def record(self) -> ConsoleRecord | None:
        """The record of what its console printed, or None if nothing records it."""

    @property
    def shell(self) -> FeedingShell:
        """The board's shell; only while we are logged in."""

    def lock_for_trial(self) -> None:
        """Take the lock that the guard of a trial reads, on a board without power. Raises LeaseError, SshError."""

    def reboot(self, command: str) -> None:
        """Reboot with this command, without a power cycle, and log in. Raises ConsoleError, SshError, PowerError."""

    def power_cycle(self) -> None:
        """Switch its power off and on, and log in. Raises LabError."""

    def reset(self) -> None:
        """Shut it down and cut its power; ``power_cycle`` switches it on again. Raises PowerError, ShutdownError."""

    def warn(self, warning: str) -> None:
        """Show this sentence to the user at the end of the run."""

    def driver(self, name: str) -> Any:
        """Return the active labgrid driver of this class, or None if the lab has no such driver for this board."""


class DeployTarget(Protocol):
    """A way to deploy builds. Each way has one file.

    The other methods may be called only after ``check`` accepted the build.
    """

    @property
    def name(self) -> str:
        """The name of this way in messages."""

    @property
    def boots(self) -> bool:
        """Whether ``start`` boots the board."""

    def check(self, build: Build) -> None:
        """Check whether the board can take this build, without changing anything.

        Raises Refused, ConfigError if the build contradicts the board, BuildError if it is for another processor,
        SshError.
        """

    def deploy(self, build: Build) -> None:
        """Put the files that ``start`` needs onto the board, beside the existing files.

        Raises ChangedBuildError if a file of the build has changed since it was read, LabError, SshError.
        """

    def start(self, build: Build) -> None:
        """Make the board run this build. Raises BuildError, LabError."""
