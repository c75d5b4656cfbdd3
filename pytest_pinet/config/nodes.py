"""Resolves the nodes of a lab and their cables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_pinet.config.hardware import Hardware
from pytest_pinet.config.schema import InterfaceSection, NodeSection
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.hardware import Board, Nic, attached_bus
from pytest_pinet.model.lab import ONBOARD, Interface, Node, PortRef, Switch
from pytest_pinet.model.quantities import Bitrate


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
        management=section.management,
    )
    return node if section.boot_timeout is None else replace(node, boot_timeout_s=section.boot_timeout)


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
    )


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
    """Return the device of each interface: eth0 is the onboard NIC if there is one; the others count on from there."""
    devices: dict[str, str] = {}
    free = 0 if board.onboard is None else 1
    taken: dict[str, str] = {}
    for key, own in section.interfaces.items():
        device = own.device
        if device is None and key == ONBOARD:
            device = "eth0"
        elif device is None:
            device, free = f"eth{free}", free + 1
        if device in taken:
            message = f"'{node}:{key}' and '{node}:{taken[device]}' are both device '{device}'"
            path = ("pinet", "nodes", node, "interfaces", key)
            raise ConfigError(message, document.value((*path, "device")) if own.device else document.key(path))
        taken[device] = key
        devices[key] = device
    return devices
