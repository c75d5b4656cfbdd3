"""Boards and NICs as in the catalogue, and as they are found on a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Strict, ValidationInfo, WrapValidator

from pytest_pinet.execution.names import unknown
from pytest_pinet.model.fields import (
    NO_KEY,
    ONLY_KNOWN_KEYS,
    SET_LATER,
    UNIQUE,
    Clock,
    Cores,
    Driver,
    LinkSpeed,
    Mtu,
    Name,
    Text,
    UnknownName,
    in_file,
    one_of,
)
from pytest_pinet.model.quantities import Bitrate

H = TypeVar("H", bound="Hardware")


class Bus(StrEnum):
    """The bus between a NIC and the processor."""

    SOC = "soc"
    SDIO = "sdio"
    USB2 = "usb2"
    USB3 = "usb3"
    PCIE2X1 = "pcie2x1"
    PCIE3X1 = "pcie3x1"


# The kernel's words for a bus (/sys/class/net/NIC/device/subsystem), by the word of the lab file. A virtio device is
# attached to a PCI device.
KERNEL_BUSES: dict[str, tuple[str, ...]] = {
    "usb": ("usb",),
    "pci": ("pci", "virtio"),
    "sdio": ("sdio",),
    "platform": ("platform",),
}
# The word of the lab file for each bus; a NIC of the SoC may be on any, such as the NIC of a Pi 5.
BUS_WORDS: dict[Bus, str] = {Bus.SDIO: "sdio", Bus.USB2: "usb", Bus.USB3: "usb", Bus.PCIE2X1: "pci", Bus.PCIE3X1: "pci"}
# The catalogue's word for a NIC whose source does not name its driver.
UNKNOWN_DRIVER = "not stated"

BUSES = tuple(sorted(bus.value for bus in Bus))
# From Python 3.13 on, an enumeration has the signature (*values), which pydantic 2.14 refuses as a validator.
BusName = Annotated[str, *one_of("bus", BUSES), AfterValidator(lambda value: Bus(value))]

# The most that a bus carries in one direction, including the bus's own headers. USB 2: 13 bulk packets of 512 bytes in
# each of 8000 microframes a second (USB 2.0, table 5-10). USB 3: 5 GT/s with 8b/10b. PCIe 2.0 x1: 5 GT/s with 8b/10b.
# PCIe 3.0 x1: 8 GT/s with 128b/130b.
BUS_CAPACITY: dict[Bus, Bitrate | None] = {
    Bus.SOC: None,
    Bus.SDIO: None,
    Bus.USB2: Bitrate(13 * 512 * 8000 * 8),
    Bus.USB3: Bitrate(4e9),
    Bus.PCIE2X1: Bitrate(4e9),
    Bus.PCIE3X1: Bitrate(8e9 * 128 / 130),
}

# A NIC for the bus on the left also works on the buses on the right, possibly slower.
BUS_FALLBACK: dict[Bus, tuple[Bus, ...]] = {
    Bus.SOC: (),
    Bus.SDIO: (),
    Bus.USB2: (Bus.USB3,),
    Bus.USB3: (Bus.USB2,),
    Bus.PCIE2X1: (Bus.PCIE3X1,),
    Bus.PCIE3X1: (Bus.PCIE2X1,),
}


def meaning(find: Callable[[H, str], object]) -> AfterValidator:
    """Return the annotation of a name in a file, whose value is what the ``find`` of the reader's context returns."""

    def found(name: str, info: ValidationInfo[H]) -> object:
        assert info.context is not None
        return find(info.context, name)

    return AfterValidator(found)


_OwnNic = Annotated[Name, meaning(lambda known, name: known.nic(name).name)]
# Only the catalogue has NICs whose driver is not known.
_DriverOfNic = Annotated[Driver, WrapValidator(lambda value, check: value if value == UNKNOWN_DRIVER else check(value))]


@dataclass(frozen=True)
class Board:
    """A board: a new one, or changes to a board of the catalogue."""

    __pydantic_config__ = ONLY_KNOWN_KEYS

    name: Annotated[str, *SET_LATER]
    title: Annotated[str, *in_file(Text)]
    clock_mhz: Annotated[int, *in_file(Clock, "stock clock of the processor")]
    cores: Annotated[int, *in_file(Cores)]
    buses: Annotated[tuple[Bus, ...], *in_file(tuple[BusName, ...], "buses that an add-on NIC can use")]
    onboard: Annotated[str | None, *in_file(_OwnNic | None, "catalogue name of the board's own NIC", default=None)]
    sources: Annotated[tuple[str, ...], *in_file(tuple[Text, ...])] = ()
    model: Annotated[
        str | None,
        *in_file(
            Text | None,
            "name in /proc/device-tree/model, without revision; a new board without it is not checked",
        ),
    ] = None


