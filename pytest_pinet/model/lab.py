"""A lab as its file describes it: nodes, interfaces, switches, uplinks, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.errors import Where
from pytest_pinet.model.hardware import UNKNOWN_DRIVER, Board, Bus, Nic
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.management import Management
from pytest_pinet.model.traffic import HttpTraffic, Traffic

# What a launcher can run as a board: a network namespace of this machine (the default) or a QEMU machine. Exact boards
# are virt, or one of EXACT_MACHINES, which no launcher can run.
EXACT_MACHINES = ("virt-slot",)
MACHINES = ("namespace", "virt", "raspi3b", *EXACT_MACHINES)
# The name of the board's own NIC.
ONBOARD = "onboard"
# The account of an emulated board: root, or a normal user who may use sudo without a password (root cannot log in).
USERS = (ROOT, PI) = ("root", "pi")
# The clock of a node: the wall clock, or a virtual clock that counts the instructions of its processor. On an exact
# board nothing beside the guest moves this clock, so each boot repeats.
CLOCKS = (WALL, VIRTUAL, EXACT) = ("wall", "virtual", "exact")
_VIRTUAL_PATIENCE = 4.0
# What can configure the NICs of an emulated board, as on a real board.
MANAGERS = ("NetworkManager", "systemd-networkd", "dhcpcd", "ifupdown")


@dataclass(frozen=True, order=True)
class PortRef:
    """A port of a switch, written ``switch/port``."""

    switch: str
    port: str

    def __str__(self) -> str:
        return f"{self.switch}/{self.port}"


@dataclass(frozen=True)
class Interface:
    """A NIC in a node, cabled to a switch port.

    ``name`` is its key in the lab file (``onboard``, or a name that the user chose), ``device`` the network device
    (``eth0``), ``label`` the word for ids: ``onboard`` or the NIC's catalogue name.

    A NIC is found by ``mac``, else by ``bus_info`` (its place on the bus, as ``ethtool -i`` prints it), else by its
    driver on the bus ``found_on`` (a key of KERNEL_BUSES), else by its name. The onboard NIC is found by the device
    tree, unless ``is_named``: the lab file names its device. Until a NIC is found on the running board, ``device`` is
    only a guess. ``drivers`` are the accepted drivers; empty: that of the catalogue.
    """

    node: str
    name: str
    label: str
    nic: Nic
    bus: Bus
    device: str
    port: PortRef
    speed_mbps: int
    where: Where
    is_named: bool = False
    mac: str | None = None
    bus_info: str | None = None
    drivers: tuple[str, ...] = ()
    found_on: str | None = None

    @property
    def accepted_drivers(self) -> tuple[str, ...]:
        """The accepted drivers; empty if they are not known."""
        return self.drivers or tuple(one for one in (self.nic.driver,) if one != UNKNOWN_DRIVER)

    @property
    def is_onboard(self) -> bool:
        """Whether this is the board's own NIC."""
        return self.label == ONBOARD

    @property
    def found_by(self) -> str:
        """What the NIC is found by on its node: its address, its place, its driver and bus, or the device's name."""
        by_driver = f"{' or '.join(self.accepted_drivers)} on {self.found_on}" if self.found_on else None
        return self.mac or self.bus_info or by_driver or self.device

    def __str__(self) -> str:
        return f"{self.node}:{self.name}"


def names_of(interface: Interface) -> set[str]:
    """Return all names of a NIC: ``onboard``, the catalogue name of its chip, the products with this chip."""
    return {interface.label, interface.nic.name, *interface.nic.products}


