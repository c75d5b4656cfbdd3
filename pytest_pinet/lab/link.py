"""A link: two ends that were made to reach each other, and what was found between them."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.errors import InvalidMeasurement, LinkError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.node_session import NodeSession
from pytest_pinet.lab.switchport import SwitchBackend
from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.measurement import Path
from pytest_pinet.shell import Shell, as_root

CARRIER_TIMEOUT_S = 8.0
REACH_TIMEOUT_S = 5.0
# 198.18.0.0/15 is set aside for benchmarks of network devices (RFC 2544) and is routed nowhere.
BENCHMARK_NET = ipaddress.IPv4Network("198.18.0.0/15")


@dataclass(frozen=True)
class End:
    """One end of a link: its node, device and the address that it has for as long as the link is up."""

    endpoint: Endpoint
    session: NodeSession
    shell: Shell
    address: ipaddress.IPv4Interface

    @property
    def device(self) -> str:
        return self.endpoint.interface.device

    def __str__(self) -> str:
        interface = self.endpoint.interface
        return f"{interface.node} {interface.device} (port {interface.port.port} of switch {interface.port.switch})"


@dataclass(frozen=True)
class Link:
    """One combination, cabled and checked; what the ``link`` fixture gives to a test."""

    combination: Combination
    dut: End
    peer: End
    path: Path

    @property
    def id(self) -> str:
        return self.combination.id


def addresses(combination: Combination) -> tuple[ipaddress.IPv4Interface, ipaddress.IPv4Interface]:
    """A /30 of its own for each pair of interfaces, so that links of one switch never share a subnet."""
    seed = zlib.crc32(f"{combination.dut}-{combination.peer}".encode())
    base = int(BENCHMARK_NET.network_address) + 4 * (seed % (BENCHMARK_NET.num_addresses // 4))
    return ipaddress.IPv4Interface((base + 1, 30)), ipaddress.IPv4Interface((base + 2, 30))


def connect(
    combination: Combination,
    sessions: Mapping[str, NodeSession],
    switches: Mapping[str, SwitchBackend],
    undo: UndoStack,
) -> Link:
    """Wire the switch ports, give both ends an address and check the link; every change goes into ``undo``.

    Raises LinkError or SwitchError (naming the port) and InvalidMeasurement (wrong speed or duplex).
    """
    ends = [
        End(endpoint, sessions[endpoint.node.name], sessions[endpoint.node.name].shell, address)
        for endpoint, address in zip((combination.dut, combination.peer), addresses(combination), strict=True)
    ]
    dut, peer = ends
    ports = [end.endpoint.interface.port for end in ends]
    if ports[0].switch == ports[1].switch:
        switches[ports[0].switch].wire(frozenset(port.port for port in ports), undo)
    found = [_bring_up(end, undo) for end in ends]
    states = [_await_carrier(end, state, switches) for end, state in zip(ends, found, strict=True)]
    for end, state in zip(ends, states, strict=True):
        _check_negotiation(end, state)
    _check_reachable(dut, peer)
    path = Path(
        speed_mbps=min(end.endpoint.interface.speed_mbps for end in ends),
        duplex="full",
        mtu=min(state.mtu for state in states),
        timestamps=all(state.tcp_timestamps for state in states),
    )
    return Link(combination, dut, peer, path)


def _change(end: End, command: str) -> None:
    done = end.shell.run(as_root(command))
    if done.returncode != 0:
        raise LinkError(f"{end.shell.name} refused '{command}': {done.stderr.strip() or f'exit {done.returncode}'}")


def _bring_up(end: End, undo: UndoStack) -> InterfaceState:
    """Bring the device up, give it its address, and return how it was found before."""
    found = read_interface(end.shell, end.device)
    commands = []
    if not found.admin_up:
        undo.add(f"{end.device} up on {end.shell.name}", lambda: _change(end, f"ip link set {end.device} down"))
        commands.append(f"ip link set {end.device} up")
    undo.add(
        f"address {end.address} on {end.shell.name} {end.device}",
        lambda: _change(end, f"ip addr del {end.address} dev {end.device}"),
    )
    # "replace": a runner that was killed may have left the same address behind.
    commands.append(f"ip addr replace {end.address} dev {end.device}")
    _change(end, " && ".join(commands))
    return found


def _await_carrier(end: End, state: InterfaceState, switches: Mapping[str, SwitchBackend]) -> InterfaceState:
    deadline = Deadline(CARRIER_TIMEOUT_S)

    def has_carrier() -> bool:
        nonlocal state
        state = read_interface(end.shell, end.device)
        return state.carrier

    if not state.carrier and not deadline.wait_until(has_carrier, interval_s=0.1):
        port = end.endpoint.interface.port
        raise LinkError(
            f"no link on {end} after {CARRIER_TIMEOUT_S:.0f} s: the node says {state}, "
            f"the switch says {switches[port.switch].state(port.port)}",
            f"check the cable between {end.shell.name} and port {port.port} of switch {port.switch}",
        )
    return state


def _check_negotiation(end: End, state: InterfaceState) -> None:
    expected = end.endpoint.interface.speed_mbps
    if state.speed_mbps is not None and state.speed_mbps != expected:
        raise InvalidMeasurement(
            f"{end} negotiated {state.speed_mbps} Mbit/s instead of {expected} Mbit/s: not measured\n"
            "  -> check cable, switch port and EEE; or set `speed:` of this interface in the lab file"
        )
    if state.duplex == "half":
        raise InvalidMeasurement(
            f"{end} negotiated half duplex: not measured\n  -> let both ends of the cable negotiate"
        )


def _check_reachable(dut: End, peer: End) -> None:
    command = f"ping -n -q -c 1 -W 1 -I {dut.device} {peer.address.ip}"
    deadline = Deadline(REACH_TIMEOUT_S)
    last = ""

    def reaches() -> bool:
        nonlocal last
        done = dut.shell.run(command)
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        last = said[-1] if said else ""
        return done.returncode == 0

    if not deadline.wait_until(reaches):
        raise LinkError(
            f"{dut} does not reach {peer} within {REACH_TIMEOUT_S:.0f} s: {last or 'no answer to ping'}",
            "check that both cables are in the switch ports that the lab file names",
        )
