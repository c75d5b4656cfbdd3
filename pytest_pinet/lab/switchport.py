"""The seam to switches: what a backend can do with the ports of one switch, one backend a file.

A backend only asks and sets. What every switch needs besides (the allow-list of ports, the read-back, groups,
restoring) is ``managed_switch``, once for all.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, cast

from pytest_pinet.model.counters import PortCounters
from pytest_pinet.model.lab import Switch

__all__ = ["BACKENDS", "Capability", "Neighbour", "PortCounters", "PortState", "SwitchBackend", "connect"]

# Name in the lab file -> module that holds a ``connect(switch, settings)`` factory.
BACKENDS: dict[str, str] = {
    "cli": "pytest_pinet.lab.switch_cli",
    "fixed": "pytest_pinet.lab.switch_fixed",
    "linux": "pytest_pinet.lab.switch_linux",
    "snmp": "pytest_pinet.lab.switch_snmp",
}


class Capability(StrEnum):
    """What a switch can be asked for or told, by this backend."""

    LINK = "link"
    ADMIN = "admin"
    VLAN = "vlan"
    COUNTERS = "counters"
    POE = "poe"
    LLDP = "lldp"
    FDB = "fdb"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class PortState:
    """What a switch says of one port; None is what it cannot tell. ``vlan`` is the access (untagged) VLAN."""

    admin_up: bool | None = None
    carrier: bool | None = None
    speed_mbps: int | None = None
    duplex: str | None = None
    vlan: int | None = None
    poe: bool | None = None

    def __str__(self) -> str:
        if self.admin_up is False:
            return "administratively down"
        if self.carrier is False:
            return "no link"
        if self.carrier is None:
            return "state unknown"
        return f"up, {self.speed_mbps or '?'} Mbit/s {self.duplex or ''}".rstrip()


@dataclass(frozen=True)
class Neighbour:
    """Who is at the far end of a port's cable: by LLDP (``system`` and ``port`` name it) or by a learned ``mac``.

    ``source`` is ``Capability.LLDP`` or ``Capability.FDB``; ``mac`` is lower case with colons.
    """

    source: Capability
    mac: str | None = None
    system: str | None = None
    port: str | None = None


class SwitchBackend(Protocol):
    """One switch. Errors are SwitchError (also when it cannot be reached); what it cannot do is not called.

    Methods that set return when the switch has answered; whether it did what it said is read back by the caller.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this switch can do; may ask it once."""

    def states(self, ports: Iterable[str]) -> Mapping[str, PortState]:
        """What the switch says of these ports now, in as few round trips as it can."""

    def configure(
        self, port: str, admin_up: bool | None = None, vlan: int | None = None, poe: bool | None = None
    ) -> None:
        """Set what is given and leave the rest; a VLAN that does not exist on the switch is made."""

    def remove_vlan(self, vlan: int) -> None:
        """Delete a VLAN that ``configure`` made, without members; harmless when it is not there."""

    def counters(self, ports: Iterable[str]) -> Mapping[str, PortCounters]:
        """What these ports have counted."""

    def neighbours(self, ports: Iterable[str]) -> Mapping[str, frozenset[Neighbour]]:
        """Who is at the far end of these ports, by all ways that the switch has."""

    def close(self) -> None:
        """End the connection to the switch."""


def connect(switch: Switch, settings: Mapping[str, str]) -> SwitchBackend:
    """Reach a switch by the backend that its lab file entry names. ``settings`` are its own, variables filled in."""
    module = importlib.import_module(BACKENDS[switch.backend])
    return cast(SwitchBackend, module.connect(switch, settings))
