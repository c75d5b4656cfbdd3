"""Link models: which rates a NIC in a board has, and what they mean as goodput.

All rates here count layer 2 (the Ethernet header, not preamble, gap and FCS), because that is what the kernel's shapers
count: TCP hands them packets of many segments, and they add the header of each segment themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any

ETHERNET_HEADER = 14
ON_THE_WIRE = 38  # header 14, FCS 4, preamble 8, gap 12
TCP_IP_HEADERS = 40
TIMESTAMPS = 12


def wire_rate(speed_mbps: float, mtu: int = 1500) -> float:
    """Layer 2 rate in bit/s of full frames on a wire of this speed (facts/switches-and-links.md 5.1)."""
    return speed_mbps * 1e6 * (mtu + ETHERNET_HEADER) / (mtu + ON_THE_WIRE)


def goodput(rate_bps: float, mtu: int = 1500, timestamps: bool = True) -> float:
    """TCP goodput in bit/s of full segments at a layer 2 rate."""
    return rate_bps * (mtu - TCP_IP_HEADERS - TIMESTAMPS * timestamps) / (mtu + ETHERNET_HEADER)


@dataclass(frozen=True)
class Lane:
    """One direction on a shared bus: guaranteed and highest rate (bit/s), priority (0 first), queue (bytes)."""

    rate_bps: float
    ceil_bps: float
    prio: int
    limit: int


@dataclass(frozen=True)
class Bus:
    """A bus that both directions share at ``rate_bps``; without lanes it is one half-duplex queue."""

    rate_bps: float
    tx: Lane | None = None
    rx: Lane | None = None


@dataclass(frozen=True)
class Shape:
    """How one interface is shaped: its wire each way, and the bus behind it when both ways share one.

    ``wire_bps`` is what each end of the cable sends at; ``tx_bps`` (what the node sends) and ``rx_bps`` are what each
    way gets while the other is idle.
    """

    model: str
    wire_bps: float
    bus: Bus | None = None

    @property
    def tx_bps(self) -> float:
        return self._alone(self.bus.tx if self.bus else None)

    @property
    def rx_bps(self) -> float:
        return self._alone(self.bus.rx if self.bus else None)

    def _alone(self, lane: Lane | None) -> float:
        bounds = [self.wire_bps]
        if self.bus is not None:
            bounds.append(self.bus.rate_bps)
        if lane is not None:
            bounds.append(lane.ceil_bps)
        return min(bounds)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Shape:
        """The reverse of ``dataclasses.asdict``."""
        bus = data["bus"]
        if bus is not None:
            lanes = {way: Lane(**bus[way]) if bus[way] else None for way in ("tx", "rx")}
            bus = Bus(bus["rate_bps"], **lanes)
        return cls(data["model"], data["wire_bps"], bus)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def shape_of(board: str, nic: str, speed_mbps: int) -> Shape:
    """The shape of a NIC in a board that negotiated ``speed_mbps``; the link's own speed caps every model."""
    wire = wire_rate(speed_mbps)
    for entry in _models():
        if not (_matches(board, entry["boards"]) and _matches(nic, entry["nics"])):
            continue
        rate = entry["rate"] * 1e6
        match entry["kind"]:
            case "wire":
                return Shape(entry["name"], min(wire, rate))
            case "fifo_bus":
                return Shape(entry["name"], wire, Bus(rate))
            case "tree_bus":
                return Shape(entry["name"], wire, Bus(rate, _lane(entry["tx"]), _lane(entry["rx"])))
            case kind:
                raise ValueError(f"link model {entry['name']}: unknown kind {kind!r}")
    return Shape(f"wire-{speed_mbps}", wire)


def _matches(name: str, globs: list[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _lane(entry: Mapping[str, Any]) -> Lane:
    return Lane(entry["rate"] * 1e6, entry["ceil"] * 1e6, entry["prio"], entry["limit"])


@cache
def _models() -> tuple[dict[str, Any], ...]:
    # Only who starts a lab reads the models; the daemon gets finished shapes and does not import yaml.
    import yaml

    text = resources.files("pytest_pinet.catalogue").joinpath("link_models.yaml").read_text(encoding="utf-8")
    return tuple(yaml.safe_load(text)["models"])
