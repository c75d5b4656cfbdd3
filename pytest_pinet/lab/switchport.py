"""The seam to switches: one backend a file, chosen by the switch's entry in the lab file."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.lab import Switch

# Name in the lab file -> module that holds a ``connect(switch, settings)`` factory.
BACKENDS: dict[str, str] = {
    "fixed": "pytest_pinet.lab.switch_fixed",
    "linux": "pytest_pinet.lab.switch_linux",
}


@dataclass(frozen=True)
class PortState:
    """What a switch says of one port; None is what it cannot tell."""

    admin_up: bool | None
    carrier: bool | None
    speed_mbps: int | None
    duplex: str | None
    group: str | None

    def __str__(self) -> str:
        if self.admin_up is False:
            return "administratively down"
        if self.carrier is False:
            return "no link"
        if self.carrier is None:
            return "state unknown"
        return f"up, {self.speed_mbps or '?'} Mbit/s {self.duplex or ''}".rstrip()


class SwitchBackend(Protocol):
    """A managed (or fixed) switch. Errors are SwitchError, or SshError when it cannot be reached."""

    @property
    def rewires(self) -> bool:
        """Whether ``wire`` takes ports away from what they are connected to."""

    def state(self, port: str) -> PortState:
        """What the switch says of this port now."""

    def wire(self, ports: frozenset[str], undo: UndoStack) -> None:
        """Let these ports reach each other and nobody else, and bring them up; read back, and undo through ``undo``."""

    def close(self) -> None:
        """End the connection to the switch."""


def connect(switch: Switch, settings: Mapping[str, str]) -> SwitchBackend:
    """Reach a switch by the backend that its lab file entry names. ``settings`` are its own, variables filled in."""
    module = importlib.import_module(BACKENDS[switch.backend])
    return cast(SwitchBackend, module.connect(switch, settings))
