"""A lab as its file describes it: nodes, interfaces, switches, uplinks, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import AfterValidator, Strict

from pytest_pinet.errors import Where
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.fields import (
    NO_KEY,
    ONLY_KNOWN_KEYS,
    SET_LATER,
    TWO,
    UNIQUE,
    BootTimeout,
    BusInfo,
    Device,
    Drivers,
    Launcher,
    LinkShare,
    Mac,
    ManagementOf,
    Mbps,
    Members,
    Name,
    PlaceName,
    PortAddress,
    Tool,
    UnknownName,
    in_file,
    one_of,
)
from pytest_pinet.model.forms import Management
from pytest_pinet.model.hardware import KERNEL_BUSES, UNKNOWN_DRIVER, Board, Bus, Hardware, Nic, meaning
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.traffic import HttpTraffic, Traffic

FIGURES = ("emulated", "measured")
# The kinds of power outlets that a launcher can provide. The words are labgrid's models of a NetworkPowerPort.
OUTLETS = ("rest", "shelly_gen2")
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
class Names(Hardware):
    """What the names in a lab file mean: boards, NICs and switches."""

    switches: Mapping[str, Switch]

    def port(self, address: str) -> PortRef:
        """Return the port of an address such as ``sw1/p1``. Raises UnknownName."""
        switch, port = address.split("/", 1)
        if switch not in self.switches:
            raise UnknownName(unknown("switch", switch, self.switches))
        if port not in self.switches[switch].ports:
            raise UnknownName(unknown("port", port, self.switches[switch].ports, f"switch {switch}"))
        return PortRef(switch, port)


_BoardName = Annotated[Name, meaning(Names.board)]
_NicName = Annotated[Name, meaning(Names.nic)]
_Port = Annotated[PortAddress, meaning(Names.port)]


@dataclass(frozen=True)
class Interface:
    """A NIC of a node, and the switch port that its cable ends in.

    ``name`` is its key in the lab file (``onboard``, or a name that the user chose), ``label`` the word for ids:
    ``onboard`` or the NIC's catalogue name.

    A NIC is found by ``mac``, else by ``bus_info``, else by its driver on the bus ``found_on`` (a key of KERNEL_BUSES),
    else by its name. The onboard NIC is found by the device tree, unless ``is_named``: the lab file names its device.
    Until a NIC is found on the running board, ``device`` is only a guess. ``bus`` is the bus of the board that the NIC
    uses.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    node: Annotated[str, *SET_LATER]
    name: Annotated[str, *SET_LATER]
    label: Annotated[str, *SET_LATER]
    nic: Annotated[
        Nic,
        *in_file(_NicName | None, "catalogue or product name; may be left out for 'onboard'", default=None),
    ]
    bus: Annotated[Bus, *SET_LATER]
    device: Annotated[
        str,
        *in_file(
            Device | None,
            "network device, if the NIC is found by its name; default: the board's own NIC for onboard, then eth1 and "
            "so on",
            default=None,
        ),
    ]
    port: Annotated[PortRef, *in_file(_Port, "switch/port")]
    speed_mbps: Annotated[
        int,
        *in_file(Mbps | None, "link speed, if it is lower than the rated speed", default=None, key="speed"),
    ]
    where: Annotated[Where, *SET_LATER] = field(repr=False)
    is_named: Annotated[bool, *NO_KEY] = False
    mac: Annotated[str | None, *in_file(Mac | None, "MAC address; the NIC is found by it, whatever its name")] = None
    bus_info: Annotated[
        str | None,
        *in_file(BusInfo | None, "place on the bus, as ethtool -i prints it; without mac, the NIC is found by it"),
    ] = None
    drivers: Annotated[
        tuple[str, ...],
        *in_file(
            Annotated[Drivers, *UNIQUE] | None,
            "accepted driver, or a list; default: that of the catalogue",
            key="driver",
        ),
    ] = ()
    found_on: Annotated[
        str | None,
        *in_file(
            Annotated[str, *one_of("bus", tuple(KERNEL_BUSES))] | None,
            "the NIC is found by its driver on this bus, if it is the only one; without mac and bus_info",
            key="bus",
        ),
    ] = None

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


def _named(interfaces: Mapping[str, Interface]) -> tuple[Interface, ...]:
    return tuple(replace(interface, name=name) for name, interface in interfaces.items())


