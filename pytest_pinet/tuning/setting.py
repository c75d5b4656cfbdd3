"""The seam: what a setting of a running node must be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from pytest_pinet.shell import Completed, Shell, as_root

# Outputs are parsed, so they must be in the language that we know.
_PLAIN = "LC_ALL=C; export LC_ALL"
# A driver may close and open its device for a change.
CHANGE_TIMEOUT_S = 20.0


class NoKnob(Exception):
    """There is nothing to set here; the text says why. Never leaves the room."""


class Where(Enum):
    """What a setting belongs to, and which ends get it."""

    DUT_DEVICE = "the NICs of the device under test"
    DUT_NODE = "the device under test"
    ALL_DEVICES = "the NICs of all ends"
    ALL_NODES = "the nodes of all ends"

    @property
    def per_node(self) -> bool:
        return self in (Where.DUT_NODE, Where.ALL_NODES)

    @property
    def everywhere(self) -> bool:
        return self in (Where.ALL_DEVICES, Where.ALL_NODES)


@dataclass(frozen=True)
class Place:
    """A device of a node. ``others`` are the addresses that it reaches over its link.

    ``root`` stands before every path of /sys and /proc, for trees that stand in for them.
    """

    shell: Shell
    device: str
    end: str
    node: str
    others: tuple[str, ...] = ()
    root: str = ""

    def ask(self, command: str) -> Completed:
        """Run what changes nothing. Raises SshError."""
        return self.shell.run(f"PATH=$PATH:/usr/sbin:/sbin; {_PLAIN}; {command}")

    def change(self, command: str) -> Completed:
        """Run a command as root; a refusal is the caller's to judge. Raises SshError."""
        return self.shell.run(as_root(f"{_PLAIN}; {command}"), timeout_s=CHANGE_TIMEOUT_S)

    @property
    def sysfs(self) -> str:
        """The folder of the device."""
        return f"{self.root}/sys/class/net/{self.device}"


@dataclass(frozen=True)
class Reading:
    """What was read, by knob; ``text`` is all of it as short as a report takes.

    ``values`` are what an undo must bring back; ``context`` is what one must know beside them.
    """

    values: Mapping[str, str]
    text: str
    context: Mapping[str, str] = field(default_factory=dict)


class Setting(Protocol):
    """One name of the axis ``tuning=``; every file of this room but the machinery has one or more of them.

    ``form`` says what it takes, ``where`` who gets it. ``disruptive``: the link may go down and come back.
    """

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> str: ...

    @property
    def where(self) -> Where: ...

    @property
    def disruptive(self) -> bool: ...

    def parse(self, value: object) -> str:
        """The value as the id has it. Raises ValueError, which says what was expected."""

    def read(self, place: Place, asked: str) -> Reading:
        """What stands there now. Raises NoKnob, SshError."""

    def change(self, place: Place, asked: str, before: Reading) -> str:
        """The shell command, for root, that brings it about. Raises NoKnob."""

    def restore(self, place: Place, before: Reading, after: Reading | None) -> str:
        """The shell command that takes it back; ``after`` is None until the change has been read back."""

    def holds(self, asked: str, now: Reading) -> bool:
        """Whether this is what was asked for."""

    def effect(self, place: Place, asked: str) -> str:
        """Why it moves nothing although it holds; empty when it does, or when only traffic could tell."""
