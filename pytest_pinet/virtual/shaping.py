"""Turns shapes into ``tc -batch`` lines.

Each end of a cable gets a token bucket on what it sends. A shared bus is an ``ifb`` device in the node through which
all traffic of the NIC passes, both ways (facts/switches-and-links.md 5.3).
"""

from __future__ import annotations

from pytest_pinet.virtual.link_models import Bus, Lane

# Below the size of a GSO packet the bucket splits every packet in software, which costs up to 28 % (facts 5.1).
SMALLEST_BURST = 80_000
BURST_S = 0.004
# A NIC's own queue: TCP's small queues keep it short, so it only has to take what they allow.
SMALLEST_NODE_QUEUE = 200_000
BUS_QUEUE = 512_000


def burst(rate_bps: float) -> int:
    """Bucket size in bytes."""
    return round(max(SMALLEST_BURST, rate_bps / 8 * BURST_S))


def port_queue(rate_bps: float) -> int:
    """Queue of a switch port in bytes: 128 kB at 100 Mbit/s (a fair incast), 512 kB at 1 Gbit/s, 2 MB above."""
    if rate_bps <= 200e6:
        return 128_000
    return 512_000 if rate_bps <= 1e9 else 2_000_000


def node_queue(rate_bps: float) -> int:
    """Queue of a NIC in bytes."""
    return max(SMALLEST_NODE_QUEUE, port_queue(rate_bps))


def token_bucket(device: str, rate_bps: float, limit: int) -> str:
    """Limit what a device sends."""
    return f"qdisc replace dev {device} root tbf rate {round(rate_bps)}bit burst {burst(rate_bps)} limit {limit}"


def bus_lines(device: str, bus_device: str, bus: Bus, mac: str) -> list[str]:
    """Lead both directions of ``device`` through ``bus_device``; ``mac`` is the node's and tells rx from tx."""
    lines = [f"qdisc replace dev {device} clsact"]
    for hook in ("ingress", "egress"):
        lines.append(
            f"filter add dev {device} {hook} protocol all prio 1 u32 match u32 0 0"
            f" action mirred egress redirect dev {bus_device}"
        )
    if bus.tx is None or bus.rx is None:
        return [*lines, token_bucket(bus_device, bus.rate_bps, BUS_QUEUE)]
    rate = round(bus.rate_bps)
    return [
        *lines,
        f"qdisc replace dev {bus_device} root handle 1: htb default 20 r2q 1000",
        f"class add dev {bus_device} parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit"
        f" burst {burst(rate)} cburst {burst(rate)}",
        *_lane_lines(bus_device, 10, bus.rx),
        *_lane_lines(bus_device, 20, bus.tx),
        f"filter add dev {bus_device} parent 1: protocol all prio 1 u32 match ether dst {mac} flowid 1:10",
    ]


def _lane_lines(bus_device: str, minor: int, lane: Lane) -> list[str]:
    rate, ceil = round(lane.rate_bps), round(lane.ceil_bps)
    return [
        f"class add dev {bus_device} parent 1:1 classid 1:{minor} htb rate {rate}bit ceil {ceil}bit prio {lane.prio}"
        f" burst {burst(rate)} cburst {burst(ceil)} quantum 60000",
        f"qdisc add dev {bus_device} parent 1:{minor} handle {minor}: bfifo limit {lane.limit}",
    ]
