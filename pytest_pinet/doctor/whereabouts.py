"""Which NIC is at which switch port, from what the switches tell of their neighbours: pure matching.

LLDP comes first: it names system and device. Else the port whose switch has learned the NIC's address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.lab.switchport import Capability, Neighbour
from pytest_pinet.model.lab import Interface, PortRef

Neighbours = Mapping[PortRef, frozenset[Neighbour]]


@dataclass(frozen=True)
class Nic:
    """An interface as its node describes itself: the name that LLDP announces, and the address of the device."""

    interface: Interface
    host: str
    mac: str


@dataclass(frozen=True)
class Sighting:
    """Where a NIC was seen, and how; several ports when that is not clear, none when it was seen nowhere."""

    nic: Nic
    ports: tuple[PortRef, ...] = ()
    source: Capability | None = None

    @property
    def port(self) -> PortRef | None:
        """The one port where it must be, or None."""
        return self.ports[0] if len(self.ports) == 1 else None


def locate(nics: Sequence[Nic], neighbours: Neighbours) -> list[Sighting]:
    """A sighting for each NIC.

    ``neighbours`` must leave out the ports of uplinks, on which a switch learns the NICs of other switches.
    """
    # Boards that share a name (raspberrypi) cannot be told apart by it.
    hosts = Counter(host for host, _ in {(nic.host, nic.interface.node) for nic in nics})
    return [_locate(nic, neighbours, hosts[nic.host] == 1) for nic in nics]


def _locate(nic: Nic, neighbours: Neighbours, named: bool) -> Sighting:
    ways = {
        Capability.LLDP: lambda neighbour: _announces(neighbour, nic, named),
        Capability.FDB: lambda neighbour: neighbour.source is Capability.FDB and neighbour.mac == nic.mac,
    }
    for source, fits in ways.items():
        ports = tuple(sorted(port for port, seen in neighbours.items() if any(map(fits, seen))))
        if ports:
            return Sighting(nic, ports, source)
    return Sighting(nic)


def _announces(neighbour: Neighbour, nic: Nic, named: bool) -> bool:
    if neighbour.source is not Capability.LLDP:
        return False
    device = nic.interface.device
    if named and neighbour.system == nic.host and neighbour.port == device:
        return True
    # The address may be that of the chassis, which is another NIC's of the same node.
    return neighbour.mac == nic.mac and neighbour.port in (None, device, nic.mac)
