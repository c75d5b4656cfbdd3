"""Check that each end is on the switch port that the lab file names, from the neighbours that the switches report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.interface import InterfaceState
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.lab.switch.switchport import Capability, Neighbour


def check(ends: Sequence[End], states: Sequence[InterfaceState], switches: Mapping[str, ManagedSwitch]) -> None:
    """Read the neighbours of the ports from the switches, just after every end has sent packets.

    A switch that reports no neighbours is not checked. A port that was found right is not read again while the node
    stays booted. Raises LinkError, which names a wrong cable.
    """
    for name, switch in switches.items():
        if not switch.capabilities & {Capability.LLDP, Capability.FDB}:
            continue
        here = [(e, s) for e, s in zip(ends, states, strict=True) if e.endpoint.interface.port.switch == name]
        if all(_known(end) for end, _ in here):
            continue
        found = switch.neighbours([end.endpoint.interface.port.port for end, _ in here])
        hosts = {end.shell.name: _host(end) for end, _ in here}
        for end, state in here:
            _check_end(end, state, found, here, hosts)
            end.session.facts[_key(end)] = True


def search(ends: Sequence[End], states: Sequence[InterfaceState], switches: Mapping[str, ManagedSwitch]) -> None:
    """Search all ports for ends that do not answer. Raises LinkError naming the port where an end was found."""
    for name, switch in switches.items():
        if not switch.capabilities & {Capability.LLDP, Capability.FDB}:
            continue
        found = switch.neighbours(switch.ports)
        hosts = [_host(node) for node in {end.shell.name: end for end in ends}.values()]
        for end, state in zip(ends, states, strict=True):
            own = end.endpoint.interface.port
            if own.switch != name or any(_is(n, end, state, hosts) for n in found.get(own.port, ())):
                continue
            for port, seen in found.items():
                for neighbour in seen:
                    if port != own.port and _is(neighbour, end, state, hosts):
                        way = "its MAC address" if neighbour.source is Capability.FDB else "LLDP"
                        raise _wrong(end, f"the switch sees it on port {port} (by {way})")


def _is(neighbour: Neighbour, end: End, state: InterfaceState, hosts: Sequence[str]) -> bool:
    """Return whether this neighbour is that end: by MAC address, or by host name if no other host has that name."""
    if neighbour.source is Capability.FDB:
        return neighbour.mac == state.mac
    # A node with several NICs announces its name, and the MAC of one NIC, on all of them. The announced port name tells
    # the NICs apart.
    named = neighbour.system == _host(end) and hosts.count(_host(end)) == 1
    return neighbour.port == state.mac or (named and neighbour.port == end.device)


def _key(end: End) -> str:
    return f"cabled {end.device} {end.endpoint.interface.port}"


def _known(end: End) -> bool:
    return bool(end.session.facts.get(_key(end)))


def _host(end: End) -> str:
    if "host" not in end.session.facts:
        end.session.facts["host"] = end.shell.run("uname -n").stdout.strip()
    return str(end.session.facts["host"])


def _check_end(
    end: End,
    state: InterfaceState,
    found: Mapping[str, frozenset[Neighbour]],
    here: Sequence[tuple[End, InterfaceState]],
    hosts: Mapping[str, str],
) -> None:
    port = end.endpoint.interface.port
    learned = {p: {n.mac for n in seen if n.source is Capability.FDB} for p, seen in found.items()}
    others = [(other, other_state) for other, other_state in here if other is not end]
    for there, macs in learned.items():
        if there != port.port and state.mac in macs and state.mac not in learned.get(port.port, set()):
            raise _wrong(end, f"the switch sees its MAC {state.mac} on port {there}")
    for other, other_state in others:
        if other_state.mac in learned.get(port.port, set()) and state.mac not in learned[port.port]:
            raise _wrong(end, f"the switch sees {other.shell.name} ({other_state.mac}) on that port")
    for neighbour in found.get(port.port, ()):
        name = neighbour.system
        if neighbour.source is not Capability.LLDP or name is None or name == hosts[end.shell.name]:
            continue
        # Hosts with the same name (raspberrypi) look the same in LLDP. The name of another end is a proof.
        if name in {host for node, host in hosts.items() if node != end.shell.name}:
            raise _wrong(end, f"LLDP says that {name} is on that port")


def _wrong(end: End, seen: str) -> LinkError:
    port = end.endpoint.interface.port
    return LinkError(
        f"wrong cable: the lab file has {end.shell.name} {end.device} on port {port.port} of switch {port.switch}, "
        f"but {seen}",
        f"move the cable, or correct `port:` in {end.endpoint.interface.where} "
        "(pinet discover shows which NIC is on which port)",
    )
