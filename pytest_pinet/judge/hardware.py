"""Compares board and NICs with the lab file: finds each NIC on its node, and says how it differs from the lab file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations

from pytest_pinet.model.hardware import BUS_WORDS, KERNEL_BUSES, FoundBoard, FoundNic
from pytest_pinet.model.lab import Interface, Node

_DISCOVER = "`pinet discover` prints the lines for the lab file"
ADDRESS = f"give each its `mac:`; {_DISCOVER}"


@dataclass(frozen=True)
class Mismatch:
    """A difference from the lab file. ``act`` says what to do."""

    message: str
    act: str


def find(interface: Interface, board: FoundBoard) -> FoundNic | Mismatch:
    """Return the NIC that the lab file means, or why there is none."""
    plain = [nic for nic in board.nics.values() if not nic.is_stacked]
    if interface.mac is not None:
        key, what = "mac", f"NIC with MAC {interface.mac}"
        fits = [nic for nic in plain if nic.permanent_mac == interface.mac]
        fits = fits or [nic for nic in plain if nic.mac == interface.mac]
    elif interface.bus_info is not None:
        key, what = "bus_info", f"NIC with bus_info {interface.bus_info}"
        fits = [nic for nic in plain if nic.bus_info == interface.bus_info]
        # Two NICs of one USB device have the same place.
        fits = [nic for nic in fits if nic.driver in interface.accepted_drivers] or fits
    elif interface.found_on is not None:
        drivers, buses = interface.accepted_drivers, KERNEL_BUSES[interface.found_on]
        key, what = "bus", f"NIC with driver {' or '.join(drivers)} on bus {interface.found_on}"
        fits = [nic for nic in plain if nic.driver in drivers and nic.bus in buses]
        # An adapter may have the chip of the board's own NIC.
        own_is_known = any(nic.is_own for nic in plain)
        fits = [nic for nic in fits if not own_is_known or nic.is_own == interface.is_onboard]
    else:
        key, what = "device", f"network device {interface.device}"
        own = [nic for nic in plain if nic.is_own and interface.is_onboard and not interface.is_named]
        fits = own or [nic for nic in board.nics.values() if nic.device == interface.device]
    if len(fits) == 1:
        return fits[0]
    if fits:
        both = " and ".join(map(str, fits))
        instead = f" instead of `{key}:`" if key == "bus" else ""
        act = f"give this NIC its `mac:`{instead} in {interface.where}; {_DISCOVER}"
        return Mismatch(f"more than one {what}: {both}", act)
    there = ", ".join(map(str, plain)) or "none"
    keys = "`driver:` and `bus:`" if key == "bus" else f"`{key}:`"
    act = f"plug the NIC in, load its driver, or correct {keys} in {interface.where}; {_DISCOVER}"
    return Mismatch(f"there is no {what}; the NICs there: {there}", act)


def compare_board(node: Node, model: str | None) -> list[Mismatch]:
    """Compare the model of a board with the lab file. A model that either side does not know is not compared."""
    expected = node.board.model
    if model is None or expected is None or is_model(model, expected):
        return []
    act = f"correct `board:` in {node.where}, or connect the right board"
    return [Mismatch(f"the board is a {model!r}, the lab file has {node.board.name} ({expected})", act)]


def is_model(model: str, expected: str) -> bool:
    """Return whether a model as its device tree names it is this model of the catalogue."""
    return _plain(model) in {_plain(expected), _plain(f"{expected} Model B")}


def _plain(model: str) -> str:
    """Normalise a model name: the device tree has "Raspberry Pi 3 Model B Plus Rev 1.3" for the "... Model B+".

    The firmware names the memory of a compute module ("Lite"), mainline device trees its carrier board.
    """
    name = re.sub(r"(\s+Lite)?(\s+on\s.*|\s+IO Board)?(\s+Rev\s+[\d.]+)?$", "", model.strip())
    return name.replace("+", " Plus").casefold()


def exchangeable(node: Node) -> list[str]:
    """Return a sentence for each pair of USB NICs with one driver, if the lab file does not distinguish them.

    Their names depend on the order in which the kernel finds them.
    """
    usb = [nic for nic in node.interfaces if BUS_WORDS.get(nic.bus) == "usb" and not nic.is_onboard]
    pairs = ((a, b) for a, b in combinations(usb, 2) if not set(a.accepted_drivers).isdisjoint(b.accepted_drivers))
    return [
        f"{a} and {b} have the same driver and bus: without `mac:` or `bus_info:`, only a managed switch notices that "
        "their names were exchanged"
        for a, b in pairs
        if not all(nic.mac or nic.bus_info or nic.found_on for nic in (a, b))
    ]


def identify(node: Node, interface: Interface, board: FoundBoard) -> tuple[FoundNic | None, list[Mismatch]]:
    """Return the NIC that the lab file means (None: there is none), and how it differs from the lab file."""
    nic = find(interface, board)
    return (None, [nic]) if isinstance(nic, Mismatch) else (nic, compare_nic(node, interface, nic, board))


def fitting(node: Node, interface: Interface, board: FoundBoard) -> FoundNic | None:
    """Return the only NIC of the board that does not differ from the lab file, whatever its name; None without one."""
    plain = (nic for nic in board.nics.values() if not nic.is_stacked and nic.bus is not None)
    fits = [nic for nic in plain if not _differences(node, interface, nic, board)]
    return fits[0] if len(fits) == 1 else None


def compare_nic(node: Node, interface: Interface, nic: FoundNic, board: FoundBoard) -> list[Mismatch]:
    """Compare a NIC with the lab file: driver, bus, and whether it is the board's own.

    A NIC that fits another interface of the node was probably exchanged with it.
    """
    found = _differences(node, interface, nic, board)
    others = [other for other in node.interfaces if other.name != interface.name]
    fits = [other for other in others if not _differences(node, other, nic, board)] if found else []
    hint = f"; it fits {fits[0]}, so their names may be exchanged" if len(fits) == 1 else ""
    return [Mismatch(f"{one.message}{hint}", one.act) for one in found[:1]] + found[1:]


def _differences(node: Node, interface: Interface, nic: FoundNic, board: FoundBoard) -> list[Mismatch]:
    device, where = nic.device, interface.where
    name, bus, drivers = interface.nic.name, interface.bus, interface.accepted_drivers
    found = []
    if drivers and nic.driver is not None and nic.driver not in drivers:
        act = (
            f"load {drivers[0]} on {interface.node}, or correct in {where}: the NIC, its `driver:`, or how it is found "
            f"(`mac:`); {_DISCOVER}"
        )
        found.append(Mismatch(f"{device} has driver {nic.driver}, but {name} needs {' or '.join(drivers)}", act))
    if interface.bus_info is not None and nic.bus_info is not None and nic.bus_info != interface.bus_info:
        message = f"{device} is at bus_info {nic.bus_info}, but the lab file has {name} at {interface.bus_info}"
        found.append(Mismatch(message, f"move the NIC to its old place, or correct `bus_info:` in {where}"))
    elif nic.bus is not None and nic.bus not in KERNEL_BUSES.get(BUS_WORDS.get(bus, ""), (nic.bus,)):
        act = f"correct the NIC in {where}, or move the NIC to the bus of the lab file"
        found.append(Mismatch(f"{device} is on bus {nic.bus}, but the lab file has {name} on {bus}", act))
    own = next((one.device for one in board.nics.values() if one.is_own), None)
    if own is not None and interface.is_onboard and not nic.is_own:
        act = f"remove `device:`, `mac:` and `bus_info:` in {where}, so that the onboard NIC is found by itself"
        found.append(Mismatch(f"{device} is not the board's own NIC, which is {own}", act))
    elif nic.is_own and not interface.is_onboard and node.board.onboard is not None:
        act = f"correct in {where} how the NIC is found; {_DISCOVER}"
        found.append(Mismatch(f"{device} is the board's own NIC, but the lab file has {name}", act))
    return found
