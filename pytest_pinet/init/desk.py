"""Chooses the NICs under test and the peer of a bench without a coordinator: boards on a desk."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.execution.names import unknown
from pytest_pinet.init.answers import PEER_NONE, PEER_RUNNER, Answers
from pytest_pinet.init.hardware import RUNNER, FoundHardware, TestedNic, known_nic, node_name
from pytest_pinet.init.machine import Login, Machine, Route, route_to
from pytest_pinet.model.forms import Management
from pytest_pinet.model.hardware import FoundNic
from pytest_pinet.model.quantities import Bitrate


@dataclass(frozen=True)
class Wishes:
    """What the user chose by options. ``interfaces`` maps nodes to devices; the key "" is for a single board."""

    name: str = "desk"
    peer: str | None = None
    interfaces: Mapping[str, str] = field(default_factory=dict)
    speed_mbps: int | None = None
    keyfile: str | None = None


@dataclass(frozen=True)
class DeskNode:
    """A node of the lab file. ``management`` is None for the machine that runs pytest."""

    name: str
    machine: Machine
    board: str
    tested: TestedNic
    management: Management | None

    @property
    def is_runner(self) -> bool:
        """Whether this is the machine that runs pytest."""
        return self.machine.login is None

    @property
    def others(self) -> list[FoundNic]:
        nics = self.machine.board.nics.values()
        return [nic for nic in nics if nic.bus is not None and nic.device != self.tested.found.device]


@dataclass(frozen=True)
class Desk:
    """All that a lab file needs. ``hardware`` has the boards and NICs that the catalogue lacks."""

    name: str
    nodes: Sequence[DeskNode]
    hardware: FoundHardware
    keyfile: str | None


def plan(
    machines: Sequence[Machine],
    runner: Machine,
    wishes: Wishes,
    answers: Answers,
    route: Callable[[str], Route | None] = route_to,
) -> Desk:
    """Choose NICs, peer and speeds. Raises ConfigError for a missing answer, and LabError if the bench cannot work."""
    taken: set[str] = set()
    named: dict[str, Machine] = {}
    for machine in machines:
        name = node_name(machine, taken)
        taken.add(name)
        named[name] = machine
    peer = wishes.peer or (PEER_RUNNER if len(machines) == 1 else PEER_NONE)
    accepted = [*named, RUNNER] if peer == PEER_RUNNER else [*named]
    for key in wishes.interfaces:
        if key not in accepted and not (key == "" and len(named) == 1):
            raise ConfigError(f"--interface: {unknown('node', key, accepted)}")
    _check_distinct(named)
    hardware = FoundHardware()
    chosen = {name: _board_nic(name, machine, wishes, answers) for name, machine in named.items()}
    own = None
    if peer == PEER_RUNNER:
        name, machine = next(iter(named.items()))
        own = _runner_nic(name, machine, chosen[name], runner, wishes, answers, route)
    nodes = [_node(name, named[name], nic, False, hardware, wishes, answers) for name, nic in chosen.items()]
    if own is not None:
        nodes.append(_node(node_name(runner, taken, True), runner, own, True, hardware, wishes, answers))
    return Desk(wishes.name, nodes, hardware, wishes.keyfile)


def runner_of_bench(runner: Machine, desk: Desk, wishes: Wishes, answers: Answers) -> DeskNode:
    """Return the machine that runs pytest as a peer of the boards of a bench, whose cables are not known here.

    Raises ConfigError for a missing answer, and LabError without a wired NIC that has a link.
    """
    option = f"--interface {RUNNER}=DEVICE"
    if RUNNER in wishes.interfaces:
        nic = _named(runner, RUNNER, wishes.interfaces[RUNNER], "--interface")
    elif not (linked := runner.linked()):
        there = ", ".join(runner.board.nics) or "none"
        message = f"this machine has no wired NIC with a link (its network devices: {there})"
        raise LabError(message, f"connect a cable to a port of the test switch, or name the NIC: {option}")
    else:
        names = [one.device for one in linked]
        question = "NIC of this machine whose cable ends at the test switch"
        nic = linked[0] if len(linked) == 1 else runner.board.nics[answers.choose(question, names, option)]
    name = node_name(runner, {node.name for node in desk.nodes}, True)
    return _node(name, runner, nic, True, desk.hardware, wishes, answers)


def _check_distinct(machines: Mapping[str, Machine]) -> None:
    taken: dict[str, Machine] = {}
    for machine in machines.values():
        for nic in machine.board.nics.values():
            address = nic.permanent_mac if nic.bus is not None else None
            other = taken.setdefault(address, machine) if address is not None else machine
            if other is not machine:
                message = f"{other.who} and {machine.who} are the same board: both have {nic.device} with MAC {address}"
                raise ConfigError(message)


def _board_nic(node: str, machine: Machine, wishes: Wishes, answers: Answers) -> FoundNic:
    """Return the NIC under test of a board: the wired NIC that has a link, of several the one that carries ssh."""
    wanted = wishes.interfaces.get(node) or wishes.interfaces.get("")
    if wanted is not None:
        return _named(machine, node, wanted, "--interface")
    linked = machine.linked()
    if not linked:
        there = ", ".join(machine.board.nics) or "none"
        message = f"{machine.who} has no wired NIC with a link (its network devices: {there})"
        raise LabError(message, f"connect a cable to {node}, or name the NIC: --interface {node}=DEVICE")
    if len(linked) == 1:
        return linked[0]
    carrying = [nic.device for nic in linked if nic.device in machine.management.carriers]
    devices = [nic.device for nic in linked]
    answers.say(f"{node} has several NICs with a link. One of them is tested: its cable ends at the peer.")
    for nic in linked:
        answers.say(f"  {nic}{', carries ssh' if nic.device in carrying else ''}")
    question = f"NIC of {node} under test"
    device = answers.choose(question, devices, f"--interface {node}=DEVICE", (carrying or devices)[0])
    return machine.board.nics[device]


def _named(machine: Machine, node: str, device: str, option: str) -> FoundNic:
    nic = machine.board.nics.get(device)
    if nic is None:
        raise ConfigError(f"{option}: {unknown('network device', device, machine.board.nics, node)}")
    if machine.facts_of(device).wireless:
        raise ConfigError(
            f"{option}: {device} of {node} is Wi-Fi, and its goodput moves with the signal; name a wired NIC"
        )
    if nic.is_stacked:
        raise ConfigError(f"{option}: {device} of {node} is a bridge, bond or VLAN; name the NIC below it")
    return nic


def _runner_nic(
    node: str,
    machine: Machine,
    tested: FoundNic,
    runner: Machine,
    wishes: Wishes,
    answers: Answers,
    route: Callable[[str], Route | None],
) -> FoundNic:
    """Return the NIC of this machine that reaches the board's NIC under test."""
    if "pc" in wishes.interfaces:
        return _named(runner, "pc", wishes.interfaces["pc"], "--interface")
    found = None
    for address in _addresses(machine, tested):
        found = route(address)
        if found is not None and found.via is None and found.device != "lo":
            break
    option = "--interface pc=DEVICE"
    if found is not None and found.via is None and found.device in runner.board.nics:
        nic = runner.board.nics[found.device]
        if runner.facts_of(nic.device).wireless:
            message = f"this machine reaches {node} by {nic.device}, which is Wi-Fi: tests need a wired NIC"
        elif nic.is_stacked:
            message = f"this machine reaches {node} by {nic.device}, a bridge, bond or VLAN: tests need the NIC itself"
        else:
            return nic
    elif found is not None and found.via is not None:
        message = f"this machine reaches {node} over the router {found.via}, so tests cannot send to it directly"
    else:
        message = f"this machine has no wired connection to {tested.device} of {node}"
    ssh = None if machine.login is None else route(_address_of(machine.login))
    avoided = {way.device for way in (found, ssh) if way is not None}
    others = [nic for nic in runner.linked() if nic.device not in avoided]
    if others and machine.management.device != tested.device:
        # ssh takes another way than the test, such as Wi-Fi: a cable between the two cannot be seen from here.
        answers.say(f"{message}.")
        names = [nic.device for nic in others]
        question = f"NIC of this machine whose cable ends at {tested.device} of {node}"
        return runner.board.nics[answers.choose(question, names, option, names[0] if len(names) == 1 else None)]
    act = f"connect both by a cable or to one switch, or choose another peer: --peer pi@192.0.2.6, or {option}"
    raise LabError(message, act)


