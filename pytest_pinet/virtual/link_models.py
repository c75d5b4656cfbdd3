"""Link models: the rates of a NIC in a board, and the goodput that follows from them.

All rates here are layer 2 rates: they count the Ethernet header, but not preamble, gap and FCS, as the kernel's shapers
do. TCP passes packets of many segments to the shapers, which add the header of each segment themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from math import inf
from typing import Any

from pytest_pinet.virtual.boot_settings import BootSettings

ETHERNET_HEADER = 14
ON_THE_WIRE = 38  # header 14, FCS 4, preamble 8, gap 12
TCP_IP_HEADERS = 40
TIMESTAMPS = 12
PLAIN_MTU = 1500
# Bytes for two packets of each of many streams.
SHORT_QUEUE = 131_072


def wire_rate(speed_mbps: float, mtu: int = PLAIN_MTU) -> float:
    """Return the layer 2 rate in bit/s of full frames at this wire speed."""
    return speed_mbps * 1e6 * (mtu + ETHERNET_HEADER) / (mtu + ON_THE_WIRE)


def goodput(rate_bps: float, mtu: int = PLAIN_MTU, timestamps: bool = True) -> float:
    """Return the TCP goodput in bit/s of full segments at a layer 2 rate."""
    return rate_bps * (mtu - TCP_IP_HEADERS - TIMESTAMPS * timestamps) / (mtu + ETHERNET_HEADER)


@dataclass(frozen=True)
class BusLane:
    """One direction through a processor that serves both. ``rate_bps`` is its rate while the other direction is idle.

    ``charge`` is the share of the other direction's traffic that this direction loses; ``limit`` is the queue in bytes.
    """

    rate_bps: float
    charge: float
    limit: int

    def scaled(self, scale: float) -> BusLane:
        """Return the lane at a share of its rate.

        The queue is scaled too. At a tenth of 1 Gbit/s, 1 MB would hold 80 ms. When 10 streams start and fill such a
        queue, they lose more than switch counters may differ (12 % of the sent bytes, measured).
        """
        limit = max(round(scale * self.limit), min(self.limit, SHORT_QUEUE))
        return replace(self, rate_bps=scale * self.rate_bps, limit=limit)


@dataclass(frozen=True)
class Shape:
    """The shaping of an interface: its wire in each direction, and the bus behind it, if both directions share one.

    ``wire_bps`` is the sending rate of each end of the cable. The bus is one half-duplex queue of ``bus_bps``, or has a
    lane for each direction: from the node (tx), and to it (rx).
    """

    model: str
    wire_bps: float
    bus_bps: float = inf
    lanes: tuple[BusLane, BusLane] | None = None

    @property
    def has_bus(self) -> bool:
        return self.lanes is not None or self.bus_bps < inf

    @property
    def tx_bps(self) -> float:
        """The rate from the node while the other direction is idle."""
        return min(self.wire_bps, self.bus_bps, self.lanes[0].rate_bps if self.lanes else inf)

    @property
    def rx_bps(self) -> float:
        """The rate to the node while the other direction is idle."""
        return min(self.wire_bps, self.bus_bps, self.lanes[1].rate_bps if self.lanes else inf)

    def scaled(self, scale: float) -> Shape:
        """Return the shape at a share of all rates. Queue lengths in time stay, above a minimum in bytes."""
        lanes = self.lanes and (self.lanes[0].scaled(scale), self.lanes[1].scaled(scale))
        return replace(self, wire_bps=scale * self.wire_bps, bus_bps=scale * self.bus_bps, lanes=lanes)


@dataclass(frozen=True)
class ShapeCondition:
    """The condition of a shape: the least processor clock, PCIe payload (bytes) and MTU. 0 means any value."""

    clock_mhz: int = 0
    payload: int = 0
    mtu: int = 0

    def holds(self, boot: BootSettings, mtu: int) -> bool:
        return boot.clock_mhz >= self.clock_mhz and boot.payload >= self.payload and mtu >= self.mtu

    def __str__(self) -> str:
        words = [f"{self.clock_mhz} MHz"] if self.clock_mhz else []
        words += [f"MPS {self.payload}"] if self.payload else []
        words += [f"MTU {self.mtu}"] if self.mtu else []
        return ", ".join(words)


@dataclass(frozen=True)
class LinkModel:
    """All shapes of a NIC in a board with a link of ``speed_mbps``: the usual shape, and variants with conditions.

    The last variant whose condition holds wins. Shapes of one boot differ only in ``wire_bps``, since the bus is
    created at power-on.
    """

    speed_mbps: int
    usual: Shape
    variants: tuple[tuple[ShapeCondition, Shape], ...] = ()

    def shape(self, boot: BootSettings, mtu: int = PLAIN_MTU) -> Shape:
        """Return the shape for a board's boot settings and its device's MTU."""
        held = [self.usual, *(shape for when, shape in self.variants if when.holds(boot, mtu))]
        return replace(held[-1], wire_bps=min(held[-1].wire_bps, wire_rate(self.speed_mbps, mtu)))

    def capped(self, rate_bps: float, name: str) -> LinkModel:
        """Return the model behind a component that carries at most ``rate_bps``."""

        def cap(shape: Shape) -> Shape:
            return replace(shape, model=f"{shape.model} at {name}", wire_bps=min(shape.wire_bps, rate_bps))

        return replace(self, usual=cap(self.usual), variants=tuple((when, cap(shape)) for when, shape in self.variants))


# A link without shaping. It is faster than this machine can send.
UNSHAPED = LinkModel(100_000, Shape("unshaped", inf))


def model_of(board: str, nic: str, speed_mbps: int, switch: str = "") -> LinkModel:
    """Return the model of a NIC in a board. The link speed and the rate of the switch's ports cap every shape."""
    model = _model_of_nic(board, nic, speed_mbps)
    for entry in _data()["switches"]:
        if _matches(switch, entry["switches"]):
            return model.capped(entry["rate"] * 1e6, entry["name"])
    return model


