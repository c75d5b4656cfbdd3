"""Check and make what emulated boards need before power-on: tools, QEMU's devices, and a card."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_pinet.emulated.image import Report, card_image
from pytest_pinet.emulated.machine import MACHINES
from pytest_pinet.emulated.rootfs import BUSYBOX, SYSTEMD
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.execution.shell import output
from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual.requirements import require

# The script ``system-packages`` of the virtual lab, which installs them, reads the same file.
COMMANDS = Path(__file__).with_name("board-commands")
ANSWER_S = 20.0


def prepare(lab: Lab, report: Report) -> Path:
    """Return the card image that each emulated board of this lab gets a copy of.

    Raises ConfigError for a NIC that QEMU does not have, LabError for missing tools or devices.
    """
    needed = {}
    for node in lab.nodes.values():
        if node.machine is None or not node.is_emulated:
            continue
        machine = MACHINES[node.machine]
        for interface in node.interfaces:
            driver = interface.nic.driver
            if driver not in machine.nics:
                raise ConfigError(
                    f"QEMU's machine {machine.name} has no NIC for the driver {driver!r} of '{interface.nic.name}'; "
                    f"accepted drivers: {', '.join(sorted(machine.nics))}",
                    interface.where,
                )
            needed[interface] = machine.nics[driver]
    check_commands()
    version, offered = qemu_devices()
    for interface, device in needed.items():
        if device not in offered:
            raise LabError(
                f"QEMU {version} on this machine cannot emulate {device}, which the lab file requires for {interface}",
                "install a newer QEMU (igb needs 8.0, as in Debian's backports), or remove the NIC from the lab file",
            )
    # One image for all boards of a lab.
    managed = any(node.manager is not None for node in lab.nodes.values())
    return card_image(report, SYSTEMD if managed else BUSYBOX)


def check_commands() -> None:
    """Raise LabError if commands are missing. The error names their packages."""
    require(COMMANDS, "emulated boards need")


def qemu_devices() -> tuple[str, frozenset[str]]:
    """Return QEMU's version and the devices that it can emulate. Raises LabError if QEMU fails."""
    text = _output("-M", "virt", "-device", "help")
    version = re.search(r"version (\S+)", _output("--version"))
    return version[1] if version else "?", frozenset(re.findall(r'^name "([^"]+)"', text, re.MULTILINE))


def _output(*words: str) -> str:
    act = "check that all QEMU packages of this machine have the same version"
    return output(["qemu-system-aarch64", *words], ANSWER_S, act=act)