@dataclass(frozen=True)
class Node:
    """One board in the lab.

    ``place`` is its labgrid place, ``target`` its role in the environment file. None as ``outlet``, ``machine`` or
    ``user``: the launcher's choice. With a virtual clock a second is a fixed number of instructions, so goodput is
    taken from this node's end in both directions.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    name: Annotated[str, *SET_LATER]
    board: Annotated[Board, *in_file(_BoardName)]
    place: Annotated[str, *in_file(PlaceName | None, "labgrid place, by default the node's name", default=None)]
    target: Annotated[str, *in_file(PlaceName | None, "key under 'targets', by default the node's name", default=None)]
    interfaces: Annotated[
        tuple[Interface, ...],
        *in_file(Annotated[dict[Name, Interface], AfterValidator(_named)], minProperties=1),
    ]
    where: Annotated[Where, *SET_LATER] = field(repr=False)
    boot_timeout_s: Annotated[
        float,
        *in_file(
            BootTimeout | None,
            "longest time from power-on to ssh, by default 180 s; 300 s for boards with one core",
            default=None,
            key="boot_timeout",
        ),
    ]
    outlet: Annotated[
        str | None,
        *in_file(
            Annotated[str, *one_of("kind of outlet", OUTLETS)] | None,
            "kind of power switch that the launcher provides for this node; only in a lab with a launcher",
        ),
    ] = None
    runner: Annotated[
        bool,
        *in_file(
            Annotated[bool, Strict()],
            "this node is the machine that pytest runs on: it is only a peer, and has no target",
        ),
    ] = False
    machine: Annotated[
        str | None,
        *in_file(
            Annotated[str, *one_of("machine", MACHINES)] | None,
            "kind of machine that the launcher runs as this board; only in a lab with a launcher",
        ),
    ] = None
    clock: Annotated[
        str,
        *in_file(
            Annotated[str, *one_of("clock", CLOCKS)],
            "clock of the board; virtual: counts instructions; goodput is per second of this clock; exact: a board of "
            "`pinet gate --exact`, whose values repeat to the last digit",
        ),
    ] = WALL
    user: Annotated[
        str | None,
        *in_file(
            Annotated[str, *one_of("user", USERS)] | None,
            "account of an emulated board; pi: a user with sudo, and root cannot log in; default: root",
        ),
    ] = None
    management: Annotated[
        Management | None,
        *in_file(
            ManagementOf | None,
            "how commands reach the node: separate (an interface of its own), same (the onboard interface, or else the "
            "first one, which is also under test), vlan:N (a tagged VLAN on that interface) or wifi; by default the "
            "interface that the ssh connection uses decides",
        ),
    ] = None
    manager: Annotated[
        str | None,
        *in_file(
            Annotated[str, *one_of("network manager", MANAGERS)] | None,
            "what configures the NICs of an emulated board, which then runs systemd; default: nothing",
        ),
    ] = None

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
    """A switch and how it is managed. ``settings`` are for the backend (address, keyfile, ...).

    A group of ports whose lowest port is the lab file's n-th uses the n-th of ``group_vlans``. ``default_vlan`` is the
    VLAN of a port that is in a test's group without a note of its earlier VLAN. ``counter_latency_s`` is the greatest
    age of the counters, if the lab file says it.
    """

    name: str
    backend: str
    ports: tuple[str, ...]
    settings: Mapping[str, str]
    where: Where
    group_vlans: range = range(3900, 4000)
    default_vlan: int = 1
    counter_latency_s: float | None = None

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
    """A cable between two switches. One group of ports at a time uses it, so it is leased like a node."""

    __pydantic_config__ = ONLY_KNOWN_KEYS

    name: Annotated[str, *SET_LATER]
    ports: Annotated[
        tuple[PortRef, PortRef], *in_file(Annotated[tuple[_Port, ...], *TWO], "one port on each of two switches")
    ]
    place: Annotated[str, *in_file(PlaceName | None, "labgrid place, by default the uplink's name", default=None)]
    speed_mbps: Annotated[int, *in_file(Mbps, "link speed of the cable, such as 1 Gbit/s", key="speed")]
    where: Annotated[Where, *SET_LATER] = field(repr=False)

    def port_on(self, switch: str) -> str | None:
        """Return the name of the uplink's port on this switch, or None if the uplink does not lead to the switch."""
        return next((port.port for port in self.ports if port.switch == switch), None)


@dataclass(frozen=True)
class Scale:
    """The ``share`` (above 0, at most 1) of their rate at which a launcher runs links.

    ``because`` says why the share was chosen; it is empty if the user set it. Values are converted to full rate
    (``traffic.wrapping_tools``).
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
    """The parts of the lab that labgrid does not describe.

    ``launcher`` names the program that starts and stops the lab (None: the lab is always there). ``domains`` are the
    contention domains with the names of their nodes. ``scale`` None: the launcher finds the share.
    ``has_coordinator``: the nodes are leased at labgrid's coordinator; if not, by a lock file on each board.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    name: Annotated[str, *in_file(Name | None, "by default the file's name", default=None)]
    file: Annotated[str, *SET_LATER]
    nodes: Annotated[Mapping[str, Node], *in_file(dict[Name, Node], minProperties=1)]
    switches: Mapping[str, Switch]
    limits: Annotated[tuple[Limit, ...], *NO_KEY] = ()
    launcher: Annotated[
        str | None,
        *in_file(
            Launcher | None,
            "program that starts the lab: virtual, or a launcher of an installed package; by default none",
        ),
    ] = None
    figures: Annotated[
        str,
        *in_file(
            Annotated[str, *one_of("kind of values", FIGURES)] | None,
            "how reports label the values of this lab; by default emulated for a lab with a launcher",
        ),
    ] = "measured"
    domains: Annotated[
        Mapping[str, tuple[str, ...]],
        *in_file(
            dict[Name, Annotated[Members, *UNIQUE]],
            "contention domains: node names or globs ('*': all); each domain runs one measurement at a time",
        ),
    ] = field(default_factory=dict)
    uplinks: Annotated[Mapping[str, Uplink], *in_file(dict[Name, Uplink], "cables between switches")] = field(
        default_factory=dict
    )
    scale: Annotated[
        float | None,
        *in_file(
            LinkShare,
            "share of their rate at which the launcher runs links; auto: a tenth if a trial shows that the machine is "
            "too slow for the full rate. Reported values are converted to the full rate",
        ),
    ] = 1.0
    traffic_tool: Annotated[str, *in_file(Tool | None, "tool for TCP and UDP")] = "iperf3"
    http_tool: Annotated[str, *in_file(Tool | None, "tool for HTTP")] = "wrk"
    has_coordinator: Annotated[bool, *NO_KEY] = True

    def tool_for(self, traffic: Traffic) -> str:
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
