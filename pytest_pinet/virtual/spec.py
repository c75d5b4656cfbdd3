"""The specification of a lab for the daemon: the lab of the lab file, and what its launcher adds.

The daemon knows neither lab files nor the catalogue. The process that starts the lab resolves both into these values.
"""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.model.forms import ManagementMode
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import MACHINES, ROOT, Interface, Lab, Node
from pytest_pinet.virtual.link_models import UNSHAPED, LinkModel, model_of
from pytest_pinet.virtual.pi_firmware import BootSettings

# The kinds of power outlets, by labgrid's names.
REST, SHELLY = "rest", "shelly_gen2"
# The bridge with all ports of a switch. The management may create others.
BRIDGE = "br0"
_PCIE = (Bus.PCIE2X1, Bus.PCIE3X1)


@dataclass(frozen=True)
class InterfaceSpec:
    """A NIC, its address, its link model, and its place on the bus, which a board in a namespace reports."""

    interface: Interface
    mac: str
    model: LinkModel
    bus_info: str

    @property
    def is_card(self) -> bool:
        return self.interface.bus in _PCIE


@dataclass(frozen=True)
class ManagementSpec:
    """The way of ssh into a board by one of its NICs and the switch, which has the address ``gateway``.

    ``address`` and ``gateway`` have a prefix length. ``vlan`` is the number of the tagged VLAN (None: no tag).
    """

    device: str
    address: str
    gateway: str
    vlan: int | None = None

    @property
    def host(self) -> str:
        """The address of the board without the prefix length."""
        return self.address.partition("/")[0]


@dataclass(frozen=True)
class NodeSpec:
    """A board and its NICs. The node has the launcher's outlet, machine and user if the lab file names none.

    ``management`` is set if ssh comes in by a NIC under test; else the board has a way of its own.
    """

    node: Node
    interfaces: tuple[InterfaceSpec, ...]
    management: ManagementSpec | None = None


@dataclass(frozen=True)
class LabSpec:
    """A whole lab. The scale of ``lab`` is the share of the full rate at which its links run (None: not measured yet).

    ``image`` is the card image for emulated boards, made by the process that starts the lab.
    """

    lab: Lab
    nodes: tuple[NodeSpec, ...]
    image: str | None = None

    @classmethod
    def read(cls, file: Path) -> LabSpec:
        """The reverse of ``write``."""
        spec = pickle.loads(file.read_bytes())
        assert isinstance(spec, cls)
        return spec

    def write(self, file: Path) -> None:
        """Write the specification for the daemon, in a folder that only the user of the lab and root can write to."""
        file.write_bytes(pickle.dumps(self))

    @property
    def fastest_bps(self) -> float:
        """The layer 2 rate of the fastest possible flow between two NICs on one switch."""
        shapes = (
            (nic.interface.port.switch, nic.model.shape(BootSettings(node.node.board.clock_mhz)))
            for node in self.nodes
            for nic in node.interfaces
        )
        rates = grouped((switch, max(shape.tx_bps, shape.rx_bps)) for switch, shape in shapes)
        return max((sorted(known)[-2] for known in rates.values() if len(known) > 1), default=0.0)

    @property
    def digest(self) -> str:
        """A hash of all that the daemon builds. Lines and waiting times of the lab file have no part in it."""
        built = (
            self.lab.name,
            [replace(spec, node=replace(spec.node, target="", boot_timeout_s=0.0)) for spec in self.nodes],
            [(switch.name, switch.ports) for switch in self.lab.switches.values()],
            self.lab.uplinks,
            self.lab.scale,
        )
        return hashlib.sha256(repr(built).encode()).hexdigest()[:16]


def spec_of(lab: Lab) -> LabSpec:
    """Return the specification of a lab. Raises LabError for a bad device name."""
    nodes = tuple(_node(node, lab) for node in lab.nodes.values())
    for switch in lab.switches.values():
        for port in switch.ports:
            _check_device(port, f"port {port!r} of switch {switch.name}", lab.file)
    # The daemon needs no limits.
    own = {spec.node.name: spec.node for spec in nodes}
    return LabSpec(Lab(lab.name, lab.file, own, lab.switches, uplinks=lab.uplinks, scale=lab.scale), nodes)


def mac_address(node: str, device: str) -> str:
    """Return a locally administered unicast address that is the same in every run."""
    digest = hashlib.sha256(f"{node}/{device}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))


def _node(node: Node, lab: Lab) -> NodeSpec:
    completed = replace(
        node,
        board=replace(node.board, model=node.board.model or node.board.title),
        outlet=node.outlet or REST,
        machine=node.machine or MACHINES[0],
        user=node.user or ROOT,
    )
    return NodeSpec(completed, tuple(_interface(node, one) for one in node.interfaces), _management(node, lab))


def _management(node: Node, lab: Lab) -> ManagementSpec | None:
    """Return the way of ssh by a NIC under test. Raises ConfigError for a way that the launcher does not have."""
    if node.management is None or node.carrying is None:
        if node.management is not None and node.management.mode is ManagementMode.WIFI:
            raise ConfigError(f"node {node.name} has management: wifi, but the virtual lab has no Wi-Fi", node.where)
        return None
    if node.management.vlan is not None and not node.is_emulated:
        message = f"node {node.name} has management: {node.management}, which needs an emulated board (key 'machine')"
        raise ConfigError(message, node.where)
    # Each VLAN of each switch is a network of its own, which the switch is a host of.
    ways = [(one.carrying.port.switch, one.management) for one in lab.nodes.values() if one.carrying is not None]
    network = f"10.77.{list(dict.fromkeys(ways)).index((node.carrying.port.switch, node.management)) + 1}"
    number = list(lab.nodes).index(node.name) + 2
    vlan = node.management.vlan
    return ManagementSpec(node.carrying.device, f"{network}.{number}/24", f"{network}.1/24", vlan)


def _interface(node: Node, interface: Interface) -> InterfaceSpec:
    _check_device(interface.device, f"device {interface.device!r} of {interface}", str(interface.where))
    return InterfaceSpec(
        interface,
        interface.mac or mac_address(interface.node, interface.device),
        # An emulated board has no shaper: a shaper would limit it in real time, not in the time of its own clock.
        UNSHAPED
        if node.is_emulated
        else model_of(node.board.name, interface.nic.name, interface.speed_mbps, interface.port.switch),
        interface.bus_info or _bus_info(node, interface),
    )


def _bus_info(node: Node, interface: Interface) -> str:
    """Return a place for this NIC, as `ethtool -i` prints the places on its bus. Each PCIe card has its own bus."""
    number = node.interfaces.index(interface)
    if interface.bus in _PCIE:
        cards = sum(other.bus in _PCIE for other in node.interfaces[:number])
        return f"0000:{cards + 1:02x}:00.0"
    return f"fd58{number:x}000.ethernet" if interface.bus is Bus.SOC else f"usb-xhci-hcd.0-{number + 1}"


def _check_device(name: str, what: str, where: str) -> None:
    # The kernel's rule (dev_valid_name), further restricted to characters that batch files of ip and tc can contain.
    plain = name.isascii() and all(c.isalnum() or c in "._-" for c in name)
    if not plain or name in (".", "..", "lo", BRIDGE, "all", "default") or not 0 < len(name) < 16:
        raise LabError(
            f"{what} cannot be the name of a network device in the virtual lab",
            f"use up to 15 letters, digits, dots, dashes or underscores in {where}",
        )
