"""A link: ends that reach each other, and the properties of the path between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.evidence.interface import InterfaceState
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link import cabling, forwarding, link_checks
from pytest_pinet.lab.link.addressing import addresses
from pytest_pinet.lab.link.end import End, bring_up, check_not_management, read_surroundings
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import PortRef
from pytest_pinet.model.link_facts import LinkEnd, LinkFacts
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.tuning import Tuned


@dataclass
class Link:
    """One cabled and checked combination; the ``link`` fixture passes it to a test.

    ``ends`` are numbered as in the topology; 0 is the device under test. ``states`` holds the state of each end.
    ``tunings`` holds the outcomes of all settings in force, ``tried`` the outcomes of all settings since the link was
    opened. ``scale`` is the share of the full rate at which the link runs; results are converted to the full rate
    (``traffic.scaled``).
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
        """The path between the device under test and its peer."""
        return self.facts.path

    @property
    def facts(self) -> LinkFacts:
        """The facts for the verdict, as they are now: a tuning may change them."""
        here = self.combination
        ends = tuple(_facts(end, state) for end, state in zip(self.ends, self.states, strict=True))
        return LinkFacts(here.identity, here.topology, ends, here.uplinks, self.scale)


def _facts(end: End, state: InterfaceState) -> LinkEnd:
    interface = end.endpoint.interface
    return LinkEnd(
        node=interface.node,
        interface=interface.name,
        board=end.endpoint.node.board.name,
        nic=interface.label,
        switch=interface.port.switch,
        bus=interface.bus,
        rated_mbps=interface.nic.speed_mbps,
        cabled_mbps=interface.speed_mbps,
        negotiated_mbps=state.speed_mbps,
        duplex=state.duplex,
        mtu=state.mtu,
        timestamps=state.tcp_timestamps,
    )


def connect(
    combination: Combination,
    sessions: Mapping[str, NodeSession],
    switches: Mapping[str, ManagedSwitch],
    undo: UndoStack,
) -> Link:
    """Configure the switch ports, give all ends an address and check the link; every change goes into ``undo``.

    Raises LinkError or SwitchError (naming the port) and InvalidMeasurement (wrong speed or duplex).
    """
    topology = combination.topology
    ends = tuple(
        End(endpoint, sessions[endpoint.node.name], sessions[endpoint.node.name].shell, address)
        for endpoint, address in zip(combination.ends, addresses(combination), strict=True)
    )
    surroundings = [read_surroundings(end) for end in ends]
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
    # If a switch cannot separate segments, all ends reach each other, and the isolation is not checked.
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
    """Make each segment a separate group of ports, with its uplinks, on every switch that it touches."""
    groups: dict[str, list[frozenset[str]]] = {}
    for segment, uplinks in zip(combination.topology.segments, combination.uplinks, strict=True):
        ports = [combination.ends[index].interface.port for index in segment]
        ports += [port for uplink in uplinks for port in uplink.ports]
        for name in dict.fromkeys(port.switch for port in ports):
            groups.setdefault(name, []).append(frozenset(port.port for port in ports if port.switch == name))
    for name, wanted in groups.items():
        switches[name].wire(wanted, undo)


def switches_of(combination: Combination) -> list[str]:
    """Return the names of all switches that a combination uses, sorted."""
    ports: list[PortRef] = [end.interface.port for end in combination.ends]
    ports += [port for uplinks in combination.uplinks for uplink in uplinks for port in uplink.ports]
    return sorted({port.switch for port in ports})
