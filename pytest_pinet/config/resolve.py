"""Resolves what a lab file names: boards and NICs of the catalogue, nodes with their cables, and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain, count
from typing import TypeVar

from pydantic import ValidationError

from pytest_pinet.catalogue import load
from pytest_pinet.catalogue.load import written
from pytest_pinet.config.schema import LimitSection
from pytest_pinet.config.section import adapter, first_error, named
from pytest_pinet.config.yaml_lines import Document, Path
from pytest_pinet.errors import ConfigError, Where, mistake_in
from pytest_pinet.execution.names import unknown
from pytest_pinet.judge.oracle import Oracle, highest_limit
from pytest_pinet.model.fields import Name
from pytest_pinet.model.hardware import BUS_WORDS, UNKNOWN_DRIVER, Board, Hardware, Nic, attached_bus
from pytest_pinet.model.lab import ONBOARD, Interface, Node
from pytest_pinet.model.limits import METRICS, Limit, Metric, Origin, Scope, parse_limit
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import KINDS, all_names, parse_topology

_T = TypeVar("_T")


def read_hardware(pinet: Mapping[str, object], document: Document) -> Hardware:
    """Return the catalogue with the sections ``nics`` and ``boards`` of a lab file. Raises ConfigError."""
    known = load()
    nics = {
        name: replace(nic, name=name, ids=known.nics[name].ids if name in known.nics else ())
        for name, nic in _section("nics", dict[Name, Nic], pinet, document, known).items()
    }
    known = Hardware(known.boards, {**known.nics, **nics})
    boards = {
        name: replace(board, name=name)
        for name, board in _section("boards", dict[Name, Board], pinet, document, known).items()
    }
    return Hardware({**known.boards, **boards}, known.nics)


def _section(
    key: str, kind: type[dict[str, _T]], pinet: Mapping[str, object], document: Document, known: Hardware
) -> dict[str, _T]:
    """Return the entries of a section. What an entry leaves out, the catalogue has."""
    own = pinet.get(key, {})
    if isinstance(own, dict):
        own = {name: _completed(key, name, entry) if isinstance(entry, dict) else entry for name, entry in own.items()}
    try:
        return adapter(kind).validate_python(own, context=known)
    except ValidationError as error:
        found = error.errors(include_url=False)
        if any(one["type"] != "missing" for one in found):
            raise first_error(error, kind, document, ("pinet", key)) from None
        name = str(found[0]["loc"][0])
        lacking = " and ".join(f"'{one['loc'][1]}'" for one in found if one["loc"][0] == name)
        message = f"'{name}' is not in the catalogue, so pinet.{key}.{name} must give {lacking} too"
        raise ConfigError(message, document.key(("pinet", key, name))) from None


def _completed(key: str, name: str, entry: Mapping[str, object]) -> dict[str, object]:
    default = {"title": name, "chip": name} if key == "nics" else {"title": name}
    of_catalogue = {part: value for part, value in written(key).get(name, default).items() if part != "ids"}
    return of_catalogue | {part: value for part, value in entry.items() if value is not None}


BOOT_S = 180.0
# The default boot timeout of boards with one core (Pi 1, Zero), which take 50 s to user space alone.
SLOW_BOOT_S = 300.0


def resolve_node(name: str, node: Node, hardware: Hardware, document: Document) -> Node:
    """Return a node with what the lab file leaves out. Raises ConfigError."""
    path = ("pinet", "nodes", name)
    if not node.interfaces:
        raise ConfigError(f"node '{name}' has no interface; expected at least one", document.key((*path, "interfaces")))
    named = [replace(own, node=name, where=document.key((*path, "interfaces", own.name))) for own in node.interfaces]
    devices = _devices(named, node.board, document)
    interfaces = tuple(_interface(own, devices[own.name], node.board, hardware, document) for own in named)
    own_nics = [i for i in interfaces if i.label == ONBOARD]
    if len(own_nics) > 1:
        message = f"board '{node.board.name}' has one onboard NIC, but {own_nics[0]} and {own_nics[1]} both claim it"
        raise ConfigError(message, own_nics[1].where)
    return replace(
        node,
        name=name,
        place=node.place or name,
        target=node.target or name,
        interfaces=interfaces,
        where=document.key(path),
        boot_timeout_s=node.boot_timeout_s or (SLOW_BOOT_S if node.board.cores == 1 else BOOT_S),
    )


def path_of(interface: Interface) -> tuple[str, ...]:
    """Return the path of an interface in the lab file."""
    return ("pinet", "nodes", interface.node, "interfaces", interface.name)


def _interface(own: Interface, device: str, board: Board, hardware: Hardware, document: Document) -> Interface:
    path = path_of(own)
    nic = _nic(own, board, hardware, document)
    bus = attached_bus(board, nic)
    if bus is None:
        offered = ", ".join(sorted(map(str, board.buses))) or "none for add-on NICs"
        message = f"NIC '{nic.name}' needs a {nic.bus} bus, which board '{board.name}' lacks; the board has: {offered}"
        raise ConfigError(message, document.value((*path, "nic")))
    _check_found_on(own, nic, document)
    return replace(
        own,
        label=ONBOARD if nic.name == board.onboard else nic.name,
        nic=nic,
        bus=bus,
        device=device,
        speed_mbps=_speed(own, nic, document),
        is_named=own.device is not None,
        drivers=own.drivers or (),
    )


def _check_found_on(own: Interface, nic: Nic, document: Document) -> None:
    """Check that an interface can be found by driver and bus, if the lab file has ``bus``. Raises ConfigError."""
    if own.found_on is None:
        return
    where = document.value((*path_of(own), "bus"))
    if not own.drivers and nic.driver == UNKNOWN_DRIVER:
        raise ConfigError(f"'{own}' has 'bus', but no driver of NIC '{nic.name}' is known: add the key 'driver'", where)
    if own.found_on != BUS_WORDS.get(nic.bus, own.found_on):
        raise ConfigError(f"NIC '{nic.name}' has bus {nic.bus}, so it cannot be on bus {own.found_on}", where)


def _nic(own: Interface, board: Board, hardware: Hardware, document: Document) -> Nic:
    if own.nic is None:
        if own.name != ONBOARD:
            raise ConfigError(f"interface '{own}' lacks the key 'nic'", own.where)
        if board.onboard is None:
            message = f"board '{board.name}' has no onboard NIC; interface '{own}' needs the key 'nic'"
            raise ConfigError(message, own.where)
        return hardware.nics[board.onboard]
    if own.name == ONBOARD and own.nic.name != board.onboard:
        what = f"has '{board.onboard}' onboard" if board.onboard else "has no onboard NIC"
        message = f"interface '{own}' cannot be NIC '{own.nic.name}': board '{board.name}' {what}"
        raise ConfigError(message, document.value((*path_of(own), "nic")))
    return own.nic


def _speed(own: Interface, nic: Nic, document: Document) -> int:
    if own.speed_mbps is None:
        return nic.speed_mbps
    for speed in nic.speeds_mbps:
        if speed == own.speed_mbps:
            return speed
    accepted = ", ".join(str(Bitrate.mbps(speed)) for speed in nic.speeds_mbps)
    message = f"NIC '{nic.name}' does not negotiate {Bitrate.mbps(own.speed_mbps)}; accepted: {accepted}"
    raise ConfigError(message, document.value((*path_of(own), "speed")))


def _devices(interfaces: Sequence[Interface], board: Board, document: Document) -> dict[str, str]:
    """Return the device of each interface: eth0 is the onboard NIC if there is one; the others count on from there.

    The name of a NIC that is found by its address is only a guess. No other interface may have the guessed name.
    """
    devices: dict[str, str] = {}
    free = 0 if board.onboard is None else 1
    taken: dict[str, str] = {}
    guesses: dict[str, str] = {}
    for own in interfaces:
        path = path_of(own)
        given = {"device": own.device, "bus": own.found_on, "mac": own.mac, "bus_info": own.bus_info}
        ways = [way for way, value in given.items() if value is not None]
        is_addressed = bool(ways) and own.device is None
        # A NIC with an address may also have a place, which is compared.
        if len(ways) > 1 and ways != ["mac", "bus_info"]:
            message = f"'{own}' has both '{ways[0]}' and '{ways[1]}', but a NIC is found by one of them: remove one"
            raise ConfigError(message, document.value((*path, ways[0])))
        device = own.device
        if device is None and own.name == ONBOARD:
            device = "eth0"
        elif device is None:
            device, free = f"eth{free}", free + 1
        devices[own.name] = device
        if is_addressed:
            guesses[own.name] = device
            continue
        if device in taken:
            message = f"'{own}' and '{own.node}:{taken[device]}' are both device '{device}'"
            raise ConfigError(message, document.value((*path, "device")) if own.device else document.key(path))
        taken[device] = own.name
    for key, device in guesses.items():
        names = chain((device,), (f"eth{number}" for number in count()))
        devices[key] = next(name for name in names if name not in taken)
        taken[devices[key]] = key
    return devices


def check_addresses(nodes: Iterable[Node], document: Document) -> None:
    """Check that no two interfaces have the same MAC address, and no two of a node one place, or one driver and bus."""
    taken: dict[tuple[str, str], Interface] = {}
    for interface in (interface for node in nodes for interface in node.interfaces):
        # The device tree distinguishes the board's own NIC.
        by_driver = interface.found_by if interface.found_on and not interface.is_onboard else None
        for key, value, what, act in (
            ("mac", interface.mac, "mac", ""),
            ("bus_info", interface.bus_info, "bus_info", ""),
            ("bus", by_driver, "driver and bus", ": give each its 'mac' instead"),
        ):
            place = value if key == "mac" else f"{interface.node} {value}"
            other = taken.setdefault((key, str(place)), interface) if value is not None else interface
            if other is not interface:
                message = f"{other} (line {other.where.line}) and {interface} have the same {what} '{value}'{act}"
                raise ConfigError(message, document.value((*path_of(interface), key)))


def resolve_limits(
    sections: Sequence[LimitSection], nodes: Sequence[Node], hardware: Hardware, document: Document
) -> tuple[Limit, ...]:
    """The limits in the order of the file. Raises ConfigError for one that can never match, or never be met."""
    return tuple(
        limit
        for index, section in enumerate(sections)
        for limit in _limits(section, nodes, hardware, document, ("pinet", "limits", index))
    )


def _limits(
    section: LimitSection, nodes: Sequence[Node], hardware: Hardware, document: Document, path: Path
) -> list[Limit]:
    """A limit for each metric that the entry names."""
    written = {metric: value for metric in Metric if (value := getattr(section, metric.value)) is not None}
    if not written:
        accepted = ", ".join(METRICS)
        raise ConfigError(f"this limit has no value; expected at least one of {accepted}", document.key(path))
    source = str(document.key(path))
    scope = Scope(section.board, hardware.nic_name(section.nic), section.topology).facing(section.direction)
    found = []
    for metric, value in written.items():
        at = (*path, metric.value)
        with mistake_in(named(at), document.value(at)):
            limit = parse_limit(metric, value, Origin.LAB_FILE, source, scope, section.marginal)
        matching = _matching(limit, nodes, document, path)
        if isinstance(limit.bound, Bitrate):
            everywhere = [interface for node in nodes for interface in node.interfaces]
            _check_bound(limit, limit.bound, matching, everywhere, document.value(at))
        found.append(limit)
    return found


def _matching(limit: Limit, nodes: Sequence[Node], document: Document, path: Path) -> list[Interface]:
    """The interfaces that the limit speaks of, or the name that speaks of none."""
    if not any(fnmatchcase(topology, limit.scope.topology) for topology in all_names()):
        raise ConfigError(unknown("topology", limit.scope.topology, KINDS), document.value((*path, "topology")))
    of_board = [node for node in nodes if fnmatchcase(node.board.name, limit.scope.board)]
    if not of_board:
        names = {node.board.name for node in nodes}
        message = f"this limit matches nothing in the lab: {unknown('board', limit.scope.board, names)}"
        raise ConfigError(message, document.value((*path, "board")))
    matching = [i for node in of_board for i in node.interfaces if fnmatchcase(i.label, limit.scope.nic)]
    if not matching:
        there = [interface for node in of_board for interface in node.interfaces]
        reason = unknown("NIC", limit.scope.nic, {interface.label for interface in there})
        if any(interface.nic.name == limit.scope.nic for interface in there):
            reason = f"'{limit.scope.nic}' is the onboard NIC of this board; write 'onboard'"
        message = f"this limit matches nothing in the lab: {reason}"
        raise ConfigError(message, document.value((*path, "nic")))
    return matching


def _check_bound(
    limit: Limit, bound: Bitrate, matching: Sequence[Interface], everywhere: Sequence[Interface], where: Where
) -> None:
    """Refuse a bit rate that no combination which the limit speaks of can reach."""
    both_ways = limit.scope.both_ways is True
    most, interface = max(((_oracle(i, both_ways), i) for i in matching), key=lambda found: found[0].goodput)
    possible = most.goodput
    what = f"{interface} carries at most {possible}{' each way' if both_ways else ''} ({most.because})"
    pairs = _pairs(limit) if limit.metric is Metric.SUM else 1
    if pairs > 1:
        # A pair is no faster than its slower end: of the others sorted by speed, every second one.
        others = sorted((_oracle(i, both_ways).goodput.bps for i in everywhere if i is not interface), reverse=True)
        counted = others[1::2][: pairs - 1]
        possible = Bitrate(possible.bps + sum(counted))
        if counted:
            what += f", and the {len(counted) + 1} fastest pairs of this lab carry {possible} together"
    if bound > possible:
        raise ConfigError(f"a limit of {bound} can never be met: {what}", where)


def _oracle(interface: Interface, both_ways: bool) -> Oracle:
    return highest_limit(interface.speed_mbps, interface.nic.mtu_max, interface.bus, both_ways)


def _pairs(limit: Limit) -> int:
    """How many NICs at most add to the sum that this limit speaks of: with shared NICs and chains it is one."""
    topologies = [parse_topology(name) for name in all_names() if fnmatchcase(name, limit.scope.topology)]
    return max(1 if t.shared or t.forwards else len(t.segments) for t in topologies)