def _addresses(machine: Machine, tested: FoundNic) -> list[str]:
    """Return the addresses of the NIC under test, or the address of ssh if it comes in by this NIC."""
    addresses = [address.partition("/")[0] for address in machine.addresses.get(tested.device, ())]
    own = [one for one in addresses if not ipaddress.ip_address(one).is_link_local]
    if machine.login is not None and tested.device in machine.management.carriers:
        return [_address_of(machine.login), *own]
    return own


def _address_of(login: Login) -> str:
    """Return the IP address of a login, or its name if this machine cannot resolve it, such as behind a jump host."""
    try:
        return str(socket.getaddrinfo(login.address, None)[0][4][0])
    except OSError:
        return login.address


def _node(
    name: str,
    machine: Machine,
    found: FoundNic,
    is_runner: bool,
    hardware: FoundHardware,
    wishes: Wishes,
    answers: Answers,
) -> DeskNode:
    facts = machine.facts_of(found.device)
    if known_nic(machine, found) is None and not facts.speeds_mbps and facts.linked_mbps is None:
        answers.say(f"The kernel of {name} does not report the link speed of {found.device}.")
        speed = wishes.speed_mbps or answers.text(f"link speed of {found.device} of {name}", speed_of, "--speed", None)
        facts = replace(facts, linked_mbps=speed)
        machine = replace(machine, facts={**machine.facts, found.device: facts})
    board, tested = hardware.place(name, machine, found, is_runner)
    tested = replace(tested, speed_mbps=_lower_speed(name, tested, wishes, answers))
    management = None if is_runner else machine.management.beside([found.device])
    return DeskNode(name, machine, board, tested, management)


def _lower_speed(node: str, tested: TestedNic, wishes: Wishes, answers: Answers) -> int | None:
    """Return the expected speed of the link if it is lower than the NIC's rated speed."""
    rated, linked = tested.nic.speed_mbps, tested.facts.linked_mbps
    if wishes.speed_mbps is not None:
        linked = wishes.speed_mbps if wishes.speed_mbps in tested.nic.speeds_mbps else linked
    elif linked is not None and linked < rated and linked in tested.nic.speeds_mbps:
        device = tested.found.device
        rates = [str(Bitrate.mbps(linked)), str(Bitrate.mbps(rated))]
        answers.say(f"{device} of {node} can do {rates[1]}, but its link has {rates[0]} now.")
        answers.say("The other end has no more, or the cable is bad.")
        chosen = answers.choose(f"expected link speed of {device} of {node}", rates, "--speed", rates[0])
        linked = linked if chosen == rates[0] else rated
    return linked if linked is not None and linked < rated and linked in tested.nic.speeds_mbps else None


def speed_of(text: str) -> int:
    """Parse a link speed in Mbit/s. Raises ValueError."""
    mbps = Bitrate.parse(text).bps / 1e6
    if mbps < 1 or mbps % 1:
        raise ValueError(f"{text} is no link speed; expected a value such as '1 Gbit/s'")
    return int(mbps)
