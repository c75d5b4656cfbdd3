"""An unmanaged switch: the wiring is as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_pinet.lab.switchport import Capability, Neighbour, PortCounters, PortState
from pytest_pinet.model.lab import Switch


class FixedSwitch:
    """All ports reach each other, always; nothing can be asked and nothing set."""

    capabilities: frozenset[Capability] = frozenset()

    def states(self, ports: Iterable[str]) -> Mapping[str, PortState]:
        """Nobody tells."""
        return {port: PortState() for port in ports}

    def configure(
        self, port: str, admin_up: bool | None = None, vlan: int | None = None, poe: bool | None = None
    ) -> None:
        """Never called: there is no capability."""

    def remove_vlan(self, vlan: int) -> None:
        """Never called: there is no capability."""

    def counters(self, ports: Iterable[str]) -> Mapping[str, PortCounters]:
        """Nothing is counted."""
        return {}

    def neighbours(self, ports: Iterable[str]) -> Mapping[str, frozenset[Neighbour]]:
        """Nobody is known."""
        return {port: frozenset() for port in ports}

    def close(self) -> None:
        """Nothing to close."""


def connect(switch: Switch, settings: Mapping[str, str]) -> FixedSwitch:
    """A fixed switch needs no settings."""
    return FixedSwitch()
