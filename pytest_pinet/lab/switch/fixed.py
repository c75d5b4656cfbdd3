"""An unmanaged switch, whose wiring cannot be changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_pinet.lab.switch.switchport import About, Capability, Neighbour, PortCounters, PortState
from pytest_pinet.model.lab import Switch


class FixedSwitch:
    """A switch whose ports always reach each other; it has nothing to read or set."""

    capabilities: frozenset[Capability] = frozenset()
    # Nothing of it is used, so every unmanaged switch will do.
    about = About("unmanaged switch", ("any",))

    def states(self, ports: Iterable[str]) -> Mapping[str, PortState]:
        return {port: PortState() for port in ports}

    def configure(self, changes: Mapping[str, PortState]) -> None:
        """Never called: the switch has no capability."""

    def remove_vlan(self, vlan: int) -> None:
        """Never called: the switch has no capability."""

    def counters(self, ports: Iterable[str]) -> Mapping[str, PortCounters]:
        return {}

    def neighbours(self, ports: Iterable[str]) -> Mapping[str, frozenset[Neighbour]]:
        return {port: frozenset() for port in ports}

    def close(self) -> None:
        """Do nothing."""


def connect(switch: Switch, settings: Mapping[str, str]) -> FixedSwitch:
    """Return a fixed switch, which needs no settings."""
    return FixedSwitch()
