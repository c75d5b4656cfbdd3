"""Matches NICs to switch ports by what the switches report about their neighbours. This module does no I/O.

LLDP comes first, because it names system and device. Without LLDP, the port that has learned the NIC's address counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.lab.switch.switchport import Capability, Neighbour
from pytest_pinet.model.lab import Interface, PortRef

Neighbours = Mapping[PortRef, frozenset[Neighbour]]


@dataclass(frozen=True)
class AnnouncedNic:
    """An interface as its node describes it: the host name that LLDP announces, and the device's address."""

    interface: Interface
    host: str
    mac: str


@dataclass(frozen=True)
class Sighting:
    """Where a NIC was seen, and by which method. Several ports: not clear. No port: not seen."""

    nic: AnnouncedNic
    ports: tuple[PortRef, ...] = ()
    source: Capability | None = None

    @property
    def port(self) -> PortRef | None:
        """The port of the NIC if exactly one was found, else None."""
        return self.ports[0] if len(self.ports) == 1 else None


def locate(nics: Sequence[AnnouncedNic], neighbours: Neighbours) -> list[Sighting]:
    """Return a sighting for each NIC.

    ``neighbours`` must not include uplink ports, where a switch learns the NICs of other switches.
    """
    # Boards with the same host name (raspberrypi) cannot be distinguished by it.
    hosts = Counter(host for host, _ in {(nic.host, nic.interface.node) for nic in nics})
    return [_locate(nic, neighbours, hosts[nic.host] == 1) for nic in nics]


def _locate(nic: AnnouncedNic, neighbours: Neighbours, named: bool) -> Sighting:
    ways = {
        Capability.LLDP: lambda neighbour: _announces(neighbour, nic, named),
        Capability.FDB: lambda neighbour: neighbour.source is Capability.FDB and neighbour.mac == nic.mac,
    }
    for source, fits in ways.items():
        ports = tuple(sorted(port for port, seen in neighbours.items() if any(map(fits, seen))))
        if ports:
            return Sighting(nic, ports, source)
    return Sighting(nic)


def _announces(neighbour: Neighbour, nic: AnnouncedNic, named: bool) -> bool:
    if neighbour.source is not Capability.LLDP:
        return False
    device = nic.interface.device
    if named and neighbour.system == nic.host and neighbour.port == device:
        return True
    # The address can be the chassis address, which belongs to another NIC of the same node.
    return neighbour.mac == nic.mac and neighbour.port in (None, device, nic.mac)
