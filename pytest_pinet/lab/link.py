"""A link: ends that were made to reach each other, and what was found between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.evidence.interface import InterfaceState
from pytest_pinet.lab import cabling, forwarding, link_checks
from pytest_pinet.lab.addressing import addresses
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.end import End, bring_up, check_not_management, look_around
from pytest_pinet.lab.managed_switch import ManagedSwitch
from pytest_pinet.lab.node_session import NodeSession
from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import PortRef, Uplink
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.tuning import Tuned


@dataclass
class Link:
    """One combination, cabled and checked; what the ``link`` fixture gives to a test.

    ``ends`` are numbered as in the topology, 0 is the device under test; ``states`` is how each was found.
    ``tunings`` is what came of each setting that is in force, ``tried`` of each that was since the link was opened.
    ``scale`` is the share of its rate at which it runs; figures are told at full rate (``traffic.scaled``).
    """

    combination: Combination
    ends: tuple[End, ...]
    states: tuple[InterfaceState, ...]
    switches: Mapping[str, ManagedSwitch]
    tunings: tuple[Tuned, ...] = ()
    tried: list[Tuned] = field(default_factory=list)
    scale: float = 1.0

    @property
    def id(self) -> str:
        return self.combination.id

    @property
    def dut(self) -> End:
        return self.ends[0]

    @property
    def peer(self) -> End:
        return self.ends[1]

    @property
    def path(self) -> Path:
        """The wire between the device under test and its peer."""
        return self.path_between(0, 1)

    def crossed(self, a: int, b: int) -> tuple[int, ...]:
        """The ends that traffic from ``a`` to ``b`` crosses, in order: the NICs of a node that forwards among them."""
        if self.combination.topology.forwards and {a, b} == {1, 3}:
            return (3, 2, 0, 1) if a == 3 else (1, 0, 2, 3)
        return (a, b)

    def uplinks_between(self, a: int, b: int) -> tuple[Uplink, ...]:
        """The cables between switches that traffic between these two ends crosses."""
        crossed = self.crossed(a, b)
        found: list[Uplink] = []
        for segment, uplinks in zip(self.combination.topology.segments, self.combination.uplinks, strict=True):
            here = {self.ends[i].endpoint.interface.port.switch for i in crossed if i in segment}
            found += uplinks if len(here) > 1 else ()
        return tuple(found)

    def path_between(self, a: int, b: int) -> Path:
        """What the wires between two ends were found to be: the slowest of them."""
        found = [(self.ends[index], self.states[index]) for index in self.crossed(a, b)]
        # What the drivers say; the lab file's word where one does not tell.
        speeds = [state.speed_mbps or end.endpoint.interface.speed_mbps for end, state in found]
        return Path(
            speed_mbps=min([*speeds, *(uplink.speed_mbps for uplink in self.uplinks_between(a, b))]),
            duplex="full" if all(state.duplex == "full" for _, state in found) else None,
            mtu=min(state.mtu for _, state in found),
            timestamps=all(state.tcp_timestamps for _, state in found),
        )


def connect(
    combination: Combination,
    sessions: Mapping[str, NodeSession],
    switches: Mapping[str, ManagedSwitch],
    undo: UndoStack,
) -> Link:
    """Wire the switch ports, give all ends an address and check the link; every change goes into ``undo``.

    Raises LinkError or SwitchError (naming the port) and InvalidMeasurement (wrong speed or duplex).
    """
    topology = combination.topology
    ends = tuple(
        End(endpoint, sessions[endpoint.node.name], sessions[endpoint.node.name].shell, address)
        for endpoint, address in zip(combination.ends, addresses(combination), strict=True)
    )
    surroundings = [look_around(end) for end in ends]
    for end, around in zip(ends, surroundings, strict=True):
        if switches[end.endpoint.interface.port.switch].rewires:
            check_not_management(end, around)
    _wire(combination, switches, undo)
    found = [bring_up(end, around, undo) for end, around in zip(ends, surroundings, strict=True)]
    deadline = Deadline(link_checks.CARRIER_TIMEOUT_S)
    states = tuple(
        link_checks.await_carrier(end, state, switches[end.endpoint.interface.port.switch], deadline)
        for end, state in zip(ends, found, strict=True)
    )
    for end, state in zip(ends, states, strict=True):
        link_checks.check_negotiation(end, state)
    # A switch that cannot separate segments is wired as it is, and everything reaches everything.
    isolated = all(switch.rewires for switch in switches.values()) and not topology.forwards
    link_checks.check_reachable(
        [[ends[index] for index in segment] for segment in topology.segments],
        states,
        isolated,
        on_silence=lambda: cabling.search(ends, states, switches),
    )
    cabling.check(ends, states, switches)
    if topology.forwards:
        dut, near, second, far = ends
        forwarding.set_up(dut, near, second, far, undo)
    return Link(combination, ends, states, dict(switches))


def _wire(combination: Combination, switches: Mapping[str, ManagedSwitch], undo: UndoStack) -> None:
    """Make each segment a group of its own on every switch that it touches, its uplinks included."""
    groups: dict[str, list[frozenset[str]]] = {}
    for segment, uplinks in zip(combination.topology.segments, combination.uplinks, strict=True):
        ports = [combination.ends[index].interface.port for index in segment]
        ports += [port for uplink in uplinks for port in uplink.ports]
        for name in dict.fromkeys(port.switch for port in ports):
            groups.setdefault(name, []).append(frozenset(port.port for port in ports if port.switch == name))
    for name, wanted in groups.items():
        switches[name].wire(wanted, undo)


def switches_of(combination: Combination) -> list[str]:
    """The names of all switches that a combination uses, sorted."""
    ports: list[PortRef] = [end.interface.port for end in combination.ends]
    ports += [port for uplinks in combination.uplinks for uplink in uplinks for port in uplink.ports]
    return sorted({port.switch for port in ports})
