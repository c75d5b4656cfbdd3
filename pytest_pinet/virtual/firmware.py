"""The firmware of a managed switch: settings of ports and VLANs, counters, and faults. Bridges forward the frames."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pytest_pinet.virtual.namespaces import NetNamespace, ip
from pytest_pinet.virtual.netlink import LinkInfo, Netlink
from pytest_pinet.virtual.pdu import Outlet
from pytest_pinet.virtual.port_counters import Counted, VirtualPortCounters

DEFAULT_VLAN = 1
LARGEST_VLAN = 4094
BRIDGE = "br0"
# Long enough that a walk of a table needs only a few kernel requests, and too short for a user to notice.
_SNAPSHOT_S = 0.01


def bridge_of(vid: int) -> str:
    """Return the name of a VLAN's bridge. Each VLAN has its own bridge, since not every kernel has VLAN filtering."""
    return BRIDGE if vid == DEFAULT_VLAN else f"br{vid}"


@dataclass
class Vlan:
    """A row of dot1qVlanStaticTable. Ports are bridge port numbers."""

    name: bytes = b""
    egress: frozenset[int] = frozenset()
    untagged: frozenset[int] = frozenset()


@dataclass
class VlanTable:
    """The VLAN settings of a switch, without the kernel. ``home`` returns the VLAN, and so the bridge, of a port."""

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


@dataclass(frozen=True)
class SwitchFaults:
    """Faults of a switch. ``lying`` ports acknowledge settings and ignore them; with ``lies``, all ports do."""

    dead: bool = False
    lies: bool = False
    lying: frozenset[str] = frozenset()
    stale_s: float = 0.0

    def words(self) -> list[str]:
        """Describe each fault in a few words. Empty if there is none."""
        found = ["does not answer"] if self.dead else []
        if self.lies or self.lying:
            found.append("lies" if self.lies else f"lies about {', '.join(sorted(self.lying))}")
        if self.stale_s:
            found.append(f"counters {self.stale_s:g} s old")
        return found


@dataclass
class Draft:
    """Requested settings. ``vlans`` is the whole table; ``admin`` and ``poe`` have only the ports to change."""

    vlans: VlanTable
    admin: dict[str, bool] = field(default_factory=dict)
    poe: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelState:
    """The state that the kernel reported at one moment."""

    links: Mapping[str, LinkInfo]
    counted: Mapping[str, Counted]
    learned: Sequence[tuple[str, int, int]]


class SwitchFirmware:
    """The firmware of one switch. ``ports`` are numbered from 1; ``powered`` are the outlets behind PoE ports."""

    def __init__(self, ports: Sequence[str], namespace: NetNamespace, damaged: Callable[[], Mapping[str, int]]) -> None:
        self.ports = tuple(ports)
        self.numbers = {port: number for number, port in enumerate(ports, start=1)}
        self.speeds_mbps: Mapping[str, int] = {}
        self.powered: Mapping[str, Outlet] = {}
        self.vlans = VlanTable.fresh(self.numbers.values())
        self.faults = SwitchFaults()
        self._namespace = namespace
        self._netlink = Netlink(namespace)
        self._counters = VirtualPortCounters(time.monotonic, damaged)
        self._poe = dict.fromkeys(ports, True)
        self._snapshot: KernelState | None = None
        self._taken_at = 0.0

    def negotiate(self, speeds_mbps: Mapping[str, int]) -> None:
        """Set the speeds of these ports."""
        self.speeds_mbps = {**self.speeds_mbps, **speeds_mbps}

    def power(self, outlets: Mapping[str, Outlet]) -> None:
        """Set the outlets behind the PoE ports."""
        self.powered = outlets

    def set_faults(self, faults: SwitchFaults) -> None:
        if faults.stale_s != self.faults.stale_s:
            self.snapshot(fresh=True)
            self._counters.delay(faults.stale_s)
        self.faults = faults

    def snapshot(self, fresh: bool = False) -> KernelState:
        """Return the state from the kernel, new or at most 10 ms old."""
        now = time.monotonic()
        if fresh or self._snapshot is None or now - self._taken_at > _SNAPSHOT_S:
            links = self._netlink.links()
            counted = self._counters.read(links, self._netlink.queues())
            self._snapshot, self._taken_at = KernelState(links, counted, self._netlink.learned()), now
        return self._snapshot

    @contextmanager
    def exchanging(self, port: str) -> Iterator[None]:
        """Keep the counters of a port while its device is replaced by another one."""
        self.snapshot(fresh=True)
        with self._counters.exchanging(port):
            yield
        self.snapshot(fresh=True)

    def poe(self, port: str) -> bool:
        """Return whether PoE is enabled on a port."""
        outlet = self.powered.get(port)
        return self._poe[port] if outlet is None else outlet.on

    def feeds(self, port: str) -> bool:
        """Return whether a port delivers power now."""
        return port in self.powered and self.powered[port].on

    def draft(self) -> Draft:
        return Draft(self.vlans.copy())

    async def apply(self, wanted: Draft) -> None:
        """Apply settings, except the settings that a lying switch ignores. Raises LabError."""
        if self.faults.lies:
            return
        self._forget_lies(wanted)
        before, after = self.vlans, wanted.vlans
        lines = []
        for vid in after.vlans.keys() - before.vlans.keys():
            lines.append(f"link add name {bridge_of(vid)} type bridge stp_state 0 forward_delay 0")
            lines.append(f"link set dev {bridge_of(vid)} up")
        for port, number in self.numbers.items():
            home = after.home(number)
            if home != before.home(number):
                lines.append(f"link set dev {port} {'nomaster' if home is None else f'master {bridge_of(home)}'}")
        lines += [f"link set dev {port} {'up' if up else 'down'}" for port, up in wanted.admin.items()]
        lines += [f"link del dev {bridge_of(vid)}" for vid in before.vlans.keys() - after.vlans.keys()]
        await ip(self._namespace, lines)
        self.vlans = after
        for port, on in wanted.poe.items():
            self._poe[port] = on
            outlet = self.powered.get(port)
            if outlet is not None:
                await (outlet.power_on() if on else outlet.power_off())
        self._snapshot = None

    def _forget_lies(self, wanted: Draft) -> None:
        for port in self.faults.lying:
            number = self.numbers[port]
            wanted.admin.pop(port, None)
            wanted.poe.pop(port, None)
            wanted.vlans.pvid[number] = self.vlans.pvid[number]
            for vid, vlan in wanted.vlans.vlans.items():
                old = self.vlans.vlans.get(vid)
                for name in ("egress", "untagged"):
                    was = old is not None and number in getattr(old, name)
                    kept = getattr(vlan, name) - {number}
                    setattr(vlan, name, kept | {number} if was else kept)

    def close(self) -> None:
        self._netlink.close()


def with_lies(faults: SwitchFaults, port: str | None) -> SwitchFaults:
    """Return the faults with one more lying port, or with the whole switch lying."""
    return replace(faults, lies=True) if port is None else replace(faults, lying=faults.lying | {port})
