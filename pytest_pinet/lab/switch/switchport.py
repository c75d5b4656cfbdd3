"""The interface of switch backends. A backend reads and sets the ports of one switch; each backend has one file.

``managed_switch`` does the rest for all backends: the allow-list of ports, the read-back, groups, and restoring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Protocol, cast

from pydantic import TypeAdapter

from pytest_pinet.catalogue.load import read_data
from pytest_pinet.execution.entry_points import SWITCH_BACKENDS
from pytest_pinet.model.evidence import PortCounters
from pytest_pinet.model.lab import Switch

__all__ = ["UNPLACED", "About", "Capability", "Neighbour", "PortCounters", "PortState", "SwitchBackend", "connect"]

# In place of a port, for neighbours that the switch has seen without a proof of the port.
UNPLACED = ""


class Capability(StrEnum):
    """What a switch can read or set through its backend. ``admin``, ``vlan`` and ``poe`` are settings."""

    LINK = "link"
    ADMIN = "admin"
    VLAN = "vlan"
    COUNTERS = "counters"
    POE = "poe"
    LLDP = "lldp"
    FDB = "fdb"


@dataclass(frozen=True)
class PortState:
    """The state of a port as the switch reports it; None is unknown. ``vlan`` is the access (untagged) VLAN."""

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
    """The neighbour at the far end of a port's cable, from LLDP (``system`` and ``port``) or from a learned ``mac``.

    ``source`` is ``Capability.LLDP`` or ``Capability.FDB``; ``mac`` is lower case with colons.
    """

    source: Capability
    mac: str | None = None
    system: str | None = None
    port: str | None = None


@dataclass(frozen=True)
class About:
    """What is known about a switch beside its ports.

    ``title`` names its kind. ``tested_on`` lists the software of the vendor on which this kind ran, ``sources`` what
    else its requests and answers were checked against. ``note`` says, after "because", why some settings of its ports
    cannot be changed; empty if nothing forbids it. The sysObjectID of an SNMP agent of this kind begins with
    ``object_id``.
    """

    title: str
    tested_on: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    note: str = ""
    object_id: str = ""

    @property
    def is_untested(self) -> bool:
        """Whether it never ran with the vendor's software."""
        return not self.tested_on


class SwitchBackend(Protocol):
    """The backend of one switch. Raises SwitchError, also when the switch cannot be reached.

    Callers only call what ``capabilities`` contains. Methods that set return when the switch has answered; the caller
    reads the result back.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of this switch; may send requests at the first use."""

    @property
    def about(self) -> About:
        """What is known about this switch; may send requests at the first use."""

    def states(self, ports: Iterable[str]) -> Mapping[str, PortState]:
        """Return the current states of these ports, in as few round trips as possible."""

    def configure(self, changes: Mapping[str, PortState]) -> None:
        """Set admin state, VLAN and power of these ports, in as few round trips as possible; create missing VLANs.

        None leaves a setting as it is.
        """

    def remove_vlan(self, vlan: int) -> None:
        """Delete a VLAN without members that ``configure`` created; does nothing if it does not exist."""

    def counters(self, ports: Iterable[str]) -> Mapping[str, PortCounters]:
        """Return the counters of these ports."""

    def neighbours(self, ports: Iterable[str]) -> Mapping[str, frozenset[Neighbour]]:
        """Return the neighbours at the far end of these ports, from all sources that the switch has.

        UNPLACED has the neighbours whose port is not certain, if there are any.
        """

    def close(self) -> None:
        """End the connection to the switch."""


def neighbours_by_port(ports: Iterable[str], found: Iterable[tuple[str, Neighbour]]) -> dict[str, frozenset[Neighbour]]:
    """Group neighbours by port. Each of ``ports`` has an entry; neighbours of other ports are left out."""
    result: dict[str, set[Neighbour]] = {port: set() for port in ports}
    for port, neighbour in found:
        if port == UNPLACED:
            result.setdefault(UNPLACED, set())
        if port in result:
            result[port].add(neighbour)
    return {port: frozenset(neighbours) for port, neighbours in result.items()}


def connect(switch: Switch, settings: Mapping[str, str]) -> SwitchBackend:
    """Connect through the backend of the lab file; ``settings`` are filled in. Raises ConfigError, SwitchError."""
    made, what = SWITCH_BACKENDS.make(switch.backend, switch, settings, takes="a switch and its settings")
    SWITCH_BACKENDS.require(made, what, SwitchBackend)
    return cast(SwitchBackend, made)


# The kinds of switches of the backends ``linux`` and ``snmp``, and what each kind was tested on.


@cache
def kinds() -> dict[str, list[About]]:
    """Return the kinds of ``catalogue/switch_kinds.yaml`` by backend. The file is read once."""
    return TypeAdapter(dict[str, list[About]]).validate_python(read_data("switch_kinds.yaml"))


def linux_kind() -> About:
    """Return the kind of all Linux switches."""
    return kinds()["linux"][0]


def snmp_kind(object_id: str) -> About:
    """Return the kind of an agent with this sysObjectID (``1.3.6.1...``)."""
    fitting = [k for k in kinds()["snmp"] if not k.object_id or f"{object_id}.".startswith(f"{k.object_id}.")]
    return max(fitting, key=lambda kind: len(kind.object_id))
