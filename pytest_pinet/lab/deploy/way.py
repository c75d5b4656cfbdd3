"""The seam: a way to bring a build onto a board, and what a board must be able to do for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any, Protocol

from pytest_pinet.lab.console_record import ConsoleRecord
from pytest_pinet.model.build import Build
from pytest_pinet.shell import Completed, Shell

# Which lab boots kernels where no hardware is at hand; stands in refusals.
ELSEWHERE = "a kernel needs a Raspberry Pi, or an emulated board (lab/emulated.yaml)"


class Refused(Exception):
    """This board cannot take this build in this way; one sentence. Never leaves the room."""


class FeedingShell(Shell, Protocol):
    """A shell that also takes what a command is to read."""

    def feed(self, command: str, source: IO[bytes], timeout_s: float) -> Completed:
        """As ``run``, with ``source`` as standard input. Raises SshError."""


class Board(Protocol):
    """A leased board that answers over ssh."""

    @property
    def name(self) -> str: ...

    @property
    def boots(self) -> bool:
        """Whether a boot is ours to ask for."""

    @property
    def record(self) -> ConsoleRecord | None:
        """What its console printed; None where nothing records it."""

    @property
    def shell(self) -> FeedingShell:
        """Only while it is logged into."""

    def reboot(self, command: str) -> None:
        """Boot by a command of its own, keeping its power, and log in. Raises ConsoleError, SshError, PowerError."""

    def power_cycle(self) -> None:
        """Take its power, give it back, log in. Raises LabError."""

    def power_off(self) -> None:
        """Take its power; ``power_cycle`` gives it back. Raises PowerError."""

    def driver(self, name: str) -> Any:
        """The labgrid driver of this class, active; None where the lab has none for this board."""


class Way(Protocol):
    """One way; a file each. Nothing but ``check`` may be called before ``check`` let the build through."""

    @property
    def name(self) -> str:
        """As messages call it."""

    @property
    def boots(self) -> bool:
        """Whether ``start`` boots the board."""

    def check(self, build: Build) -> None:
        """Ask the board, change nothing.

        Raises Refused, ConfigError for what contradicts the board, BuildError for another processor's build, SshError.
        """

    def deploy(self, build: Build) -> None:
        """Put there what ``start`` needs, beside what is there.

        Raises ChangedBuildError where a file of the build is not what was read, LabError, SshError.
        """

    def start(self, build: Build) -> None:
        """Make it what runs. Raises BuildError, LabError."""

    def take_back(self, builds: Iterable[Build]) -> None:
        """Remove what ``deploy`` and ``start`` left of these. Raises LabError, SshError."""
