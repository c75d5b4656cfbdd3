"""An unmanaged switch: the wiring is as it is."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.lab.switchport import PortState
from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.lab import Switch


class FixedSwitch:
    """All ports reach each other, always; nothing can be asked and nothing set."""

    rewires = False

    def state(self, port: str) -> PortState:
        return PortState(admin_up=None, carrier=None, speed_mbps=None, duplex=None, group=None)

    def wire(self, ports: frozenset[str], undo: UndoStack) -> None:
        """Nothing to do: any group of ports is connected."""

    def close(self) -> None:
        """Nothing to close."""


def connect(switch: Switch, settings: Mapping[str, str]) -> FixedSwitch:
    """A fixed switch needs no settings."""
    return FixedSwitch()
