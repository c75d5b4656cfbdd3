"""One end of a link: a network device of a leased node, with the changes that use it and their undo."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Shell, as_root, refused_root, root_cure
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Endpoint
from pytest_pinet.model.lab import PortRef

UNMANAGED_TIMEOUT_S = 5.0
# The exit status of a shell for a command that does not exist.
NOT_FOUND = 127
_NM_UNMANAGED = 10


@dataclass(frozen=True)
class End:
    """A device of a node, with its address while the link is up."""

    endpoint: Endpoint
    session: NodeSession
    shell: Shell
    address: ipaddress.IPv4Interface

    @property
    def device(self) -> str:
        return self.endpoint.interface.device

    @property
    def port(self) -> PortRef:
        return self.endpoint.interface.port

    @property
    def ip(self) -> str:
        return str(self.address.ip)

    def __str__(self) -> str:
        return f"{self.endpoint.interface.node} {self.device} (port {self.port.port} of switch {self.port.switch})"


@dataclass(frozen=True)
class Surroundings:
    """Other uses of the device: whether our own ssh connection runs over it, and whether NetworkManager manages it."""

    carries_ssh: bool
    network_manager: bool


def read_surroundings(end: End) -> Surroundings:
    """Read the surroundings in one round trip. Raises LinkError for a node without ``ip``."""
    done = end.shell.run(
        "PATH=$PATH:/usr/sbin:/sbin; command -v ip >/dev/null || exit 127;"
        ' set -- $SSH_CONNECTION; echo "server=$3";'
        # NMDeviceState: 10 is unmanaged, all values above 10 are managed.
        f' echo "manager=$(nmcli -g GENERAL.STATE device show {end.device} 2>/dev/null)";'
        f" ip -o addr show dev {end.device} 2>/dev/null"
    )
    if done.returncode == NOT_FOUND:
        raise missing(end, "ip", "iproute2")
    server, manager, *addresses = done.stdout.splitlines()
    server = server.removeprefix("server=").partition("%")[0]
    state = manager.removeprefix("manager=").split()
    # 2: eth0    inet 192.168.1.7/24 brd ...
    own = {words[3].partition("/")[0] for words in map(str.split, addresses) if len(words) > 3}
    return Surroundings(server in own, bool(state) and state[0].isdigit() and int(state[0]) > _NM_UNMANAGED)


def missing(end: End, command: str, package: str) -> LinkError:
    """Return the error for a node that lacks a command."""
    return LinkError(
        f"{end.shell.name} has no command {command!r}", f"on {end.shell.name}: sudo apt-get install {package}"
    )


def check_not_management(end: End, around: Surroundings) -> None:
    """Refuse to rewire a port that carries our ssh connection. Raises LinkError."""
    if around.carries_ssh:
        raise LinkError(
            f"{end} carries the ssh connection of this run; moving its port to another VLAN would cut the connection",
            f"reach {end.shell.name} over a second NIC, or give the switch `backend: fixed` in the lab file",
        )


def change(shell: Shell, command: str) -> None:
    """Run a command as root that changes a node. Raises LinkError when the node refuses."""
    done = shell.run(as_root(command))
    no_root = refused_root(done)
    if no_root is not None:
        raise LinkError(f"the ssh user of {shell.name} cannot become root: {no_root}", root_cure(shell.name))
    if done.returncode != 0:
        raise LinkError(f"{shell.name} refused '{command}': {done.stderr.strip() or f'exit {done.returncode}'}")


def undo_by(end: End, what: str, command: str, undo: UndoStack) -> None:
    """Make ``undo`` run this command on the node of ``end``; ``what`` names the change that it undoes."""
    undo.add(what, lambda: change(end.shell, command), end.shell.name)


def bring_up(end: End, around: Surroundings, undo: UndoStack) -> InterfaceState:
    """Bring the device up and add its address. Return the state found, or the new one if NetworkManager managed it."""
    found = read_interface(end.shell, end.device)
    if around.network_manager and not around.carries_ssh:
        _take_from_network_manager(end, undo)
    commands = []
    if not found.admin_up:
        undo_by(end, f"{end.device} up on {end.shell.name}", f"ip link set {end.device} down", undo)
    if not found.admin_up or around.network_manager:
        commands.append(f"ip link set {end.device} up")
    # If the address is gone already, the undo succeeds.
    gone = f"! ip -o addr show dev {end.device} | grep -qF ' {end.address} '"
    what = f"address {end.address} on {end.shell.name} {end.device}"
    undo_by(end, what, f"ip addr del {end.address} dev {end.device} || {gone}", undo)
    # "replace", because a killed runner may have left the same address behind.
    commands.append(f"ip addr replace {end.address} dev {end.device}")
    change(end.shell, " && ".join(commands))
    # NetworkManager takes the device down when it releases it, so read the state again.
    return read_interface(end.shell, end.device) if around.network_manager else found


def _take_from_network_manager(end: End, undo: UndoStack) -> None:
    """Make NetworkManager release the device. NetworkManager would configure it on link-up and flush our address."""
    what = f"{end.device} of {end.shell.name} not managed by NetworkManager"
    undo_by(end, what, f"nmcli device set {end.device} managed yes", undo)
    change(end.shell, f"nmcli device set {end.device} managed no")
    # NetworkManager answers first; only later it releases the device and takes it down.
    if not Deadline(UNMANAGED_TIMEOUT_S).wait_until(lambda: not read_surroundings(end).network_manager):
        raise LinkError(
            f"NetworkManager of {end.shell.name} still manages {end.device} {UNMANAGED_TIMEOUT_S:.0f} s after "
            f"'nmcli device set {end.device} managed no'",
            f"on {end.shell.name}: add unmanaged-devices=interface-name:{end.device} to NetworkManager.conf",
        )