@dataclass(frozen=True)
class Nic:
    """A NIC by its chip: a new one, or changes to a NIC of the catalogue.

    ``speeds_mbps`` are ascending. ``ids`` are the vendor and device numbers of the chip, such as ``usb:0bda:8153``;
    only the catalogue has them.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    name: Annotated[str, *SET_LATER]
    title: Annotated[str, *in_file(Text)]
    chip: Annotated[str, *in_file(Text)]
    driver: Annotated[str, *in_file(_DriverOfNic, "the kernel module")]
    bus: Annotated[Bus, *in_file(BusName)]
    speeds_mbps: Annotated[
        tuple[int, ...],
        *in_file(
            Annotated[tuple[LinkSpeed, ...], *UNIQUE, AfterValidator(lambda speeds: tuple(sorted(speeds)))],
            "link speeds that the NIC can negotiate",
        ),
    ]
    mtu_max: Annotated[int, *in_file(Mtu)] = 1500
    wireless: Annotated[bool, *in_file(Annotated[bool, Strict()], "whether it is Wi-Fi")] = False
    products: Annotated[tuple[str, ...], *in_file(tuple[Name, ...], "other names of this NIC")] = ()
    ids: Annotated[tuple[str, ...], *NO_KEY] = ()
    sources: Annotated[tuple[str, ...], *in_file(tuple[Text, ...])] = ()

    @property
    def speed_mbps(self) -> int:
        """The rated (highest) link speed in Mbit/s."""
        return self.speeds_mbps[-1]


@dataclass(frozen=True)
class Hardware:
    """The boards and NICs that a lab file can name: the catalogue, with the additions and changes of the file."""

    boards: Mapping[str, Board]
    nics: Mapping[str, Nic]

    def board(self, name: str) -> Board:
        """Return the board of this name. Raises UnknownName."""
        if name not in self.boards:
            raise UnknownName(unknown("board", name, self.boards))
        return self.boards[name]

    def nic(self, name: str) -> Nic:
        """Return the NIC of this catalogue or product name. Raises UnknownName."""
        chip = self.nic_name(name)
        if chip not in self.nics:
            raise UnknownName(unknown("NIC", name, {*self.nics, *self._products}))
        return self.nics[chip]

    def nic_name(self, name: str) -> str:
        """Return the catalogue name of a catalogue or product name; an unknown name is returned unchanged."""
        return name if name in self.nics else self._products.get(name, name)

    @cached_property
    def _products(self) -> dict[str, str]:
        return {product: nic.name for nic in self.nics.values() for product in nic.products}


@dataclass(frozen=True)
class FoundNic:
    """A network device of a node. None: the kernel does not report the value.

    ``bus`` is the kernel's word for the kind of bus (``usb``, ``pci``, ``platform``); a veth has none. ``bus_info`` is
    the NIC's place on the bus, as ``ethtool -i`` prints it. ``is_own``: it is the NIC that the board's device tree
    names ``ethernet0``. ``is_stacked``: it is a VLAN, bridge or bond above other devices, and may have their address.
    """

    device: str
    mac: str | None = None
    permanent_mac: str | None = None
    driver: str | None = None
    bus: str | None = None
    bus_info: str | None = None
    is_own: bool = False
    is_stacked: bool = False
    usb_mbps: float | None = None
    pcie_gts: float | None = None
    pcie_lanes: int | None = None

    def __str__(self) -> str:
        facts = (f"driver {self.driver}", f"bus_info {self.bus_info}", f"MAC {self.permanent_mac or self.mac}")
        return f"{self.device} ({', '.join(fact for fact in facts if not fact.endswith(' None'))})"


@dataclass(frozen=True)
class FoundBoard:
    """A board as it describes itself: the model in its device tree (None: it has none), and its NICs by device."""

    model: str | None = None
    nics: Mapping[str, FoundNic] = field(default_factory=dict)

    @property
    def identities(self) -> dict[str, tuple[str | None, ...]]:
        """What does not change while the NICs stay as they are: address, driver and place, by device."""
        return {name: (nic.permanent_mac or nic.mac, nic.driver, nic.bus_info) for name, nic in self.nics.items()}


def attached_bus(board: Board, nic: Nic) -> Bus | None:
    """Return the bus that this NIC uses in this board, or None if the board has no suitable bus."""
    if board.onboard == nic.name:
        return nic.bus
    for bus in (nic.bus, *BUS_FALLBACK[nic.bus]):
        if bus is not Bus.SOC and bus in board.buses:
            # A USB 2 device in a USB 3 port runs at USB 2 speed. A PCIe card runs at the slower speed of slot and card.
            return min((bus, nic.bus), key=lambda b: (BUS_CAPACITY[b] or Bitrate(0)).bps)
    return None
