"""The interfaces of settings: of a running node, and of a boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from pytest_pinet.execution.shell import Completed, Shell, as_root

# Commands run with English messages, because their output is parsed.
_PLAIN = "LC_ALL=C; export LC_ALL"
# A driver may close and open its device for a change, which takes time.
CHANGE_TIMEOUT_S = 20.0


class NoKnob(Exception):
    """The setting does not exist here; the text says why. This exception never leaves the package."""


class SettingScope(Enum):
    """The devices or nodes that a setting applies to."""

    DUT_DEVICE = "the NICs of the device under test"
    DUT_NODE = "the device under test"
    ALL_DEVICES = "the NICs of all ends"
    ALL_NODES = "the nodes of all ends"

    @property
    def per_node(self) -> bool:
        return self in (SettingScope.DUT_NODE, SettingScope.ALL_NODES)

    @property
    def everywhere(self) -> bool:
        return self in (SettingScope.ALL_DEVICES, SettingScope.ALL_NODES)


@dataclass(frozen=True)
class SettingPlace:
    """A device of a node. ``others`` are the addresses that the device reaches over its link.

    ``root`` is put before every path of /sys and /proc, so that tests can use another tree.
    """

    shell: Shell
    device: str
    end: str
    node: str
    others: tuple[str, ...] = ()
    root: str = ""

    def ask(self, command: str) -> Completed:
        """Run a command that changes nothing. Raises SshError."""
        return self.shell.run(f"PATH=$PATH:/usr/sbin:/sbin; {_PLAIN}; {command}")

    def change(self, command: str) -> Completed:
        """Run a command as root. The caller checks the exit status. Raises SshError."""
        return self.shell.run(as_root(f"{_PLAIN}; {command}"), timeout_s=CHANGE_TIMEOUT_S)

    @property
    def sysfs(self) -> str:
        return f"{self.root}/sys/class/net/{self.device}"


@dataclass(frozen=True)
class SettingReading:
    """The values of a setting's knobs; ``text`` is their short form for reports.

    An undo must restore ``values``. ``context`` holds further facts that the setting needs.
    """

    values: Mapping[str, str]
    text: str
    context: Mapping[str, str] = field(default_factory=dict)


class AnySetting(Protocol):
    """A setting of the axis ``tuning=``; ``form`` describes the accepted values."""

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> str: ...

    def parse(self, value: object) -> str:
        """Return the value in the form that ids use. Raises ValueError with the accepted form."""

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        """Read the present values. Raises NoKnob if the node does not report them, SshError."""

    def holds(self, requested: str, now: SettingReading) -> bool:
        """Return whether the reading has the requested value."""


class Setting(AnySetting, Protocol):
    """A setting of a running node. ``where`` is its scope; ``disruptive``: the link may go down and come back."""

    @property
    def where(self) -> SettingScope: ...

    @property
    def disruptive(self) -> bool: ...

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        """Return the shell command that applies the setting as root. Raises NoKnob."""

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        """Return the shell command that undoes the change. ``after`` is None until the change is read back."""

    def effect(self, place: SettingPlace, requested: str) -> str:
        """Return why the applied setting has no effect.

        Empty if the setting has an effect, or if only traffic can show the effect.
        """


class DeviceSetting:
    """The usual values for a setting of the NICs of the device under test: not disruptive, and always effective."""

    where = SettingScope.DUT_DEVICE
    disruptive = False

    def effect(self, place: SettingPlace, requested: str) -> str:
        return ""


@dataclass(frozen=True)
class BootLines:
    """Lines to add to config.txt and words to add to the kernel's command line, for one trial boot."""

    config: tuple[str, ...] = ()
    cmdline: tuple[str, ...] = ()

    def with_config(self, *lines: str) -> BootLines:
        """Return these lines with ``lines`` after them. Of two lines for one setting, the firmware takes the last."""
        return replace(self, config=(*self.config, *lines))

    def with_parameters(self, parameters: Sequence[str]) -> BootLines:
        """Return these lines and words for the kernel's command line, each once."""
        return replace(self, cmdline=tuple(dict.fromkeys((*self.cmdline, *parameters))))


NO_LINES = BootLines()


class BootSetting(AnySetting, Protocol):
    """A setting that takes lines in the boot files. The result is read after the boot."""

    def edit(self, lines: BootLines, requested: str) -> BootLines:
        """Return the lines of the boot files with this setting."""