@dataclass(frozen=True)
class Node:
    """One board in the lab; ``place`` is its labgrid place, ``target`` its role in the environment file.

    ``outlet`` is the kind of power outlet that the launcher provides (None: the launcher's choice). ``runner``: the
    node is the machine that pytest runs on; it is only a peer and needs no target. ``machine`` is what the launcher
    runs as this board (None: the launcher's choice). ``user`` is the account that the launcher creates there (None:
    root). ``clock`` is the node's clock. With a virtual clock a second is a fixed number of instructions, so goodput is
    taken from this node's end in both directions. ``management`` is how commands reach the node (None: not in the lab
    file, so the interface of the ssh connection decides). ``manager`` is what configures the NICs of an emulated board
    (None: nothing does).
    """

    name: str
    board: Board
    place: str
    target: str
    interfaces: tuple[Interface, ...]
    where: Where
    boot_timeout_s: float = 180.0
    outlet: str | None = None
    runner: bool = False
    machine: str | None = None
    clock: str = WALL
    user: str | None = None
    management: Management | None = None
    manager: str | None = None

    @property
    def carrying(self) -> Interface | None:
        """The interface that the lab file declares as shared by traffic and management; None if there is none."""
        if self.management is None or not self.management.shares_interface:
            return None
        return next((one for one in self.interfaces if one.label == ONBOARD), next(iter(self.interfaces), None))

    @property
    def patience(self) -> float:
        """How many times longer than others this node, its login and its power switch may take for an answer.

        With a virtual clock, other work on the host delays the answers of a board, but not its values.
        """
        return _VIRTUAL_PATIENCE if self.clock == VIRTUAL else 1.0

    @property
    def is_emulated(self) -> bool:
        """Whether a launcher runs a whole machine with its own kernel as this board."""
        return self.machine is not None and self.machine != MACHINES[0]

    def interface(self, name: str) -> Interface:
        for candidate in self.interfaces:
            if candidate.name == name:
                return candidate
        raise KeyError(name)


@dataclass(frozen=True)
class Switch:
    """A switch and how it is managed. ``settings`` are for the backend (address, keyfile, ...)."""

    name: str
    backend: str
    ports: tuple[str, ...]
    settings: Mapping[str, str]
    where: Where

    @property
    def is_read_only(self) -> bool:
        """Whether the lab file says that the settings of its ports must not be changed."""
        return self.settings.get("read_only") == "true"

    @property
    def is_wired_by_hand(self) -> bool:
        """Whether the lab file says that its wiring cannot be changed."""
        return self.backend == "fixed" or self.is_read_only


@dataclass(frozen=True)
class Uplink:
    """A cable between two switches. Only one group of ports can use it at a time, so it has its own place to lease."""

    name: str
    ports: tuple[PortRef, PortRef]
    place: str
    speed_mbps: int
    where: Where

    def port_on(self, switch: str) -> str | None:
        """Return the name of the uplink's port on this switch, or None if the uplink does not lead to the switch."""
        return next((port.port for port in self.ports if port.switch == switch), None)


@dataclass(frozen=True)
class Scale:
    """The ``share`` (above 0, at most 1) of their rate at which a launcher runs links.

    ``because`` says why the share was chosen; it is empty if the user set it. Values are converted to full rate
    (``traffic.scaled``).
    """

    share: float = 1.0
    because: str = ""

    def __str__(self) -> str:
        why = f" ({self.because})" if self.because else ""
        if self.share == 1:
            return f"links run at full rate{why}"
        return f"links run at {self.share:g} of their rate{why}; values are converted to full rate"


@dataclass(frozen=True)
class Lab:
    """Everything in a lab file that is not labgrid's.

    ``launcher`` names the program that starts and stops the lab (None: the lab is always there). ``figures`` is the
    word for the lab's values in reports: ``measured`` (hardware) or ``emulated`` (software sets the rates). ``domains``
    are the contention domains: each allows one measurement at a time. ``scale`` is the share of their rate at which the
    launcher runs links (None: the launcher finds the share). ``traffic_tool`` names the tool for TCP and UDP,
    ``http_tool`` the tool for HTTP. ``has_coordinator``: the nodes are leased at labgrid's coordinator. Without one, a
    lock file on each board leases it.
    """

    name: str
    file: str
    nodes: Mapping[str, Node]
    switches: Mapping[str, Switch]
    limits: tuple[Limit, ...] = ()
    launcher: str | None = None
    figures: str = "measured"
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    uplinks: Mapping[str, Uplink] = field(default_factory=dict)
    scale: float | None = 1.0
    traffic_tool: str = "iperf3"
    http_tool: str = "wrk"
    has_coordinator: bool = True

    def tool_for(self, traffic: Traffic) -> str:
        """Return the name of the tool that measures this traffic."""
        return self.http_tool if isinstance(traffic, HttpTraffic) else self.traffic_tool

    @property
    def counts_instructions(self) -> bool:
        """Whether a node of this lab has a virtual clock."""
        return any(node.clock == VIRTUAL for node in self.nodes.values())

    @property
    def meaning(self) -> str:
        """What emulated values mean: the end of a sentence that begins with the lab's name."""
        if self.counts_instructions:
            return "counts instructions, not seconds: values show the code path of a packet, not the speed of a board"
        return "sets the rates of its links itself"

    def interfaces(self) -> list[Interface]:
        return [interface for node in self.nodes.values() for interface in node.interfaces]
