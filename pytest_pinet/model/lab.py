"""A lab as its file describes it: nodes, interfaces, switch ports, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.errors import Where
from pytest_pinet.model.hardware import Board, Bus, Nic
from pytest_pinet.model.limits import Limit

# What a launcher can run as a board, the usual first: a network namespace of this machine, or a machine of QEMU's.
MACHINES = ("namespace", "virt", "raspi3b")
# Whose time holds on a node: that of the wall, or one that counts the instructions of its processor.
CLOCKS = (WALL, VIRTUAL) = ("wall", "virtual")


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

    ``name`` is its key in the lab file (``onboard``, or what the user chose), ``device`` the network device
    (``eth0``), ``label`` the word that stands in ids: ``onboard`` or the NIC's catalogue name.
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

    def __str__(self) -> str:
        return f"{self.node}:{self.name}"


def names_of(interface: Interface) -> set[str]:
    """What a NIC answers to: ``onboard``, its chip's catalogue name, the products that carry it."""
    return {interface.label, interface.nic.name, *interface.nic.products}


@dataclass(frozen=True)
class Node:
    """One board in the lab; ``place`` is its labgrid place, ``target`` the role in the environment file.

    ``outlet`` is the kind of power outlet that the lab's launcher gives it (None: the launcher's choice). ``runner``:
    it is the machine that pytest runs on, which is a peer only and needs no target. ``machine`` is what the launcher
    runs as this board (None: the launcher's choice), ``clock`` whose time holds there: on a node whose clock is virtual
    a second lasts so many instructions, so goodput is taken from its end in both directions.
    """

    name: str
    board: Board
    place: str
    target: str
    interfaces: tuple[Interface, ...]
    where: Where
    boot_timeout_s: float = 60.0
    outlet: str | None = None
    runner: bool = False
    machine: str | None = None
    clock: str = WALL

    @property
    def is_emulated(self) -> bool:
        """Whether a launcher runs a whole machine as this board, with a kernel of its own."""
        return self.machine is not None and self.machine != MACHINES[0]

    def interface(self, name: str) -> Interface:
        """The interface of this name. Raises KeyError."""
        for candidate in self.interfaces:
            if candidate.name == name:
                return candidate
        raise KeyError(name)


@dataclass(frozen=True)
class Switch:
    """A switch and how it is managed. ``settings`` belong to the backend (address, keyfile, ...)."""

    name: str
    backend: str
    ports: tuple[str, ...]
    settings: Mapping[str, str]
    where: Where


@dataclass(frozen=True)
class Uplink:
    """A cable between two switches. One group of ports at a time can use it, so it is leased by a place of its own."""

    name: str
    ports: tuple[PortRef, PortRef]
    place: str
    speed_mbps: int
    where: Where

    def port_on(self, switch: str) -> str | None:
        """The name of its port on this switch, or None when it does not lead there."""
        return next((port.port for port in self.ports if port.switch == switch), None)


@dataclass(frozen=True)
class Lab:
    """Everything in a lab file that labgrid has no word for.

    ``launcher`` names who starts and stops the lab (None: it is simply there). ``figures`` is what reports call its
    figures: ``measured`` (hardware) or ``emulated`` (somebody set the rates). ``domains`` are the contention domains:
    in each, one measurement at a time. ``scale`` is the share of their rate at which the launcher is to run links
    (None: it finds out which).
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

    @property
    def counts_instructions(self) -> bool:
        """Whether there is a node whose clock is no wall's."""
        return any(node.clock == VIRTUAL for node in self.nodes.values())

    @property
    def meaning(self) -> str:
        """What its figures mean where they are emulated: the end of a sentence that begins with its name."""
        if self.counts_instructions:
            return "counts instructions, not seconds: they tell how long a packet's way is, not how fast a board"
        return "sets the rates of its links itself"

    def interfaces(self) -> list[Interface]:
        """All interfaces, in the order of the file."""
        return [interface for node in self.nodes.values() for interface in node.interfaces]
