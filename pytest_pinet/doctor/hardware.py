"""Checks what each node is and what uses its NICs: board and NICs, the way of ssh, and network managers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.errors import LinkError
from pytest_pinet.judge.hardware import ADDRESS, Mismatch, compare_board, exchangeable, identify
from pytest_pinet.judge.preconditions import USB_MBPS
from pytest_pinet.lab.link.end import READ_TIMEOUT_S
from pytest_pinet.lab.link.manager import Manager, Surroundings, parse, reading
from pytest_pinet.lab.node.management import FoundManagement, check_declared, find_management
from pytest_pinet.lab.switch.switchport import Capability
from pytest_pinet.model.forms import Management, ManagementMode
from pytest_pinet.model.hardware import Bus, FoundBoard, FoundNic
from pytest_pinet.model.lab import VIRTUAL, Interface, Node

# The least that a bus negotiates without a fault: GT/s and lanes.
_PCIE = {Bus.PCIE2X1: (5.0, 1), Bus.PCIE3X1: (8.0, 1)}


def check_board_and_nics(bench: Bench) -> Sequence[Finding]:
    """Check that board and NICs match the lab file, and that each NIC's bus runs at its expected speed."""
    found = [
        finding for node in bench.ready for finding in judge_board(bench.lab.nodes[node.name], bench.boards[node.name])
    ]
    if bench.lab.launcher is None:
        for node in bench.ready:
            sentences = exchangeable(bench.lab.nodes[node.name])
            found += [Finding(Status.UNKNOWN, node.name, text, ADDRESS) for text in sentences]
    return found


def judge_board(node: Node, board: FoundBoard) -> list[Finding]:
    """Compare what was found on a node with the lab file."""
    wrong = compare_board(node, board.model)
    without_bus: list[FoundNic] = []
    for interface in node.interfaces:
        nic, differences = identify(node, interface, board)
        wrong += differences
        if nic is None:
            continue
        if nic.bus is None:
            without_bus.append(nic)
        # A bus has no meaningful speed if the node's clock counts instructions.
        elif not differences and node.clock != VIRTUAL:
            wrong += _speed(interface, nic)
    found = [Finding(Status.WRONG, node.name, one.message, one.act) for one in wrong]
    if board.model is None:
        found.append(Finding(Status.UNKNOWN, node.name, "the board has no device tree, so its model is unknown"))
    elif node.board.model is None:
        message = f"it is a {board.model!r}; board {node.board.name} of the lab file has no `model:` to compare with"
        found.append(Finding(Status.UNKNOWN, node.name, message))
    if without_bus:
        drivers = " and ".join(sorted({str(nic.driver) for nic in without_bus}))
        found.append(Finding(Status.UNKNOWN, node.name, f"no bus is known for devices of driver {drivers}"))
    return found or [Finding(Status.OK, node.name, board.model or "")]


def _speed(interface: Interface, nic: FoundNic) -> list[Mismatch]:
    device, bus = nic.device, interface.bus
    if nic.usb_mbps is not None and nic.usb_mbps < USB_MBPS.get(bus, 0):
        # Only boards with USB 3 have blue ports: `bus` is the faster one that both board and NIC have.
        act = f"use another port{' (USB 3 ports are blue)' if bus is Bus.USB3 else ''} or cable, without a hub"
        return [Mismatch(f"{device} runs at USB {nic.usb_mbps:g} Mbit/s instead of {USB_MBPS[bus]:g}", act)]
    if nic.pcie_gts is not None and bus in _PCIE:
        gts, lanes = _PCIE[bus]
        if nic.pcie_gts < gts or (nic.pcie_lanes is not None and nic.pcie_lanes < lanes):
            found = f"{nic.pcie_gts:g} GT/s x{nic.pcie_lanes or '?'}"
            act = "reseat card and cable"
            if bus is Bus.PCIE3X1:
                act += "; 8 GT/s need dtparam=pciex1_gen=3 in config.txt"
            return [Mismatch(f"{device} runs at PCIe {found} instead of {gts:g} GT/s x{lanes}", act)]
    return []


def check_management(bench: Bench) -> Sequence[Finding]:
    """Find the interface of the ssh connection of each node. Name the mode and its cost."""

    def look(node: Node) -> list[Finding]:
        facts = bench.session(node).facts
        found = find_management(bench.shell(node.name), facts)
        rewires = [
            i.port.switch for i in node.interfaces if Capability.VLAN in bench.switch(i.port.switch).capabilities
        ]
        # With all interfaces of the lab file, also those without their NIC: ssh may come in by such a device.
        return judge_management(bench.lab.nodes[node.name], found, bool(rewires))

    return bench.one_by_one(look)


def judge_management(node: Node, found: FoundManagement, rewires: bool) -> list[Finding]:
    """Return the mode of one node with its cost, or what is wrong with it. ``rewires``: its ports may be moved."""
    try:
        check_declared(node, found)
    except LinkError as error:
        return [Finding.of(error, node.name)]
    way = node.management or found.of(node)
    if node.management is None and way.shares_interface and rewires:
        message = f"ssh {found.words(node)}, which is under test, and the lab file does not say so"
        return [Finding(Status.WRONG, node.name, message, f"write `management: {way}` at {node.where}: {way.cost}")]
    if shared := _shared_bus(node, found):
        return [Finding(Status.WRONG, node.name, shared, "reach the node by `management: same`, wifi or serial")]
    return [Finding(Status.OK, node.name, _words(way))]


def _words(way: Management) -> str:
    return str(way) if way.mode is ManagementMode.SEPARATE else f"{way}: {way.cost}"


def _shared_bus(node: Node, found: FoundManagement) -> str:
    """Return a sentence if ssh comes in by another NIC of the USB bus of a NIC under test."""
    tested = {i.device: found.usb[i.device] for i in node.interfaces if i.device in found.usb}
    for device in sorted(found.carriers - tested.keys()):
        for name, bus in tested.items():
            if found.usb.get(device) == bus:
                return f"ssh comes in by {device}, which shares the USB bus of {name}: the traffic of both competes"
    return ""


def check_managers(bench: Bench) -> Sequence[Finding]:
    """Name the network manager of each NIC. Any manager is fine; one that was never tried is unknown."""
    found: dict[str, Mapping[str, Surroundings]] = {}

    def look(node: Node) -> list[Finding]:
        shell = bench.shell(node.name)
        carriers = find_management(shell, bench.session(node).facts).carriers
        text = shell.run(reading([i.device for i in node.interfaces]), READ_TIMEOUT_S).stdout
        found[node.name] = parse(text, carriers)
        return []

    missing = bench.in_parallel(look)
    return [*missing, *judge_managers({node.name: found[node.name] for node in bench.ready if node.name in found})]


def judge_managers(nodes: Mapping[str, Mapping[str, Surroundings]]) -> list[Finding]:
    """Return a finding for each manager, with its NICs."""
    groups: dict[str, list[str]] = {}
    untried = []
    for node, devices in nodes.items():
        for device, around in devices.items():
            manager = "no manager" if around.holding is None else str(around.holding.manager)
            kept = "carries ssh" if around.carries_ssh else "Wi-Fi" if around.wireless else ""
            groups.setdefault(manager, []).append(f"{node} {device}{f' ({kept})' if kept else ''}")
            if around.holding is not None and around.holding.manager is Manager.NETIFD:
                message = f"netifd configures {device}; tests leave it so, which was never tried on a real board"
                untried.append(Finding(Status.UNKNOWN, node, message))
    named = [f"{manager}: {', '.join(nics)}" for manager, nics in groups.items()]
    return [*(Finding(Status.OK, message=message) for message in named), *untried]
