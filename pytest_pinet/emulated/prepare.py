"""Check and make what emulated boards need before power-on: tools, devices, and a card."""

from __future__ import annotations

from pathlib import Path

from pytest_pinet.emulated.image import Tell, card_image
from pytest_pinet.emulated.machine import MACHINES as QEMU
from pytest_pinet.emulated.machine import Machine
from pytest_pinet.emulated.requirements import check_commands, devices
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.model.lab import Interface, Lab


def prepare(lab: Lab, tell: Tell) -> Path:
    """Return the card image that each emulated board of this lab gets a copy of.

    Raises ConfigError for a NIC that QEMU does not have, LabError for missing tools or devices.
    """
    emulated = [
        (QEMU[node.machine], interface)
        for node in lab.nodes.values()
        if node.machine is not None and node.is_emulated
        for interface in node.interfaces
    ]
    for machine, interface in emulated:
        _check_driver(machine, interface)
    check_commands()
    offered = devices()
    for machine, interface in emulated:
        device = machine.nics[interface.nic.driver]
        if device not in offered:
            raise LabError(
                f"QEMU {offered.version} of this machine has no {device}, which {interface} is",
                "install a newer QEMU (igb came with 8.0; Debian's backports have one), or take it out of the lab file",
            )
    return card_image(tell)


def _check_driver(machine: Machine, interface: Interface) -> None:
    driver = interface.nic.driver
    if driver not in machine.nics:
        raise ConfigError(
            f"QEMU's {machine.name} has no NIC for the driver {driver!r} of '{interface.nic.name}'; accepted drivers: "
            f"{', '.join(sorted(machine.nics))}",
            interface.where,
        )
