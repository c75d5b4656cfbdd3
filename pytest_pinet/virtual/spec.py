"""What the daemon is to build, as plain values that travel in a JSON file.

The daemon knows neither lab files nor the catalogue; whoever starts the lab resolves everything into this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytest_pinet.errors import LabError
from pytest_pinet.model.lab import Interface, Lab
from pytest_pinet.virtual.link_models import Shape, shape_of


@dataclass(frozen=True)
class InterfaceSpec:
    """A NIC: its name in the lab file, its device, address, cable and shape."""

    name: str
    device: str
    mac: str
    switch: str
    port: str
    speed_mbps: int
    shape: Shape


@dataclass(frozen=True)
class NodeSpec:
    """A board; ``title`` is what its boot log calls it."""

    name: str
    place: str
    board: str
    title: str
    interfaces: tuple[InterfaceSpec, ...]


@dataclass(frozen=True)
class SwitchSpec:
    """A switch and all its ports, cabled or not."""

    name: str
    ports: tuple[str, ...]


@dataclass(frozen=True)
class LabSpec:
    """A whole lab."""

    name: str
    nodes: tuple[NodeSpec, ...]
    switches: tuple[SwitchSpec, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LabSpec:
        """The reverse of ``to_json``."""
        nodes = tuple(
            NodeSpec(
                node["name"],
                node["place"],
                node["board"],
                node["title"],
                tuple(InterfaceSpec(**{**i, "shape": Shape.from_json(i["shape"])}) for i in node["interfaces"]),
            )
            for node in data["nodes"]
        )
        switches = tuple(SwitchSpec(switch["name"], tuple(switch["ports"])) for switch in data["switches"])
        return cls(data["name"], nodes, switches)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def digest(self) -> str:
        """Changes when the lab would be built differently."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]


def spec_of(lab: Lab) -> LabSpec:
    """What to build for this lab. Raises LabError for a name that cannot become a device."""
    nodes = tuple(
        NodeSpec(
            node.name,
            node.place,
            node.board.name,
            node.board.title,
            tuple(_interface(node.board.name, interface) for interface in node.interfaces),
        )
        for node in lab.nodes.values()
    )
    switches = tuple(SwitchSpec(switch.name, tuple(switch.ports)) for switch in lab.switches.values())
    for switch in switches:
        for port in switch.ports:
            _check_device(port, f"port {port!r} of switch {switch.name}", lab.file)
    return LabSpec(lab.name, nodes, switches)


def mac_address(node: str, device: str) -> str:
    """A locally administered unicast address that is the same in every run."""
    digest = hashlib.sha256(f"{node}/{device}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))


def _interface(board: str, interface: Interface) -> InterfaceSpec:
    _check_device(interface.device, f"device {interface.device!r} of {interface}", str(interface.where))
    return InterfaceSpec(
        name=interface.name,
        device=interface.device,
        mac=mac_address(interface.node, interface.device),
        switch=interface.port.switch,
        port=interface.port.port,
        speed_mbps=interface.speed_mbps,
        shape=shape_of(board, interface.nic.name, interface.speed_mbps),
    )


def _check_device(name: str, what: str, where: str) -> None:
    # The kernel's own rule (dev_valid_name), and what the batch files of ip and tc can quote.
    plain = name.isascii() and all(c.isalnum() or c in "._-" for c in name)
    if not plain or name in (".", "..", "lo", "br0", "all", "default") or not 0 < len(name) < 16:
        raise LabError(
            f"{what} cannot be a network device of the virtual lab",
            f"use up to 15 letters, digits, dots, dashes or underscores in {where}",
        )
