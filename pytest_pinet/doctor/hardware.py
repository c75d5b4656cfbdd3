"""Compares board and NICs with the lab file: device tree, driver, and negotiated bus speed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.judge.preconditions import USB_MBPS
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import VIRTUAL, Interface, Node

_READ = (
    "PATH=$PATH:/usr/sbin:/sbin; echo model=$(tr -d '\\0' </proc/device-tree/model 2>/dev/null);"
    " for nic in {devices}; do cd /sys/class/net/$nic 2>/dev/null || continue; echo device=$nic;"
    " driver=$(ethtool -i $nic 2>/dev/null | sed -n 's/^driver: *//p');"
    ' [ -n "$driver" ] || driver=$(basename "$(readlink device/driver)" 2>/dev/null);'
    ' echo driver=$driver; echo bus=$(basename "$(readlink device/subsystem)" 2>/dev/null);'
    # ``device`` of a USB NIC is an interface. The speed is a file of its parent.
    " echo usb_mbps=$(cat device/../speed 2>/dev/null);"
    " echo pcie=$(cat device/current_link_speed 2>/dev/null);"
    " echo lanes=$(cat device/current_link_width 2>/dev/null); done"
)
# The least that a bus negotiates without a fault: GT/s and lanes.
_PCIE = {Bus.PCIE2X1: (5.0, 1), Bus.PCIE3X1: (8.0, 1)}


@dataclass(frozen=True)
class NicFacts:
    """The kernel's values of one network device. ``bus`` is None for a device without a bus (veth, bridge, ...)."""

    driver: str | None = None
    bus: str | None = None
    usb_mbps: float | None = None
    pcie_gts: float | None = None
    pcie_lanes: int | None = None


def check_board_and_nics(bench: Bench) -> Sequence[Finding]:
    """Check that board and NICs match the lab file, and that each NIC's bus runs at its expected speed."""

    def look(node: Node) -> list[Finding]:
        devices = " ".join(interface.device for interface in node.interfaces)
        return judge(node, *parse(bench.shell(node.name).run(_READ.format(devices=devices)).stdout))

    return bench.in_parallel(look)


def parse(text: str) -> tuple[str | None, dict[str, NicFacts]]:
    """Parse the node's output: the model of the board, and the values of each device."""
    head, *sections = re.split(r"^device=", text, flags=re.MULTILINE)
    nics = {}
    for section in sections:
        device, *lines = section.splitlines()
        values = dict(line.partition("=")[::2] for line in lines)
        nics[device] = NicFacts(
            driver=values.get("driver") or None,
            bus=values.get("bus") or None,
            usb_mbps=_number(values.get("usb_mbps")),
            # "5.0 GT/s PCIe"
            pcie_gts=_number((values.get("pcie") or "").partition(" ")[0]),
            pcie_lanes=int(values["lanes"]) if values.get("lanes", "").isdecimal() else None,
        )
    return head.strip().removeprefix("model=") or None, nics


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d+(\.\d+)?", text) else None


def judge(node: Node, model: str | None, nics: Mapping[str, NicFacts]) -> list[Finding]:
    """Compare the values of a node with the lab file."""
    # An emulated board has any model that its launcher configured, so it is not compared.
    wrong = [] if model is None or node.is_emulated else _board(node, model)
    bare = [i for i in node.interfaces if i.device in nics and nics[i.device].bus is None]
    for interface in node.interfaces:
        if interface.device not in nics:
            act = f"plug the NIC in, load its driver, or correct `device:` in {interface.where}"
            wrong.append((f"there is no network device {interface.device}", act))
        elif interface not in bare:
            facts = nics[interface.device]
            # A bus has no meaningful speed if the node's clock counts instructions.
            paced = facts if node.clock != VIRTUAL else replace(facts, usb_mbps=None, pcie_gts=None)
            wrong += _nic(interface, paced)
    found = [Finding(Status.WRONG, node.name, message, act) for message, act in wrong]
    if model is None:
        found.append(Finding(Status.UNKNOWN, node.name, "the board has no device tree, so its model is unknown"))
    if bare:
        drivers = " and ".join(sorted({str(nics[i.device].driver) for i in bare}))
        found.append(Finding(Status.UNKNOWN, node.name, f"no bus is known for devices of driver {drivers}"))
    return found or [Finding(Status.OK, node.name, model or "")]


def _board(node: Node, model: str) -> list[tuple[str, str]]:
    if _plain(model) in {_plain(node.board.title), _plain(f"{node.board.title} Model B")}:
        return []
    act = f"correct `board:` in {node.where}, or connect the right board"
    return [(f"the board is a {model!r}, the lab file has {node.board.name} ({node.board.title})", act)]


def _plain(model: str) -> str:
    """Normalise a model name: the device tree has "Raspberry Pi 3 Model B Plus Rev 1.3" for the "... Model B+"."""
    return re.sub(r"\s+Rev\s+[\d.]+$", "", model.strip()).replace("+", " Plus").casefold()


def _nic(interface: Interface, facts: NicFacts) -> list[tuple[str, str]]:
    device, nic, bus = interface.device, interface.nic, interface.bus
    wrong = []
    if facts.driver != nic.driver:
        act = f"load {nic.driver} on {interface.node}, or correct the NIC in {interface.where}"
        wrong.append((f"{device} has driver {facts.driver}, but {nic.name} needs {nic.driver}", act))
    # A virtio device is attached to a PCI device.
    kinds = ("usb",) if bus in USB_MBPS else ("pci", "virtio") if bus in _PCIE else (facts.bus,)
    if facts.bus not in kinds:
        act = f"correct the NIC in {interface.where}, or move the NIC to the bus of the lab file"
        wrong.append((f"{device} is on bus {facts.bus}, but the lab file has {nic.name} on {bus}", act))
    elif facts.usb_mbps is not None and facts.usb_mbps < USB_MBPS.get(bus, 0):
        act = "use another port (USB 3 ports are blue) or cable, without a hub"
        wrong.append((f"{device} runs at USB {facts.usb_mbps:g} Mbit/s instead of {USB_MBPS[bus]:g}", act))
    elif facts.pcie_gts is not None and bus in _PCIE:
        gts, lanes = _PCIE[bus]
        found = f"{facts.pcie_gts:g} GT/s x{facts.pcie_lanes or '?'}"
        if facts.pcie_gts < gts or (facts.pcie_lanes is not None and facts.pcie_lanes < lanes):
            act = "reseat card and cable; a Pi 5 needs dtparam=pciex1_gen=3 in config.txt for 8 GT/s"
            wrong.append((f"{device} runs at PCIe {found} instead of {gts:g} GT/s x{lanes}", act))
    return wrong
