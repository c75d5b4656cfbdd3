"""One end of a link: a network device of a leased node, with the changes that use it and their undo."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.shell import Shell, as_root, refused_root, root_cure
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link.manager import Surroundings, parse, reading, routed
from pytest_pinet.lab.node.management import FoundManagement, check_declared, find_management
from pytest_pinet.lab.node.management import missing as missing_command
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Endpoint
from pytest_pinet.model.lab import PortRef
from pytest_pinet.tuning.journal import JournalEntry

# The commands of the managers take seconds each on a slow board.
READ_TIMEOUT_S = 30.0


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

    @property
    def management(self) -> FoundManagement:
        """The way of our own connection to the node. Raises LinkError, SshError."""
        return find_management(self.shell, self.session.facts)

    @property
    def carries_management(self) -> bool:
        """Whether our own connection uses this device: its link must not go down, and its port must not move."""
        return self.device in self.management.carriers

    def __str__(self) -> str:
        return f"{self.endpoint.interface.node} {self.device} (port {self.port.port} of switch {self.port.switch})"


def read_surroundings(end: End) -> Surroundings:
    """Read the surroundings. Raises LinkError for a node without ``ip``.

    A NIC of the machine that runs pytest is in use if it has a route: our ssh connections to boards may leave by it.
    """
    carriers = end.management.carriers
    if end.endpoint.node.runner:
        carriers |= routed(end.shell.run("PATH=$PATH:/usr/sbin:/sbin; ip -o -4 route show 2>/dev/null").stdout)
    return parse(end.shell.run(reading([end.device]), READ_TIMEOUT_S).stdout, carriers)[end.device]


def missing(end: End, command: str, package: str) -> LinkError:
    """Return the error for a node that lacks a command."""
    return missing_command(end.shell.name, command, package)


def check_management(end: End, rewires: bool) -> None:
    """Check that the lab file says how we reach a node whose port would be moved. Raises LinkError."""
    node, found = end.endpoint.node, end.management
    check_declared(node, found)
    if end.device in found.parts:
        whole = found.parts[end.device]
        raise LinkError(
            f"{end} is a part of {whole}, so it cannot have an address of its own",
            f"write `device: {whole}` and its `driver:` (bridge, bonding) in {end.endpoint.interface.where}, or take "
            f"{end.device} out of {whole}",
        )
    if rewires and end.carries_management and node.management is None:
        raise LinkError(
            f"{end} carries the ssh connection of this run; moving its port to another VLAN would cut the connection",
            f"write `management: {found.of(node)}` at {node.where} to keep the port where it is, or reach "
            f"{end.shell.name} over a second NIC",
        )


def change(shell: Shell, command: str, timeout_s: float = 10.0) -> None:
    """Run a command as root that changes a node. Raises LinkError when the node refuses."""
    done = shell.run(as_root(command), timeout_s)
    no_root = refused_root(done)
    if no_root is not None:
        raise LinkError(f"the ssh user of {shell.name} cannot become root: {no_root}", root_cure(shell.name))
    if done.returncode != 0:
        raise LinkError(f"{shell.name} refused '{command}': {done.stderr.strip() or f'exit {done.returncode}'}")


def undo_by(end: End, what: str, command: str, undo: UndoStack) -> str:
    """Make ``undo`` run this command on the node of ``end``; ``what`` names the change that it undoes.

    Return the root command that writes the undo to the journal of the node, to be run before the change.
    """
    entry = JournalEntry.new(what, command)
    undo.add(what, lambda: change(end.shell, entry.undone()), end.shell.name)
    return entry.kept()


def bring_up(end: End, around: Surroundings, undo: UndoStack) -> InterfaceState:
    """Bring the device up and add its address. Return the state in which the device was found."""
    found = read_interface(end.shell, end.device)
    commands = []
    if not found.admin_up:
        # A manager that took the device down, or gets it back, brings it up by itself.
        if around.to_take is None:
            commands.append(
                undo_by(end, f"{end.device} up on {end.shell.name}", f"ip link set {end.device} down", undo)
            )
        commands.append(f"ip link set {end.device} up")
    # If the address is gone already, the undo succeeds.
    gone = f"! ip -o addr show dev {end.device} | grep -qF ' {end.address} '"
    what = f"address {end.address} on {end.shell.name} {end.device}"
    commands.append(undo_by(end, what, f"ip addr del {end.address} dev {end.device} || {gone}", undo))
    # "replace", because a killed runner may have left the same address behind.
    commands.append(f"ip addr replace {end.address} dev {end.device}")
    change(end.shell, " && ".join(commands))
    return found
