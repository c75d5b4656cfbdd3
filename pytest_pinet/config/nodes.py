"""Resolves the nodes of a lab and their cables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, count

from pytest_pinet.config.hardware import Hardware
from pytest_pinet.config.schema import InterfaceSection, NodeSection
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.hardware import BUS_WORDS, UNKNOWN_DRIVER, Board, Nic, attached_bus
from pytest_pinet.model.lab import ONBOARD, Interface, Node, PortRef, Switch
from pytest_pinet.model.quantities import Bitrate

# The default boot timeout of boards with one core (Pi 1, Zero), which take 50 s to user space alone.
SLOW_BOOT_S = 300.0


def resolve_node(
    name: str, section: NodeSection, hardware: Hardware, switches: Mapping[str, Switch], document: Document
) -> Node:
    """Resolve one node with its interfaces. Raises ConfigError."""
    path = ("pinet", "nodes", name)
    board = hardware.boards.get(section.board)
    if board is None:
        raise ConfigError(unknown("board", section.board, hardware.boards), document.value((*path, "board")))
    if not section.interfaces:
        raise ConfigError(f"node '{name}' has no interface; expected at least one", document.key((*path, "interfaces")))
    devices = _devices(section, board, name, document)
    interfaces = tuple(
        _interface(name, key, own, devices[key], board, hardware, switches, document)
        for key, own in section.interfaces.items()
    )
    own_nics = [i for i in interfaces if i.label == ONBOARD]
    if len(own_nics) > 1:
        message = f"board '{board.name}' has one onboard NIC, but {own_nics[0]} and {own_nics[1]} both claim it"
        raise ConfigError(message, own_nics[1].where)
    node = Node(
        name,
        board,
        section.place or name,
        section.target or name,
        interfaces,
        document.key(path),
        outlet=section.outlet,
        runner=section.runner,
        machine=section.machine,
        clock=section.clock,
        user=section.user,
        management=section.management,
        manager=section.manager,
    )
    if section.boot_timeout is not None:
        return replace(node, boot_timeout_s=section.boot_timeout)
    return replace(node, boot_timeout_s=SLOW_BOOT_S) if board.cores == 1 else node


def _interface(
    node: str,
    key: str,
    section: InterfaceSection,
    device: str,
    board: Board,
    hardware: Hardware,
    switches: Mapping[str, Switch],
    document: Document,
) -> Interface:
    path = ("pinet", "nodes", node, "interfaces", key)
    nic = _nic(node, key, section, board, hardware, document)
    bus = attached_bus(board, nic)
    if bus is None:
        offered = ", ".join(sorted(map(str, board.buses))) or "none for add-on NICs"
        message = f"NIC '{nic.name}' needs a {nic.bus} bus, which board '{board.name}' lacks; the board has: {offered}"
        raise ConfigError(message, document.value((*path, "nic")))
    _check_found_on(section, nic, f"{node}:{key}", document, path)
    return Interface(
        node=node,
        name=key,
        label=ONBOARD if nic.name == board.onboard else nic.name,
        nic=nic,
        bus=bus,
        device=device,
        port=resolve_port(section.port, switches, document, (*path, "port")),
        speed_mbps=_speed(section.speed, nic, document, (*path, "speed")),
        where=document.key(path),
        is_named=section.device is not None,
        mac=section.mac,
        bus_info=section.bus_info,
        drivers=tuple(section.driver or ()),
        found_on=section.bus,
    )


def _check_found_on(section: InterfaceSection, nic: Nic, name: str, document: Document, path: tuple[str, ...]) -> None:
    """Check that an interface can be found by driver and bus, if the lab file has ``bus``. Raises ConfigError."""
    if section.bus is None:
        return
    if not section.driver and nic.driver == UNKNOWN_DRIVER:
        message = f"'{name}' has 'bus', but no driver of NIC '{nic.name}' is known: add the key 'driver'"
        raise ConfigError(message, document.value((*path, "bus")))
    if section.bus != BUS_WORDS.get(nic.bus, section.bus):
        message = f"NIC '{nic.name}' has bus {nic.bus}, so it cannot be on bus {section.bus}"
        raise ConfigError(message, document.value((*path, "bus")))


def _nic(node: str, key: str, section: InterfaceSection, board: Board, hardware: Hardware, document: Document) -> Nic:
    path = ("pinet", "nodes", node, "interfaces", key)
    if section.nic is None:
        if key != ONBOARD:
            raise ConfigError(f"interface '{node}:{key}' lacks the key 'nic'", document.key(path))
        if board.onboard is None:
            message = f"board '{board.name}' has no onboard NIC; interface '{node}:{key}' needs the key 'nic'"
            raise ConfigError(message, document.key(path))
        return hardware.nics[board.onboard]
    nic = hardware.nics.get(hardware.nic_name(section.nic))
    if nic is None:
        raise ConfigError(unknown("NIC", section.nic, hardware.nic_names), document.value((*path, "nic")))
    if key == ONBOARD and nic.name != board.onboard:
        own = f"has '{board.onboard}' onboard" if board.onboard else "has no onboard NIC"
        message = f"interface '{node}:{key}' cannot be NIC '{section.nic}': board '{board.name}' {own}"
        raise ConfigError(message, document.value((*path, "nic")))
    return nic


def resolve_port(address: str, switches: Mapping[str, Switch], document: Document, path: tuple[str, ...]) -> PortRef:
    """Return the port of an address such as ``sw1/p1``. Raises ConfigError if there is no such port."""
    switch, port = address.split("/", 1)
    if switch not in switches:
        raise ConfigError(unknown("switch", switch, switches), document.value(path))
    if port not in switches[switch].ports:
        raise ConfigError(unknown("port", port, switches[switch].ports, f"switch {switch}"), document.value(path))
    return PortRef(switch, port)


def _speed(cap: Bitrate | None, nic: Nic, document: Document, path: tuple[str, ...]) -> int:
    if cap is None:
        return nic.speed_mbps
    for speed in nic.speeds_mbps:
        if speed * 1e6 == cap.bps:
            return speed
    accepted = ", ".join(str(Bitrate.mbps(speed)) for speed in nic.speeds_mbps)
    raise ConfigError(f"NIC '{nic.name}' does not negotiate {cap}; accepted: {accepted}", document.value(path))


def _devices(section: NodeSection, board: Board, node: str, document: Document) -> dict[str, str]:
    """Return the device of each interface: eth0 is the onboard NIC if there is one; the others count on from there.

    The name of a NIC that is found by its address is only a guess. No other interface may have the guessed name.
    """
    devices: dict[str, str] = {}
    free = 0 if board.onboard is None else 1
    taken: dict[str, str] = {}
    guesses: dict[str, str] = {}
    for key, own in section.interfaces.items():
        path = ("pinet", "nodes", node, "interfaces", key)
        given = {"device": own.device, "bus": own.bus, "mac": own.mac, "bus_info": own.bus_info}
        ways = [way for way, value in given.items() if value is not None]
        is_addressed = bool(ways) and own.device is None
        # A NIC with an address may also have a place, which is compared.
        if len(ways) > 1 and ways != ["mac", "bus_info"]:
            message = (
                f"'{node}:{key}' has both '{ways[0]}' and '{ways[1]}', but a NIC is found by one of them: remove one"
            )
            raise ConfigError(message, document.value((*path, ways[0])))
        device = own.device
        if device is None and key == ONBOARD:
            device = "eth0"
        elif device is None:
            device, free = f"eth{free}", free + 1
        devices[key] = device
        if is_addressed:
            guesses[key] = device
            continue
        if device in taken:
            message = f"'{node}:{key}' and '{node}:{taken[device]}' are both device '{device}'"
            raise ConfigError(message, document.value((*path, "device")) if own.device else document.key(path))
        taken[device] = key
    for key, device in guesses.items():
        names = chain((device,), (f"eth{number}" for number in count()))
        devices[key] = next(name for name in names if name not in taken)
        taken[devices[key]] = key
    return devices


def check_addresses(nodes: Iterable[Node], document: Document) -> None:
    """Check that no two interfaces have the same MAC address, and no two of a node one place, or one driver and bus."""
    taken: dict[tuple[str, str], Interface] = {}
    for interface in (interface for node in nodes for interface in node.interfaces):
        path = ("pinet", "nodes", interface.node, "interfaces", interface.name)
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
                raise ConfigError(message, document.value((*path, key)))
