"""A link: ends that reach each other, their addresses, the path between them, and a fresh link-up."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_pinet.errors import InvalidMeasurement, LabError, LinkError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import last_line
from pytest_pinet.execution.undo import UndoStack, at_once
from pytest_pinet.lab.link import link_checks
from pytest_pinet.lab.link.end import (
    End,
    answer_for_own_addresses,
    bring_up,
    change,
    check_management,
    read_surroundings,
    take,
    undo_by,
    with_found_nics,
)
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import VIRTUAL, PortRef
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.topology import LinkEnd, LinkFacts
from pytest_pinet.model.tuning import Tuned

# 198.18.0.0/15 is reserved for benchmarks of network devices (RFC 2544) and is not routed on the Internet.
BENCHMARK_NET = ipaddress.IPv4Network("198.18.0.0/15")
# The same for IPv6 (RFC 5180).
BENCHMARK_NET_6 = ipaddress.IPv6Network("2001:2::/48")
Address = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def addresses(combination: Combination) -> tuple[ipaddress.IPv4Interface, ...]:
    """Return one address for each end, from a block chosen by the combination's ends.

    The MAC addresses of the lab file count too: most boards have the same host name, and two desks with equal names may
    be in one network.

    All segments share one subnet. An end can therefore send ARP requests to other segments without a route, and must
    get no answer. Only if a node forwards between two segments, each segment has its own subnet.
    """
    topology = combination.topology
    groups = topology.segments if topology.forwards else (tuple(range(topology.ends)),)
    # Two more, for the network and broadcast addresses.
    sizes = [_power_of_two(len(group) + 2) for group in groups]
    block = _power_of_two(sum(sizes))
    names = [f"{end}{end.interface.mac or ''}" for end in combination.ends]
    seed = zlib.crc32("-".join(names).encode())
    base = int(BENCHMARK_NET.network_address) + block * (seed % (BENCHMARK_NET.num_addresses // block))
    found = {}
    for group, size in zip(groups, sizes, strict=True):
        prefix = 32 - (size.bit_length() - 1)
        for position, end in enumerate(group, start=1):
            found[end] = ipaddress.IPv4Interface((base + position, prefix))
        base += size
    return tuple(found[end] for end in range(topology.ends))


def in_family(address: Address, family: int) -> Address:
    """Return the address that belongs to this address of IPv4: for IPv6, the same number in the same subnet."""
    if family == 4:
        return address
    number, bits = int(BENCHMARK_NET_6.network_address) + int(address.ip), address.network.prefixlen
    return ipaddress.IPv6Interface((number, 128 - 32 + bits))


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


FORWARDING_TIMEOUT_S = 5.0


@dataclass
class Link:
    """One cabled and checked combination; the ``link`` fixture passes it to a test.

    ``ends`` are numbered as in the topology; 0 is the device under test. ``states`` holds the state of each end.
    ``tunings`` holds the outcomes of all settings in force, ``tried`` the outcomes of all settings since the link was
    opened. ``scale`` is the share of the full rate at which the link runs; results are converted to the full rate
    (``traffic.wrapping_tools``). ``trouble`` is why the link did not come up; it can then be used for boots only.
    """

    combination: Combination
    ends: tuple[End, ...]
    states: tuple[InterfaceState, ...]
    switches: Mapping[str, ManagedSwitch]
    tunings: tuple[Tuned, ...] = ()
    tried: list[Tuned] = field(default_factory=list)
    scale: float = 1.0
    trouble: LinkError | InvalidMeasurement | None = None

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
    def virtual_ends(self) -> frozenset[str]:
        """The names of the ends whose clock counts instructions."""
        return frozenset(end.shell.name for end in self.ends if end.endpoint.node.clock == VIRTUAL)

    @property
    def path(self) -> Path:
        return self.facts.path

    def add_tunings(self, outcomes: Sequence[Tuned]) -> None:
        """Add the outcomes of settings. An earlier value of the same setting is not in force any more."""
        names = {one.name for one in outcomes}
        self.tunings = (*(one for one in self.tunings if one.name not in names), *outcomes)
        self.tried += outcomes

    def describe(self, tunings: tuple[Tuned, ...], combination: Combination) -> None:
        """Note which settings are in force, and the combination that includes them."""
        self.tunings, self.combination = tunings, combination

    def read_states(self) -> None:
        """Read the state of each end again. Raises SshError."""
        self.states = tuple(read_interface(end.shell, end.device) for end in self.ends)

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


def unopened(
    combination: Combination,
    sessions: Mapping[str, NodeSession],
    switches: Mapping[str, ManagedSwitch],
    scale: float,
    trouble: LinkError | InvalidMeasurement,
) -> Link:
    """Return a link that did not come up, for a test that needs none. Raises ``trouble`` if a NIC is not there."""
    try:
        combination = with_found_nics(combination, sessions)
        ends = _ends(combination, sessions)
        states = tuple(read_interface(end.shell, end.device) for end in ends)
    except (LinkError, InvalidMeasurement):
        raise trouble from None
    return Link(combination, ends, states, dict(switches), scale=scale, trouble=trouble)


def _ends(combination: Combination, sessions: Mapping[str, NodeSession]) -> tuple[End, ...]:
    return tuple(
        End(endpoint, sessions[endpoint.node.name], sessions[endpoint.node.name].shell, address)
        for endpoint, address in zip(combination.ends, addresses(combination), strict=True)
    )


def connect(
    combination: Combination,
    sessions: Mapping[str, NodeSession],
    switches: Mapping[str, ManagedSwitch],
    undo: UndoStack,
    booted: tuple[Tuned, ...] = (),
    scale: float = 1.0,
) -> Link:
    """Configure the switch ports, give all ends an address and check the link; every change goes into ``undo``.

    ``booted`` has the outcomes of boot tunings. ``scale`` is the share of the full rate at which the link runs.
    Raises LinkError or SwitchError (naming the port) and InvalidMeasurement (wrong board, NIC, speed or duplex).
    """
    combination = with_found_nics(combination, sessions)
    topology, ends = combination.topology, _ends(combination, sessions)
    surroundings = at_once(read_surroundings, ends)
    for end in ends:
        check_management(end, switches[end.port.switch].rewires)
    for end, around in zip(ends, surroundings, strict=True):
        take(end, around, undo)
    kept = frozenset(index for index, end in enumerate(ends) if end.carries_management)
    _wire(combination, switches, kept, undo)
    found = undo.at_once(lambda one, undo: bring_up(*one, undo), [*zip(ends, surroundings, strict=True)])
    own = [[end for end in ends if end.endpoint.node.name == node.name] for node in combination.nodes]
    undo.at_once(answer_for_own_addresses, own)
    deadline = Deadline(link_checks.carrier_timeout_s(ends))
    states = tuple(
        link_checks.await_carrier(end, state, switches[end.port.switch], deadline)
        for end, state in zip(ends, found, strict=True)
    )
    for end, state in zip(ends, states, strict=True):
        link_checks.check_negotiation(end, state)
    # If a port cannot be moved, all ends reach each other, and the isolation is not checked.
    isolated = all(switch.rewires for switch in switches.values()) and not kept and not topology.forwards
    link_checks.check_reachable(
        [[ends[index] for index in segment] for segment in topology.segments],
        states,
        isolated,
        on_silence=lambda: link_checks.search_ports(ends, states, switches),
    )
    link_checks.check_cabling(ends, states, switches)
    if topology.forwards:
        dut, near, second, far = ends
        set_up_forwarding(dut, near, second, far, undo)
    return Link(combination, ends, states, dict(switches), booted, [*booted], scale)


def _wire(
    combination: Combination, switches: Mapping[str, ManagedSwitch], kept: Collection[int], undo: UndoStack
) -> None:
    """Make each segment a separate group of ports, with its uplinks, on every switch that it touches.

    The ports of the ends in ``kept`` are not touched, and the other ports of their segments stay in their VLANs.
    """
    groups: dict[str, list[frozenset[str]]] = {}
    for segment, uplinks in zip(combination.topology.segments, combination.uplinks, strict=True):
        stays = not set(kept).isdisjoint(segment)
        ports = [combination.ends[index].interface.port for index in segment]
        ports += [port for uplink in uplinks for port in uplink.ports]
        carrying = {combination.ends[index].interface.port for index in segment if index in kept}
        for name in dict.fromkeys(port.switch for port in ports):
            here = frozenset(port.port for port in ports if port.switch == name)
            if stays:
                untouched = frozenset(port.port for port in carrying if port.switch == name)
                switches[name].keep(here - untouched, untouched, undo)
            else:
                groups.setdefault(name, []).append(here)
    for name, wanted in groups.items():
        switches[name].wire(wanted, undo)


def switches_of(combination: Combination) -> list[str]:
    """Return the names of all switches that a combination uses, sorted."""
    ports: list[PortRef] = [end.interface.port for end in combination.ends]
    ports += [port for uplinks in combination.uplinks for uplink in uplinks for port in uplink.ports]
    return sorted({port.switch for port in ports})


def set_up_forwarding(dut: End, near: End, second: End, far: End, undo: UndoStack) -> None:
    """Make the node of ``dut`` and ``second`` forward between ``near`` and ``far``, and check the path.

    Only these two devices forward, not the whole node. ``undo`` reverts it. Raises LinkError.
    """
    for end in (dut, second):
        _forward(end, undo)
    _route(near, dut, far, undo)
    _route(far, second, near, undo)
    _check_forwarding(near, far, dut)


def _forward(end: End, undo: UndoStack) -> None:
    setting = f"/proc/sys/net/ipv4/conf/{end.device}/forwarding"
    before = end.shell.run(f"cat {setting}").stdout.strip()
    if before == "1":
        return
    kept = undo_by(end, f"forwarding of {end.device} on {end.shell.name}", f"echo {before or 0} > {setting}", undo)
    change(end.shell, f"{kept} && echo 1 > {setting}")
    if end.shell.run(f"cat {setting}").stdout.strip() != "1":
        raise LinkError(f"{end.shell.name} accepted forwarding on {end.device}, but {setting} is still not 1")


def _route(end: End, gateway: End, target: End, undo: UndoStack) -> None:
    route = f"{target.address.network} via {gateway.ip} dev {end.device}"
    gone = f"! ip route show {target.address.network} | grep -q ."
    what = f"route to {target.address.network} on {end.shell.name}"
    kept = undo_by(end, what, f"ip route del {route} || {gone}", undo)
    change(end.shell, f"{kept} && ip route replace {route}")


def _check_forwarding(near: End, far: End, dut: End) -> None:
    """Check that packets arrive, and that they pass a router: with a TTL of 1 they must not arrive."""
    ping = f"ping -n -q -c 1 -W 1 -I {near.device}"
    last = ""

    def reaches() -> bool:
        nonlocal last
        done = near.shell.run(f"{ping} {far.ip}")
        last = last_line(done.stderr, done.stdout) or "no answer"
        return done.returncode == 0

    if not Deadline(FORWARDING_TIMEOUT_S).wait_until(reaches):
        raise LinkError(
            f"{near} does not reach {far} through {dut.shell.name} within {FORWARDING_TIMEOUT_S:.0f} s: {last}",
            f"on {dut.shell.name}: look for a firewall that drops forwarded packets (nft list ruleset)",
        )
    if near.shell.run(f"{ping} -t 1 {far.ip}").returncode == 0:
        raise LinkError(
            f"{near} reaches {far} without {dut.shell.name} in between", "check the cables of these three nodes"
        )


# The first packets are lost until the switch has learnt the MAC addresses again.
ANSWER_TIMEOUT_S = link_checks.REACH_TIMEOUT_S


def can_bounce(link: Link) -> bool:
    """Return whether the link of the device under test may go down.

    It must stay up if it carries our ssh, is a Wi-Fi association, or has routes.
    """
    if link.combination.topology.forwards or link.dut.carries_management:
        return False
    facts, key = link.dut.session.facts, f"wireless {link.dut.device}"
    if key not in facts:
        facts[key] = read_surroundings(link.dut).wireless
    return not facts[key]


def await_links(link: Link, same: bool = True) -> None:
    """Wait until every end has a carrier again. With ``same``, its speed and MTU must be unchanged.

    Raises LinkError if a carrier does not come back or a value has changed, InvalidMeasurement for a wrong speed.
    """
    deadline = Deadline(link_checks.carrier_timeout_s(link.ends))
    for end, state in zip(link.ends, link.states, strict=True):
        switch = link.switches[end.port.switch]
        now = link_checks.await_carrier(end, read_interface(end.shell, end.device), switch, deadline)
        link_checks.check_negotiation(end, now)
        if same and (now.speed_mbps, now.mtu) != (state.speed_mbps, state.mtu):
            raise LinkError(
                f"{end} was {state} and came back as {now} after its link was down",
                f"look at the kernel log of {end.shell.name}",
            )


def without_carrier(link: Link) -> frozenset[int]:
    """Return the ends that have no carrier now, by their number. Empty if an end does not answer."""
    try:
        states = [read_interface(end.shell, end.device) for end in link.ends]
    except LabError:
        return frozenset()
    return frozenset(index for index, state in enumerate(states) if not state.carrier)


def bounce(link: Link) -> None:
    """Take the link of the device under test down and up. Raises LinkError when it does not come back as it was.

    It is one remote command, so that the link is up again even if the runner is killed meanwhile. The kernel keeps the
    IPv4 address and its route on a device that is down.
    """
    end = link.dut
    device = end.device
    change(end.shell, f"ip link set {device} down; ip link set {device} up")
    await_links(link)
    ping = f"ping -n -q -c 1 -W 1 -I {device} {link.peer.ip} >/dev/null"
    if not Deadline(ANSWER_TIMEOUT_S).wait_until(lambda: end.shell.run(ping).returncode == 0):
        raise LinkError(
            f"{end} does not reach {link.peer} any more, {ANSWER_TIMEOUT_S:.0f} s after its link was taken down and up",
            f"look at spanning tree on port {end.port}, and at the kernel log of {end.shell.name}",
        )
