"""Checks before traffic: carrier, negotiated speed, reachability, isolation between segments, and cabling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pytest_pinet.errors import InvalidMeasurement, LinkError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.link.end import End, missing
from pytest_pinet.lab.node.management import NOT_FOUND
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.lab.switch.switchport import UNPLACED, Capability, Neighbour

# For all ends together, on the wall clock. 10GBASE-T needs up to 10 s to train.
CARRIER_TIMEOUT_S = 12.0
# A switch port with spanning tree forwards nothing for twice its forward delay of 15 s (802.1D).
REACH_TIMEOUT_S = 35.0
# An end that does not answer for this long may be on another port.
SUSPICION_S = 3.0
# ARP on a LAN answers within a millisecond. Ends of other segments must stay silent for this long.
SILENCE_S = 0.3


def carrier_timeout_s(ends: Sequence[End]) -> float:
    """Return how long the carriers of these ends may take to come."""
    return CARRIER_TIMEOUT_S * max(end.endpoint.node.patience for end in ends)


def await_carrier(end: End, state: InterfaceState, switch: ManagedSwitch, deadline: Deadline) -> InterfaceState:
    """Wait for a carrier; return the state of the end. Raises LinkError with what both sides of the cable report."""

    def has_carrier() -> bool:
        nonlocal state
        state = read_interface(end.shell, end.device)
        return state.carrier

    if not state.carrier and not deadline.wait_until(has_carrier, interval_s=0.1):
        port = end.port
        raise LinkError(
            f"no link on {end} after {deadline.seconds:.0f} s: the node reports {state}, "
            f"the switch reports {switch.state(port.port)}",
            f"check the cable between {end.shell.name} and port {port.port} of switch {port.switch}",
        )
    return state


def check_negotiation(end: End, state: InterfaceState) -> None:
    """Raise InvalidMeasurement if the speed differs from the lab file's, or for half duplex without tuning."""
    expected = end.endpoint.interface.speed_mbps
    if state.speed_mbps is not None and state.speed_mbps != expected:
        raise InvalidMeasurement(
            f"{end} negotiated {state.speed_mbps} Mbit/s instead of {expected} Mbit/s: not measured",
            "check cable, switch port and EEE; or set `speed:` of this interface in the lab file",
        )
    if state.duplex == "half" and not end.half_duplex:
        raise InvalidMeasurement(
            f"{end} negotiated half duplex: not measured",
            "enable autonegotiation at both ends; if it is enabled, compare the driver with a known-good build",
        )


def check_reachable(
    segments: Sequence[Sequence[End]],
    states: Sequence[InterfaceState],
    isolated: bool,
    on_silence: Callable[[], None] = lambda: None,
) -> None:
    """Check that every end reaches all ends of its segment, at their own MAC address.

    With ``isolated``, also check that it reaches no end of another segment. ``states`` belong to all ends in their
    order. ``on_silence`` is called once when an end has not answered for SUSPICION_S, and may raise what it finds.
    Raises LinkError.
    """
    ends = [end for segment in segments for end in segment]
    macs = {end.ip: state.mac for end, state in zip(ends, states, strict=True)}
    deadline = Deadline(REACH_TIMEOUT_S)
    for segment in segments:
        for end in segment:
            others = [other for other in segment if other is not end]
            # One end of each other segment is enough, because all ends of a segment reach each other.
            strangers = [other[0] for other in segments if other is not segment and end is segment[0]]
            _check_end(end, others, strangers if isolated else [], macs, deadline, on_silence)


def _check_end(
    end: End,
    others: Sequence[End],
    strangers: Sequence[End],
    macs: dict[str, str],
    deadline: Deadline,
    on_silence: Callable[[], None],
) -> None:
    by_ip = {other.ip: other for other in (*others, *strangers)}
    answers: dict[str, str | None] = {}
    suspicion: Deadline | None = Deadline(SUSPICION_S)

    def complete() -> bool:
        nonlocal suspicion
        answers.clear()
        answers.update(_ping_all(end, [o.ip for o in others], [s.ip for s in strangers]))
        silent = [other for other in others if answers.get(other.ip) is None]
        for other in silent:
            # If the node hangs, its ssh connection reports it, long before the wait for spanning tree ends.
            other.shell.run("true")
        if silent and suspicion is not None and suspicion.expired:
            suspicion = None
            on_silence()
        return not silent

    reached = deadline.wait_until(complete)
    for stranger in strangers:
        if answers.get(stranger.ip) is not None:
            raise LinkError(
                f"{end} reaches {stranger}, which is in another group of ports: the switch does not isolate the groups",
                "the lab's admin: look for a cable that bypasses the switch, and at the switch's VLANs",
            )
    if not reached:
        silent_end = next(by_ip[o.ip] for o in others if answers.get(o.ip) is None)
        raise LinkError(
            f"{end} does not reach {silent_end} within {REACH_TIMEOUT_S:.0f} s: no answer to ARP and ping",
            "check that both cables are in the switch ports that the lab file names (pinet discover shows them)",
        )
    for other in others:
        mac = answers[other.ip]
        if mac and mac != macs[other.ip]:
            raise LinkError(
                f"{end} reaches {other.ip} at MAC {mac}, but {other} has {macs[other.ip]}",
                f"look for another machine or NIC with the address {other.ip}",
            )


