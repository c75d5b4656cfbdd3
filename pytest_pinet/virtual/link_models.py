"""Link models: the rates of a NIC in a board, and the goodput that follows from them.

All rates here are layer 2 rates: they count the Ethernet header, but not preamble, gap and FCS, as the kernel's shapers
do. TCP passes packets of many segments to the shapers, which add the header of each segment themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from math import inf
from typing import Any

from pytest_pinet.virtual.pi_firmware import BootSettings

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


# Convert shapes to ``tc -batch`` lines.
#
# Each end of a cable has a token bucket for the traffic that it sends. A shared bus is an ``ifb`` device in the node.
# All traffic of the NIC passes it in both directions.


# Bytes. A bucket smaller than a GSO packet splits every packet in software, which costs up to 28 % (facts 5.1).
SMALLEST_BURST = 80_000
BURST_S = 0.004
# A full bucket passes its bytes in addition to the rate when traffic begins: 80 kB are 2 % of 3 s at 10 Mbit/s, and
# values were above the physical limit. Buckets that send packet by packet may be smaller than a GSO packet. With 10 ms,
# TCP still gets 99.8 % of 10 Mbit/s while four processes keep both processors busy; with 4 ms, 99.2 % (measured).
LARGEST_BURST_S = 0.01
# Bytes, for the slowest links: a packet of MTU 9000.
LEAST_BURST = 10_000
# Bytes: the kernel's largest GSO packet, and two packets of the usual MTU.
LARGEST_CHUNK, SMALLEST_CHUNK = 65_536, 4_096
# Bytes. TCP small queues keep a NIC's queue short, so it only has to hold what they allow.
SMALLEST_NODE_QUEUE = 200_000
BUS_QUEUE = 512_000
COPIES_QUEUE = 1_000_000
# Classic BPF: SKF_AD_OFF + SKF_AD_RANDOM, the address of a random number.
_RANDOM = 2**32 - 0x1000 + 56
# The least share of its rate that a lane keeps under any load of the other direction.
_LEAST = 0.01
PACKET_BY_PACKET_BPS = 200e6
# Bytes: the least size limit of a packet with all headers, and the headers added to a larger MTU.
LARGEST_PACKET = 2000
HEADERS = 32
# Bytes that one contender may send per turn. With less than a packet (plain or GSO), HTB would count packets, not
# bytes.
SMALL_TURN, LARGE_TURN = 3_000, 66_000
MOST_QUEUES = 32


def chunk(scale: float) -> int:
    """Return how many bytes TCP may pass to a NIC at once. The number is scaled like the rates of the links.

    Two chunks of 64 KB take 110 ms at 10 Mbit/s, and do not fit into the queue. Each loss then cost 0.2 s (measured).
    """
    return max(SMALLEST_CHUNK, round(LARGEST_CHUNK * scale))


def burst(rate_bps: float) -> int:
    """Return the size of a token bucket in bytes."""
    if rate_bps <= PACKET_BY_PACKET_BPS:
        return round(min(SMALLEST_BURST, max(LEAST_BURST, rate_bps / 8 * LARGEST_BURST_S)))
    return round(max(SMALLEST_BURST, rate_bps / 8 * BURST_S))


def port_queue(rate_bps: float) -> int:
    """Return a switch port's queue in bytes: 128 kB up to 200 Mbit/s (a fair incast), 512 kB to 1 Gbit/s, else 2 MB."""
    if rate_bps <= PACKET_BY_PACKET_BPS:
        return 128_000
    return 512_000 if rate_bps <= 1e9 else 2_000_000


def node_queue(rate_bps: float) -> int:
    """Return the queue of a NIC in bytes."""
    return max(SMALLEST_NODE_QUEUE, port_queue(rate_bps))


def token_bucket(device: str, rate_bps: float, limit: int, mtu: int = PLAIN_MTU) -> str:
    """Limit the rate at which a device sends. If it has a limit already, only the rate changes.

    Up to 200 Mbit/s, a device sends packet by packet, as a wire does, so that contenders get fair shares and losses are
    single packets. The bucket then splits a GSO packet into packets of this ``mtu``, and drops a larger plain packet.
    This costs little at 100 Mbit/s, and too much at 1 Gbit/s.
    """
    words = f"tbf rate {round(rate_bps)}bit burst {burst(rate_bps)} limit {limit}"
    if rate_bps <= PACKET_BY_PACKET_BPS:
        words += f" peakrate 100gbit mtu {max(LARGEST_PACKET, mtu + HEADERS)}"
    return f"qdisc replace dev {device} root handle 1: {words}"


