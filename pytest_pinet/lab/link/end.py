"""One end of a link: a network device of a leased node, with the changes that use it and their undo."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Shell, as_root, last_line, refused_root, root_cure
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link.manager import ManagedDevice, Surroundings, parse, reading, routed
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
        raise LinkError(f"{shell.name} refused '{command}': {last_line(done.stderr) or f'exit {done.returncode}'}")


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


# How long a manager may take to release a device, and to configure it again (a slow DHCP server included).
RELEASE_TIMEOUT_S = 15.0
RESUME_TIMEOUT_S = 60.0
# NetworkManager's commands take seconds on a slow board.
COMMAND_TIMEOUT_S = 30.0


def take(end: End, around: Surroundings, undo: UndoStack) -> None:
    """Make the manager of the device release it, until ``undo`` or until the guard of the node gives it back.

    Call it before the switch ports change, so that the manager sees the device only in its own network. A device that
    stays managed is checked at ``undo``, too. Does nothing without a manager. Raises LinkError.
    """
    before, holding = around.holding, around.to_take
    if before is None:
        return
    end.session.guard.start()
    if holding is None:
        what = f"use of {end.device} of {end.shell.name} beside {before.manager}"
        undo.add(what, lambda: _await_as_before(end, before), end.shell.name)
        return
    what = f"{end.device} of {end.shell.name} taken from {holding.manager}"
    entry = JournalEntry.new(what, holding.giving_back(end.device))

    def give_back() -> None:
        change(end.shell, entry.undone(), COMMAND_TIMEOUT_S)
        _await_as_before(end, before)

    undo.add(what, give_back, end.shell.name)
    change(end.shell, entry.kept())
    change(end.shell, holding.taking(end.device), COMMAND_TIMEOUT_S)
    # NetworkManager answers first; only later it releases the device and takes it down.
    if not Deadline(RELEASE_TIMEOUT_S).wait_until(lambda: read_surroundings(end).to_take is None):
        raise LinkError(
            f"{holding.manager} of {end.shell.name} still configures {end.device} {RELEASE_TIMEOUT_S:.0f} s after "
            f"'{holding.taking(end.device)}'",
            f"on {end.shell.name}: look at {holding.manager}, or remove {end.device} from its configuration",
        )


def _await_as_before(end: End, before: ManagedDevice) -> None:
    """Wait until the manager has configured the device as before. Raises LinkError."""
    now: ManagedDevice | None = None

    def as_before() -> bool:
        nonlocal now
        now = read_surroundings(end).holding
        return now is not None and now.manager == before.manager and (now.settled or not before.settled)

    if not Deadline(RESUME_TIMEOUT_S).wait_until(as_before, interval_s=0.5):
        raise LinkError(
            f"{end.device} is {now or 'not managed'} {RESUME_TIMEOUT_S:.0f} s after it was given back; it was {before}",
            f"look at {before.manager} on {end.shell.name}",
        )
    guard = end.session.guard
    if guard.lapsed:
        raise LinkError(
            f"{end.shell.name} undid all changes of this run, and gave {end.device} back to {before.manager}, while "
            f"the link was open: this run did not renew its guard for {guard.lapses_after_s:.0f} s",
            "repeat the measurement; if the runner was suspended, keep it awake",
        )
