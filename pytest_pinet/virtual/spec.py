"""The specification of a lab for the daemon, as plain values in a JSON file.

The daemon knows neither lab files nor the catalogue. The process that starts the lab resolves both into these values.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import CLOCKS, MACHINES, ROOT, Interface, Lab, Node
from pytest_pinet.model.management import ManagementMode
from pytest_pinet.virtual.boot_settings import BootSettings
from pytest_pinet.virtual.link_models import UNSHAPED, LinkModel, model_of

# Kinds of power outlets, by labgrid's names. The first is the default.
OUTLETS = ("rest", "shelly_gen2", "poe_mib")
_PCIE = (Bus.PCIE2X1, Bus.PCIE3X1)


@dataclass(frozen=True)
class InterfaceSpec:
    """A NIC: name in the lab file, device, address, cable and link model.

    ``pcie`` means a card in a slot. ``bus_info`` is the NIC's place on the bus, which a board in a namespace reports.
    """

    name: str
    device: str
    mac: str
    switch: str
    port: str
    speed_mbps: int
    model: LinkModel
    driver: str = ""
    pcie: bool = False
    bus_info: str = ""


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
    """A board. ``title`` is its name in the boot log, ``model`` that in its device tree, if it has one.

    ``outlet`` is the kind of its power outlet.

    ``clock_mhz`` is the default clock of its processor. ``machine`` is what runs the board: a ``namespace`` of the
    host, or the name of a QEMU machine. ``clock`` is the kind of time in that machine. ``user`` is its account.
    ``management`` is set if ssh comes in by a NIC under test; else the board has a way of its own.
    ``manager`` is what configures the NICs in a QEMU machine.
    """

    name: str
    place: str
    board: str
    title: str
    interfaces: tuple[InterfaceSpec, ...]
    outlet: str
    clock_mhz: int
    machine: str = MACHINES[0]
    clock: str = CLOCKS[0]
    model: str = ""
    user: str = ROOT
    management: ManagementSpec | None = None
    manager: str | None = None

    @property
    def feed(self) -> InterfaceSpec:
        """The NIC that powers the board, if its power comes over Ethernet."""
        return next((i for i in self.interfaces if i.name == "onboard"), self.interfaces[0])


@dataclass(frozen=True)
class SwitchSpec:
    """A switch and all its ports, also free ones. ``management`` is the way to manage it: ``snmp`` or ``ssh``."""

    name: str
    ports: tuple[str, ...]
    management: str


@dataclass(frozen=True)
class UplinkSpec:
    """A cable between two switches. Each of the two ``ends`` is a switch and a port."""

    name: str
    place: str
    ends: tuple[tuple[str, str], tuple[str, str]]
    speed_mbps: int


@dataclass(frozen=True)
class LabSpec:
    """A whole lab. ``scale`` is the share of the full rate at which its links run (None: not measured yet).

    ``image`` is the card image for emulated boards, made by the process that starts the lab.
    """

    name: str
    nodes: tuple[NodeSpec, ...]
    switches: tuple[SwitchSpec, ...]
    uplinks: tuple[UplinkSpec, ...] = ()
    scale: float | None = 1.0
    image: str | None = None

    @classmethod
    def from_json(cls, data: object) -> LabSpec:
        """The reverse of ``to_json``. Raises ValueError for other data."""
        # Only the daemon needs pydantic here.
        from pydantic import TypeAdapter

        return TypeAdapter(cls).validate_python(data)

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @property
    def fastest_bps(self) -> float:
        """The layer 2 rate of the fastest possible flow between two NICs on one switch."""
        rates: dict[str, list[float]] = {}
        for node in self.nodes:
            for interface in node.interfaces:
                shape = interface.model.shape(BootSettings(node.clock_mhz))
                rates.setdefault(interface.switch, []).append(max(shape.tx_bps, shape.rx_bps))
        return max((sorted(known)[-2] for known in rates.values() if len(known) > 1), default=0.0)

    @property
    def digest(self) -> str:
        """A hash of the specification, without the image."""
        hashed = {**self.to_json(), "image": None}
        return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]


def spec_of(lab: Lab) -> LabSpec:
    """Return the specification of a lab. Raises LabError for a bad device name, ConfigError for a bad outlet."""
    nodes = tuple(_node(node, lab) for node in lab.nodes.values())
    switches = tuple(
        SwitchSpec(switch.name, tuple(switch.ports), "snmp" if switch.backend == "snmp" else "ssh")
        for switch in lab.switches.values()
    )
    for switch in switches:
        for port in switch.ports:
            _check_device(port, f"port {port!r} of switch {switch.name}", lab.file)
    uplinks = tuple(
        UplinkSpec(
            uplink.name,
            uplink.place,
            ((uplink.ports[0].switch, uplink.ports[0].port), (uplink.ports[1].switch, uplink.ports[1].port)),
            uplink.speed_mbps,
        )
        for uplink in lab.uplinks.values()
    )
    return LabSpec(lab.name, nodes, switches, uplinks, lab.scale)


def mac_address(node: str, device: str) -> str:
    """Return a locally administered unicast address that is the same in every run."""
    digest = hashlib.sha256(f"{node}/{device}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))


def _node(node: Node, lab: Lab) -> NodeSpec:
    outlet = node.outlet or OUTLETS[0]
    if outlet not in OUTLETS:
        raise ConfigError(unknown("outlet", outlet, OUTLETS, f"node {node.name}"), node.where)
    spec = NodeSpec(
        node.name,
        node.place,
        node.board.name,
        node.board.title,
        tuple(_interface(node, interface) for interface in node.interfaces),
        outlet,
        node.board.clock_mhz,
        node.machine or MACHINES[0],
        node.clock,
        node.board.model or node.board.title,
        node.user or ROOT,
        _management(node, lab),
        node.manager,
    )
    if outlet == "poe_mib" and (switch := lab.switches[spec.feed.switch]).backend != "snmp":
        raise ConfigError(
            f"the virtual lab switches node {node.name} (outlet poe_mib) by SNMP on port "
            f"{switch.name}/{spec.feed.port}, but switch {switch.name} has backend {switch.backend}; "
            "set backend snmp, or remove the outlet",
            node.where,
        )
    return spec


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
        name=interface.name,
        device=interface.device,
        mac=interface.mac or mac_address(interface.node, interface.device),
        switch=interface.port.switch,
        port=interface.port.port,
        speed_mbps=interface.speed_mbps,
        # An emulated board has no shaper: a shaper would limit it in real time, not in the time of its own clock.
        model=(
            model_of(node.board.name, interface.nic.name, interface.speed_mbps, interface.port.switch)
            if not node.is_emulated
            else UNSHAPED
        ),
        driver=interface.nic.driver,
        pcie=interface.bus in _PCIE,
        bus_info=interface.bus_info or _bus_info(node, interface),
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
    if not plain or name in (".", "..", "lo", "br0", "all", "default") or not 0 < len(name) < 16:
        raise LabError(
            f"{what} cannot be the name of a network device in the virtual lab",
            f"use up to 15 letters, digits, dots, dashes or underscores in {where}",
        )