def arbiter(device: str, rate_bps: float, contenders: Sequence[str]) -> list[str]:
    """Give each contender for a shaped device its own queue, in turns. A contender is a ``u32`` match.

    A switch does so between its input ports, and fq_codel of Raspberry Pi OS between flows. With one queue for all,
    five senders got 79 to 121 % of their share, and the five receivers of one sender 20 to 270 % (measured, TCP cubic,
    10 s).
    """
    quantum = SMALL_TURN if rate_bps <= PACKET_BY_PACKET_BPS else LARGE_TURN
    # The bucket in front is the limit. The classes must never limit.
    words = f"htb rate 100gbit ceil 100gbit quantum {quantum} burst 1m cburst 1m"
    count = min(len(contenders), MOST_QUEUES)
    lines = [f"qdisc add dev {device} parent 1:1 handle 2: htb default ff r2q 1000"]
    for minor in (*range(1, count + 1), 0xFF):
        lines.append(f"class add dev {device} parent 2: classid 2:{minor:x} {words}")
        lines.append(f"qdisc add dev {device} parent 2:{minor:x} bfifo limit {port_queue(rate_bps)}")
    for index, match in enumerate(contenders):
        minor = index % MOST_QUEUES + 1
        lines.append(f"filter add dev {device} parent 2: protocol all prio 1 u32 {match} flowid 2:{minor:x}")
    return lines


def from_port(port: str) -> str:
    """Match packets that came in by a port of the same switch."""
    return f"match u32 0 0 indev {port}"


def to_address(mac: str) -> str:
    """Match packets to a station."""
    return f"match ether dst {mac}"


def bus_bucket(bus_device: str, shape: Shape, mtu: int = PLAIN_MTU) -> list[str]:
    """Return the line for the one queue of a bus. Empty without a bus, or if each direction has a lane."""
    return [token_bucket(bus_device, shape.bus_bps, BUS_QUEUE, mtu)] if shape.bus_bps < inf else []


def bus_lines(device: str, bus_devices: tuple[str, str], shape: Shape, mac: str) -> list[str]:
    """Redirect both directions of ``device`` to the first bus device, or to one device each if both have lanes.

    ``mac`` is the node's address.
    """
    out, back = bus_devices
    clsact = f"qdisc replace dev {device} clsact"
    if shape.lanes is None:
        redirects = [_redirect(device, hook, out) for hook in ("egress", "ingress")]
        return [clsact, *redirects, *bus_bucket(out, shape)]
    tx, rx = shape.lanes
    return [
        clsact,
        *_charge(device, "ingress", out, tx.charge),
        *_charge(device, "egress", back, rx.charge),
        _redirect(device, "egress", out),
        _redirect(device, "ingress", back),
        *_lane_lines(out, tx, f"dst {mac}"),
        *_lane_lines(back, rx, f"src {mac}"),
    ]


def _redirect(device: str, hook: str, bus_device: str) -> str:
    return (
        f"filter add dev {device} {hook} protocol all prio 2 u32 match u32 0 0"
        f" action mirred egress redirect dev {bus_device}"
    )


def _charge(device: str, hook: str, bus_device: str, share: float) -> list[str]:
    """Send copies of a random share of one direction to the lane of the other, where they use up its rate.

    ``ifb`` drops a copy afterwards, since it forwards only redirected packets. The BPF program loads a random number.
    If the number is below the share, the packet is copied. In both cases the next filter follows.
    """
    if not share:
        return []
    program = f"4,32 0 0 {_RANDOM},53 1 0 {round(share * 2**32)},6 0 0 {2**32 - 1},6 0 0 0"
    return [
        f"filter add dev {device} {hook} protocol all prio 1 bpf bytecode '{program}'"
        f" action mirred egress mirror dev {bus_device} continue"
    ]


def _lane_lines(bus_device: str, lane: BusLane, copies: str) -> list[str]:
    """Return the queues of a lane. Copies of the other direction go first, and the lane's traffic gets the rest."""
    rate = round(lane.rate_bps)
    words = f"ceil {rate}bit burst {burst(rate)} cburst {burst(rate)} quantum 60000"
    return [
        f"qdisc replace dev {bus_device} root handle 1: htb default 20 r2q 1000",
        f"class add dev {bus_device} parent 1: classid 1:1 htb rate {rate}bit {words}",
        f"class add dev {bus_device} parent 1:1 classid 1:10 htb rate {rate}bit {words} prio 0",
        f"class add dev {bus_device} parent 1:1 classid 1:20 htb rate {round(_LEAST * rate)}bit {words} prio 1",
        f"qdisc add dev {bus_device} parent 1:10 handle 10: bfifo limit {COPIES_QUEUE}",
        f"qdisc add dev {bus_device} parent 1:20 handle 20: bfifo limit {lane.limit}",
        f"filter add dev {bus_device} parent 1: protocol all prio 1 u32 match ether {copies} flowid 1:10",
    ]
