"""Compares board and NICs with the lab file: device tree, driver, and negotiated bus speed."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.judge.hardware import ADDRESS, Mismatch, compare_board, exchangeable, identify
from pytest_pinet.judge.preconditions import USB_MBPS
from pytest_pinet.model.hardware import Bus, FoundBoard, FoundNic
from pytest_pinet.model.lab import VIRTUAL, Interface, Node

# The least that a bus negotiates without a fault: GT/s and lanes.
_PCIE = {Bus.PCIE2X1: (5.0, 1), Bus.PCIE3X1: (8.0, 1)}


def check_board_and_nics(bench: Bench) -> Sequence[Finding]:
    """Check that board and NICs match the lab file, and that each NIC's bus runs at its expected speed."""
    found = [finding for node in bench.ready for finding in judge(bench.lab.nodes[node.name], bench.boards[node.name])]
    if bench.lab.launcher is None:
        for node in bench.ready:
            sentences = exchangeable(bench.lab.nodes[node.name])
            found += [Finding(Status.UNKNOWN, node.name, text, ADDRESS) for text in sentences]
    return found


def judge(node: Node, board: FoundBoard) -> list[Finding]:
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
