"""Turns shapes into ``tc -batch`` lines.

Each end of a cable gets a token bucket on what it sends. A shared bus is an ``ifb`` device in the node through which
all traffic of the NIC passes, both ways (facts/switches-and-links.md 5.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.virtual.link_models import PLAIN_MTU, Bus, Lane

# Below the size of a GSO packet the bucket splits every packet in software, which costs up to 28 % (facts 5.1).
# At 10 Mbit/s these are 65 ms, for which a slow machine may do something else: links run at a tenth on such.
SMALLEST_BURST = 80_000
BURST_S = 0.004
# Of the kernel, and what two plain packets need.
LARGEST_CHUNK, SMALLEST_CHUNK = 65_536, 4_096
# A NIC's own queue: TCP's small queues keep it short, so it only has to take what they allow.
SMALLEST_NODE_QUEUE = 200_000
BUS_QUEUE = 512_000
COPIES_QUEUE = 1_000_000
# Of classic BPF: SKF_AD_OFF + SKF_AD_RANDOM, a word that is a random number.
_RANDOM = 2**32 - 0x1000 + 56
# What a lane keeps of its rate whatever the other direction does.
_LEAST = 0.01
PACKET_BY_PACKET_BPS = 200e6
# With all headers, whatever the MTU; and what they are beside it.
LARGEST_PACKET = 2000
HEADERS = 32
# What one contender may send before the next. Not less than a packet, GSO or not, or HTB counts packets, not bytes.
SMALL_TURN, LARGE_TURN = 3_000, 66_000
MOST_QUEUES = 32


def chunk(scale: float) -> int:
    """What TCP may hand a NIC at once, in bytes: on links that run at a share of their rate as much less.

    Two chunks of 64 KB are 110 ms of 10 Mbit/s, and more than the queue holds: each loss then cost 0.2 s (measured).
    """
    return max(SMALLEST_CHUNK, round(LARGEST_CHUNK * scale))


def burst(rate_bps: float) -> int:
    """Bucket size in bytes."""
    return round(max(SMALLEST_BURST, rate_bps / 8 * BURST_S))


def port_queue(rate_bps: float) -> int:
    """Queue of a switch port in bytes: 128 kB at 100 Mbit/s (a fair incast), 512 kB at 1 Gbit/s, 2 MB above."""
    if rate_bps <= PACKET_BY_PACKET_BPS:
        return 128_000
    return 512_000 if rate_bps <= 1e9 else 2_000_000


def node_queue(rate_bps: float) -> int:
    """Queue of a NIC in bytes."""
    return max(SMALLEST_NODE_QUEUE, port_queue(rate_bps))


def token_bucket(device: str, rate_bps: float, limit: int, mtu: int = PLAIN_MTU) -> str:
    """Limit what a device sends; on a device that is shaped already, only the rate changes.

    Slow ones send packet by packet, as a wire does, so that contenders are served fairly and losses are single packets:
    the bucket splits what is larger than a packet of this ``mtu``, or drops it where it is one. That costs little at
    100 Mbit/s, and too much at 1 Gbit/s.
    """
    words = f"tbf rate {round(rate_bps)}bit burst {burst(rate_bps)} limit {limit}"
    if rate_bps <= PACKET_BY_PACKET_BPS:
        words += f" peakrate 100gbit mtu {max(LARGEST_PACKET, mtu + HEADERS)}"
    return f"qdisc replace dev {device} root handle 1: {words}"


def arbiter(device: str, rate_bps: float, contenders: Sequence[str]) -> list[str]:
    """Let contenders for a shaped device take turns behind its bucket; each is a ``u32`` match and has its own queue.

    As a switch does it between its input ports, and fq_codel of Raspberry Pi OS between flows: one queue for all gave
    five senders 79 to 121 % of their share, and one sender's five receivers 20 to 270 % (measured, TCP cubic, 10 s).
    """
    quantum = SMALL_TURN if rate_bps <= PACKET_BY_PACKET_BPS else LARGE_TURN
    # The bucket in front is what limits; the classes must never.
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
    """Matches what came in by a port of the same switch."""
    return f"match u32 0 0 indev {port}"


def to_address(mac: str) -> str:
    """Matches what goes to a station."""
    return f"match ether dst {mac}"


def count_arrivals(device: str) -> list[str]:
    """Let the ingress hook count segments: a device counts TCP's packets of many segments as one."""
    return [
        f"qdisc add dev {device} clsact",
        f"filter add dev {device} ingress protocol all prio 1 u32 match u32 0 0 flowid 1:1",
    ]


def bus_bucket(bus_device: str, bus: Bus, mtu: int = PLAIN_MTU) -> list[str]:
    """The one queue of a bus; none where each direction has a lane."""
    if bus.rate_bps is None:
        return []
    return [token_bucket(bus_device, bus.rate_bps, BUS_QUEUE, mtu)]


def bus_lines(device: str, bus_devices: tuple[str, str], bus: Bus, mac: str) -> list[str]:
    """Lead both directions of ``device`` through the first bus device, or through one each where each has a lane.

    ``mac`` is the node's.
    """
    lines = [f"qdisc replace dev {device} clsact"]
    if bus.tx is None or bus.rx is None:
        assert bus.rate_bps is not None
        redirects = [_redirect(device, hook, bus_devices[0]) for hook in ("egress", "ingress")]
        return [*lines, *redirects, *bus_bucket(bus_devices[0], bus)]
    out, back = bus_devices
    return [
        *lines,
        *_charge(device, "ingress", out, bus.tx.charge),
        *_charge(device, "egress", back, bus.rx.charge),
        _redirect(device, "egress", out),
        _redirect(device, "ingress", back),
        *_lane_lines(out, bus.tx, f"dst {mac}"),
        *_lane_lines(back, bus.rx, f"src {mac}"),
    ]


def _redirect(device: str, hook: str, bus_device: str) -> str:
    return (
        f"filter add dev {device} {hook} protocol all prio 2 u32 match u32 0 0"
        f" action mirred egress redirect dev {bus_device}"
    )


def _charge(device: str, hook: str, bus_device: str, share: float) -> list[str]:
    """Let copies of a share of one direction, chosen by chance, take their time in the lane of the other.

    A copy ends there: ``ifb`` sends on only what was redirected to it. The filter's program is: load a random number;
    if it is not below the share go on with the next filter, else copy.
    """
    if not share:
        return []
    program = f"4,32 0 0 {_RANDOM},53 1 0 {round(share * 2**32)},6 0 0 {2**32 - 1},6 0 0 0"
    return [
        f"filter add dev {device} {hook} protocol all prio 1 bpf bytecode '{program}'"
        f" action mirred egress mirror dev {bus_device} continue"
    ]


def _lane_lines(bus_device: str, lane: Lane, copies: str) -> list[str]:
    """Copies of the other direction go first; what they leave of the rate is the lane's own."""
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