def _model_of_nic(board: str, nic: str, speed_mbps: int) -> LinkModel:
    for entry in _data()["models"]:
        if _matches(board, entry["boards"]) and _matches(nic, entry["nics"]):
            usual = _shape(entry["name"], entry)
            variants = []
            for own in entry.get("variants", ()):
                when = ShapeCondition(**own["when"])
                if when.mtu and entry["kind"] != "wire":
                    raise ValueError(f"link model {entry['name']}: a variant by MTU needs kind wire")
                variants.append((when, _shape(f"{entry['name']} ({when})", {**entry, **own})))
            return LinkModel(speed_mbps, usual, tuple(variants))
    return LinkModel(speed_mbps, Shape(f"wire-{speed_mbps}", inf))


def _shape(name: str, entry: Mapping[str, Any]) -> Shape:
    """Return the shape of a model's entry. The wire is unlimited unless the model limits it."""
    match entry["kind"]:
        case "wire":
            return Shape(name, entry["rate"] * 1e6)
        case "fifo_bus":
            return Shape(name, inf, entry["rate"] * 1e6)
        case "two_way":
            return Shape(name, inf, lanes=(_lane(entry["tx"]), _lane(entry["rx"])))
    raise ValueError(f"link model {name}: unknown kind {entry['kind']!r}")


def _matches(name: str, globs: list[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _lane(entry: Mapping[str, Any]) -> BusLane:
    return BusLane(entry["rate"] * 1e6, entry["charge"], entry["limit"])


@cache
def _data() -> dict[str, list[dict[str, Any]]]:
    # Only the process that starts a lab reads the models. The daemon gets finished shapes and does not import yaml.
    import yaml

    text = resources.files("pytest_pinet.catalogue").joinpath("link_models.yaml").read_text(encoding="utf-8")
    found: dict[str, list[dict[str, Any]]] = yaml.safe_load(text)
    return found
