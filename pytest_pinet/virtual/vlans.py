"""Which VLAN each port of a switch is in, as Q-BRIDGE says it: three settings that must agree before traffic flows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

DEFAULT_VLAN = 1
LARGEST_VLAN = 4094


@dataclass
class Vlan:
    """A row of dot1qVlanStaticTable; ports are numbers of bridge ports."""

    name: bytes = b""
    egress: frozenset[int] = frozenset()
    untagged: frozenset[int] = frozenset()


@dataclass
class VlanTable:
    """Nothing here touches the kernel; ``home`` says what it is to do."""

    pvid: dict[int, int]
    vlans: dict[int, Vlan] = field(default_factory=dict)

    @classmethod
    def fresh(cls, ports: Iterable[int]) -> VlanTable:
        """All ports in the default VLAN, as a switch leaves the factory."""
        every = frozenset(ports)
        return cls(dict.fromkeys(every, DEFAULT_VLAN), {DEFAULT_VLAN: Vlan(b"default", every, every)})

    def copy(self) -> VlanTable:
        return VlanTable(dict(self.pvid), {vid: Vlan(v.name, v.egress, v.untagged) for vid, v in self.vlans.items()})

    def home(self, port: int) -> int | None:
        """The VLAN in which a port forwards both ways without a tag; None while its settings disagree."""
        vlan = self.vlans.get(self.pvid[port])
        return self.pvid[port] if vlan is not None and port in vlan.egress & vlan.untagged else None