def _ping_all(end: End, inside: Sequence[str], outside: Sequence[str]) -> dict[str, str | None]:
    """Return the MAC address at which each IP address answered.

    None: no answer. Empty: an answer, but the kernel has no MAC address for it. All pings run at the same time, in one
    remote command. Addresses in ``outside`` have SILENCE_S to answer ARP.
    """
    lines = ["PATH=$PATH:/usr/sbin:/sbin; command -v ping >/dev/null || exit 127;"]
    # An entry that an earlier link left behind is no answer.
    lines += [f"ip neigh del {ip} dev {end.device} 2>/dev/null;" for ip in (*inside, *outside)]
    ping = f"ping -n -q -c 1 -W 1 -I {end.device}"
    lines += [f"{ping} {ip} >/dev/null 2>&1 & o{i}=$!;" for i, ip in enumerate(outside)]
    lines += [f"{ping} {ip} >/dev/null 2>&1 & i{i}=$!;" for i, ip in enumerate(inside)]
    lines += [f'wait "$i{i}" && echo "up {ip}";' for i, ip in enumerate(inside)]
    if outside:
        lines += [f"sleep {SILENCE_S:g} 2>/dev/null || sleep 1;"]
        lines += [f'kill "$o{i}" 2>/dev/null;' for i in range(len(outside))]
    lines += [f"ip neigh show dev {end.device}"]
    done = end.shell.run(" ".join(lines))
    if done.returncode == NOT_FOUND:
        raise missing(end, "ping", "iputils-ping")
    answered = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("up ")}
    # 198.18.0.2 lladdr 02:42:ac:11:00:02 REACHABLE
    words = [line.split() for line in done.stdout.splitlines() if " lladdr " in line]
    macs = {entry[0]: entry[entry.index("lladdr") + 1] for entry in words}
    found: dict[str, str | None] = {ip: macs.get(ip, "") if ip in answered else None for ip in inside}
    return {**found, **{ip: macs.get(ip) for ip in outside}}


def check_cabling(ends: Sequence[End], states: Sequence[InterfaceState], switches: Mapping[str, ManagedSwitch]) -> None:
    """Read the neighbours of the ports from the switches, just after every end has sent packets.

    A switch that reports no neighbours is not checked. A port that was found right is not read again while the node
    stays booted. Raises LinkError, which names a wrong cable.
    """
    for name, switch in switches.items():
        if not switch.capabilities & {Capability.LLDP, Capability.FDB}:
            continue
        here = [(e, s) for e, s in zip(ends, states, strict=True) if e.port.switch == name]
        if all(_key(end) in end.session.facts for end, _ in here):
            continue
        found = switch.neighbours([end.port.port for end, _ in here])
        hosts = {end.shell.name: _host(end) for end, _ in here}
        for end, state in here:
            _check_cable(end, state, found, here, hosts)
            end.session.facts[_key(end)] = True


def search_ports(ends: Sequence[End], states: Sequence[InterfaceState], switches: Mapping[str, ManagedSwitch]) -> None:
    """Search all ports for ends that do not answer. Raises LinkError naming the port where an end was found."""
    for name, switch in switches.items():
        if not switch.capabilities & {Capability.LLDP, Capability.FDB}:
            continue
        found = switch.neighbours(switch.ports)
        hosts = [_host(node) for node in {end.shell.name: end for end in ends}.values()]
        for end, state in zip(ends, states, strict=True):
            own = end.port
            if own.switch != name or any(_is(n, end, state, hosts) for n in found.get(own.port, ())):
                continue
            for port, seen in found.items():
                for neighbour in seen:
                    if port not in (own.port, UNPLACED) and _is(neighbour, end, state, hosts):
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
    return f"cabled {end.device} {end.port}"


def _host(end: End) -> str:
    if "host" not in end.session.facts:
        end.session.facts["host"] = end.shell.run("uname -n").stdout.strip()
    return str(end.session.facts["host"])


def _check_cable(
    end: End,
    state: InterfaceState,
    found: Mapping[str, frozenset[Neighbour]],
    here: Sequence[tuple[End, InterfaceState]],
    hosts: Mapping[str, str],
) -> None:
    port = end.port
    learned = {p: {n.mac for n in seen if n.source is Capability.FDB} for p, seen in found.items()}
    others = [(other, other_state) for other, other_state in here if other is not end]
    for there, macs in learned.items():
        if there not in (port.port, UNPLACED) and state.mac in macs and state.mac not in learned.get(port.port, set()):
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
    port = end.port
    return LinkError(
        f"wrong cable: the lab file has {end.shell.name} {end.device} on port {port.port} of switch {port.switch}, "
        f"but {seen}",
        f"move the cable, or correct `port:` in {end.endpoint.interface.where} "
        "(pinet discover shows which NIC is on which port)",
    )
