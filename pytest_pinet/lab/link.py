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

# Both ends together. 10GBASE-T needs up to 10 s to train.
CARRIER_TIMEOUT_S = 12.0
# A switch port with spanning tree forwards nothing for twice its forward delay of 15 s (802.1D).
REACH_TIMEOUT_S = 35.0
UNMANAGED_TIMEOUT_S = 5.0
# A shell's exit status for a command that is not there.
_NOT_FOUND = 127
_NM_UNMANAGED = 10
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
    # A peer is always one of the same switch.
    switch = switches[ports[0].switch]
    surroundings = [_look_around(end) for end in ends]
    if switch.rewires:
        for end, around in zip(ends, surroundings, strict=True):
            _check_not_management(end, around)
    switch.wire(frozenset(port.port for port in ports), undo)
    found = [_bring_up(end, around, undo) for end, around in zip(ends, surroundings, strict=True)]
    deadline = Deadline(CARRIER_TIMEOUT_S)
    states = [_await_carrier(end, state, switch, deadline) for end, state in zip(ends, found, strict=True)]
    for end, state in zip(ends, states, strict=True):
        _check_negotiation(end, state)
    _check_reachable(dut, peer)
    path = Path(
        # What the drivers say; the lab file's word where one does not tell.
        speed_mbps=min(s.speed_mbps or e.endpoint.interface.speed_mbps for e, s in zip(ends, states, strict=True)),
        duplex="full" if all(state.duplex == "full" for state in states) else None,
        mtu=min(state.mtu for state in states),
        timestamps=all(state.tcp_timestamps for state in states),
    )
    return Link(combination, dut, peer, path)


@dataclass(frozen=True)
class _Surroundings:
    """What else a node does with the device: whether our own ssh comes over it, and whether NetworkManager has it."""

    carries_ssh: bool
    network_manager: bool


def _look_around(end: End) -> _Surroundings:
    """Ask all of it in one remote command, since each is a round trip."""
    done = end.shell.run(
        "PATH=$PATH:/usr/sbin:/sbin; command -v ip >/dev/null || exit 127;"
        ' set -- $SSH_CONNECTION; echo "server=$3";'
        # 10 is unmanaged, what is above it is managed (NMDeviceState).
        f' echo "manager=$(nmcli -g GENERAL.STATE device show {end.device} 2>/dev/null)";'
        f" ip -o addr show dev {end.device} 2>/dev/null"
    )
    if done.returncode == _NOT_FOUND:
        raise _missing(end, "ip", "iproute2")
    server, manager, *addresses = done.stdout.splitlines()
    server = server.removeprefix("server=").partition("%")[0]
    state = manager.removeprefix("manager=").split()
    # 2: eth0    inet 192.168.1.7/24 brd ...
    own = {words[3].partition("/")[0] for words in map(str.split, addresses) if len(words) > 3}
    return _Surroundings(server in own, bool(state) and state[0].isdigit() and int(state[0]) > _NM_UNMANAGED)


def _missing(end: End, command: str, package: str) -> LinkError:
    return LinkError(
        f"{end.shell.name} has no command {command!r}", f"on {end.shell.name}: sudo apt-get install {package}"
    )


def _check_not_management(end: End, around: _Surroundings) -> None:
    if around.carries_ssh:
        raise LinkError(
            f"{end} carries our own ssh connection, which moving its port into a group of its own would cut",
            f"reach {end.shell.name} over a second NIC, or give the switch `backend: fixed` in the lab file",
        )


def _change(end: End, command: str) -> None:
    done = end.shell.run(as_root(command))
    if done.returncode == _NOT_FOUND and "sudo" in done.stderr:
        raise LinkError(
            f"{end.shell.name} has no sudo, and the ssh user is not root",
            f"log in to {end.shell.name} as root, or install sudo there and allow it without a password",
        )
    if done.returncode != 0:
        raise LinkError(f"{end.shell.name} refused '{command}': {done.stderr.strip() or f'exit {done.returncode}'}")


def _take_from_network_manager(end: End, undo: UndoStack) -> None:
    """Or it would configure the device when it comes up, and flush our address."""
    undo.add(
        f"{end.device} of {end.shell.name} not managed by NetworkManager",
        lambda: _change(end, f"nmcli device set {end.device} managed yes"),
        end.shell.name,
    )
    _change(end, f"nmcli device set {end.device} managed no")
    # It lets go of the device, and takes it down, only after it has answered.
    if not Deadline(UNMANAGED_TIMEOUT_S).wait_until(lambda: not _look_around(end).network_manager):
        raise LinkError(
            f"NetworkManager of {end.shell.name} still manages {end.device} after it was told not to",
            f"on {end.shell.name}: add unmanaged-devices=interface-name:{end.device} to NetworkManager.conf",
        )


def _bring_up(end: End, around: _Surroundings, undo: UndoStack) -> InterfaceState:
    """Bring the device up, give it its address, and return how it was found (when we were alone with it)."""
    found = read_interface(end.shell, end.device)
    if around.network_manager and not around.carries_ssh:
        _take_from_network_manager(end, undo)
    commands = []
    if not found.admin_up:
        undo.add(
            f"{end.device} up on {end.shell.name}",
            lambda: _change(end, f"ip link set {end.device} down"),
            end.shell.name,
        )
    if not found.admin_up or around.network_manager:
        commands.append(f"ip link set {end.device} up")
    # An address that is gone already is undone, too.
    gone = f"! ip -o addr show dev {end.device} | grep -qF ' {end.address} '"
    undo.add(
        f"address {end.address} on {end.shell.name} {end.device}",
        lambda: _change(end, f"ip addr del {end.address} dev {end.device} || {gone}"),
        end.shell.name,
    )
    # "replace": a runner that was killed may have left the same address behind.
    commands.append(f"ip addr replace {end.address} dev {end.device}")
    _change(end, " && ".join(commands))
    # NetworkManager took it down when it let go of it.
    return read_interface(end.shell, end.device) if around.network_manager else found


def _await_carrier(end: End, state: InterfaceState, switch: SwitchBackend, deadline: Deadline) -> InterfaceState:

    def has_carrier() -> bool:
        nonlocal state
        state = read_interface(end.shell, end.device)
        return state.carrier

    if not state.carrier and not deadline.wait_until(has_carrier, interval_s=0.1):
        port = end.endpoint.interface.port
        raise LinkError(
            f"no link on {end} after {CARRIER_TIMEOUT_S:.0f} s: the node says {state}, "
            f"the switch says {switch.state(port.port)}",
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
        if done.returncode == _NOT_FOUND:
            raise _missing(dut, "ping", "iputils-ping")
        if done.returncode != 0:
            # A peer that hangs is reported by its ssh, long before a port that waits for spanning tree.
            peer.shell.run("true")
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        last = said[-1] if said else ""
        return done.returncode == 0

    if not deadline.wait_until(reaches):
        raise LinkError(
            f"{dut} does not reach {peer} within {REACH_TIMEOUT_S:.0f} s: {last or 'no answer to ping'}",
            "check that both cables are in the switch ports that the lab file names",
        )
