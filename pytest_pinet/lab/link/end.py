"""One end of a link: its NIC on a leased node, with the changes that use it and their undo, and its answers to ARP."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import InvalidMeasurement, LinkError
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.evidence.nics import read_board
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Shell, as_root, last_line, reason, refused_root, root_cure
from pytest_pinet.execution.undo import UndoStack, at_once
from pytest_pinet.judge.hardware import Mismatch, compare_board, find, identify
from pytest_pinet.lab.link.manager import ManagedDevice, Surroundings, parse, reading, routed
from pytest_pinet.lab.node.management import FoundManagement, check_declared, find_management
from pytest_pinet.lab.node.management import missing as missing_command
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.hardware import FoundBoard
from pytest_pinet.model.lab import Interface, Node, PortRef
from pytest_pinet.tuning.journal import FOLDER, JournalEntry

# The commands of the managers take seconds each on a slow board.
READ_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class End:
    """A device of a node, with its address while the link is up. ``half_duplex``: a tuning made it so."""

    endpoint: Endpoint
    session: NodeSession
    shell: Shell
    address: ipaddress.IPv4Interface | ipaddress.IPv6Interface
    half_duplex: bool = False

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
    change(end.shell, " && ".join([*commands, adding_address(end, undo)]))
    return found


def adding_address(end: End, undo: UndoStack) -> str:
    """Return the root command that adds the address of an end, until ``undo``."""
    # If the address is gone already, the undo succeeds.
    gone = f"! ip -o addr show dev {end.device} | grep -qF ' {end.address} '"
    what = f"address {end.address} on {end.shell.name} {end.device}"
    kept = undo_by(end, what, f"ip addr del {end.address} dev {end.device} || {gone}", undo)
    # "replace", because a killed runner may have left the same address behind.
    return f"{kept} && ip addr replace {end.address} dev {end.device}"


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


ARP_JOURNAL = FOLDER
_CONF = "/proc/sys/net/ipv4/conf"
# 1: answers only for an address of the NIC that received the request. 2: only if the sender is in the same subnet, too.
_OWN_ONLY = (1, 2)
# Requests name the best address of the sending NIC, not any address of the node.
_BEST_ADDRESS = 2
_ARPHRD_ETHER = "1"
_IFF_UP = 1
_FLAGS = re.compile(r"0x[0-9a-f]{1,8}")
# Prints name, type, flags, arp_ignore and arp_announce of each device. The shell reads the files itself.
_READ_ARP = (
    "r() {{ v=; read -r v <$1; printf ' %s' \"${{v:--}}\"; }} 2>/dev/null;"
    " for d in all $(ls /sys/class/net); do printf %s $d; r /sys/class/net/$d/type; r /sys/class/net/$d/flags;"
    " r {conf}/$d/arp_ignore; r {conf}/$d/arp_announce; echo; done"
)


@dataclass(frozen=True)
class _Device:
    """A network device with its ARP settings. ``may_answer``: it is an Ethernet device and up."""

    name: str
    may_answer: bool
    ignore: int
    announce: int


def answer_for_own_addresses(ends: Sequence[End], undo: UndoStack) -> None:
    """Set ``arp_ignore=1`` on all NICs of a node that are up, and ``arp_announce=2`` on the NICs of ``ends``.

    All ends are of one node, and up. NICs that are not in the lab file can be in the same segment, too. The larger of
    the values for "all" and for the NIC counts. ``undo`` restores the old values; after a crash, the journal on the
    node does. Raises LinkError.
    """
    shell, own = ends[0].shell, {end.device for end in ends}
    devices = parse_arp(shell.run(_READ_ARP.format(conf=_CONF)).stdout)
    every = devices.pop("all", _Device("all", False, 0, 0))
    old: dict[str, int] = {}
    new: dict[str, int] = {}
    for device in devices.values():
        if (device.may_answer or device.name in own) and max(every.ignore, device.ignore) not in _OWN_ONLY:
            path = f"{_CONF}/{device.name}/arp_ignore"
            old[path], new[path] = device.ignore, _OWN_ONLY[0]
        if device.name in own and max(every.announce, device.announce) < _BEST_ADDRESS:
            path = f"{_CONF}/{device.name}/arp_announce"
            old[path], new[path] = device.announce, _BEST_ADDRESS
    if not new:
        return
    what = f"ARP settings of {shell.name}"
    # A NIC that was unplugged meanwhile has no settings to restore.
    restore = " && ".join(
        f"{{ [ ! -e {shlex.quote(path)} ] || {_write_setting(path, value)}; }}" for path, value in old.items()
    )
    entry = JournalEntry.new(what, restore, ARP_JOURNAL)
    undo.add(what, lambda: change(shell, entry.undone()), shell.name)
    done = shell.run(as_root(f"{entry.kept()} && {' && '.join(_write_setting(*one) for one in new.items())}"))
    if done.returncode != 0:
        raise LinkError(
            f"{shell.name} refused arp_ignore=1 and arp_announce=2, without which its NICs answer for each other: "
            f"{reason(done.stderr)}",
            f"on {shell.name}: check that root can write {_CONF} and {ARP_JOURNAL}",
        )


def parse_arp(text: str) -> dict[str, _Device]:
    """Return the devices that _READ_ARP printed, by name; without devices that have no ARP settings."""
    found = {}
    for name, kind, flags, ignore, announce in (words for line in text.splitlines() if len(words := line.split()) == 5):
        # A device without IPv4 has no such settings.
        if is_count(ignore) and is_count(announce):
            is_up = kind == _ARPHRD_ETHER and bool(_FLAGS.fullmatch(flags)) and bool(int(flags, 16) & _IFF_UP)
            found[name] = _Device(name, is_up, int(ignore), int(announce))
    return found


def _write_setting(path: str, value: int) -> str:
    return f"echo {value} > {shlex.quote(path)}"


# Among the facts of a node that hold until its next boot.
_KEY = "nics"


def with_found_nics(combination: Combination, sessions: Mapping[str, NodeSession]) -> Combination:
    """Return the combination with the devices that its NICs have now.

    If a node has other NICs than before, or other names for them, all that was known of the node since its boot is
    forgotten, because it was known by the names.

    Raises InvalidMeasurement for another board than the lab file's, and for a NIC that is gone, that has another driver
    or that is in another place: its values would stand under the wrong name.
    """
    names = [node.name for node in combination.nodes]
    boards = dict(zip(names, at_once(lambda name: _read_board(sessions[name]), names), strict=True))
    for node in combination.nodes:
        for one in compare_board(node, boards[node.name].model):
            raise _invalid(f"{node.where}: {node.name}", one)
    nodes = {node.name: with_devices(node, boards[node.name]) for node in combination.nodes}
    for end in combination.ends:
        for one in identify(end.node, end.interface, boards[end.node.name])[1]:
            raise _invalid(f"{end.interface.where}: {end.interface}", one)
    ends = (
        Endpoint(nodes[end.node.name], nodes[end.node.name].interface(end.interface.name)) for end in combination.ends
    )
    return replace(combination, ends=tuple(ends))


def _read_board(session: NodeSession) -> FoundBoard:
    board = read_board(session.shell)
    if session.facts.get(_KEY, board.identities) != board.identities:
        session.facts.clear()
    session.facts[_KEY] = board.identities
    return board


def _invalid(who: str, one: Mismatch) -> InvalidMeasurement:
    return InvalidMeasurement(f"{who}: {one.message}: not measured", one.act)


def with_devices(node: Node, board: FoundBoard) -> Node:
    """Return the node with the devices that its NICs have on this board. A NIC that is not found keeps its device."""

    def named(interface: Interface) -> Interface:
        nic = find(interface, board)
        return interface if isinstance(nic, Mismatch) else replace(interface, device=nic.device)

    return replace(node, interfaces=tuple(map(named, node.interfaces)))


def is_missing(node: Node, interface: Interface, shell: Shell) -> bool:
    """Return whether the node has no such NIC, or another driver uses it. Raises SshError."""
    return bool(identify(node, interface, read_board(shell))[1])
