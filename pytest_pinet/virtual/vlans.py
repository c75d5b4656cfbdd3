"""The VLAN of each port of a switch, as in Q-BRIDGE-MIB: traffic flows only if three settings agree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

DEFAULT_VLAN = 1
LARGEST_VLAN = 4094


@dataclass
class Vlan:
    """A row of dot1qVlanStaticTable. Ports are bridge port numbers."""

    name: bytes = b""
    egress: frozenset[int] = frozenset()
    untagged: frozenset[int] = frozenset()


@dataclass
class VlanTable:
    """The VLAN settings of a switch, without the kernel. ``home`` tells which bridge a port belongs to."""

    pvid: dict[int, int]
    vlans: dict[int, Vlan] = field(default_factory=dict)

    @classmethod
    def fresh(cls, ports: Iterable[int]) -> VlanTable:
        """Return factory settings: all ports in the default VLAN."""
        every = frozenset(ports)
        return cls(dict.fromkeys(every, DEFAULT_VLAN), {DEFAULT_VLAN: Vlan(b"default", every, every)})

    def copy(self) -> VlanTable:
        return VlanTable(dict(self.pvid), {vid: Vlan(v.name, v.egress, v.untagged) for vid, v in self.vlans.items()})

    def home(self, port: int) -> int | None:
        """Return the VLAN in which a port forwards untagged frames both ways, or None if its settings disagree."""
        vlan = self.vlans.get(self.pvid[port])
        return self.pvid[port] if vlan is not None and port in vlan.egress & vlan.untagged else None
