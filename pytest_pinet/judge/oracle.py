"""The physical limit: the most goodput that the wire can carry. Every measured value is checked against it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.judge import pcie
from pytest_pinet.model.conditions import PcieLink
from pytest_pinet.model.hardware import BUS_CAPACITY, Bus
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction

# 14 bytes Ethernet header, 4 frame check sequence, 8 preamble and delimiter, 12 inter-frame gap (IEEE 802.3).
FRAME_OVERHEAD = 38
VLAN_TAG = 4
IPV4_HEADER = 20
IPV6_HEADER = 40
TCP_HEADER = 20
UDP_HEADER = 8
IPV4_TCP_HEADERS = IPV4_HEADER + TCP_HEADER
IPV4_UDP_HEADERS = IPV4_HEADER + UDP_HEADER
TIMESTAMP_OPTION = 12
# A frame has at least 46 bytes between its header and its check sequence, including a VLAN tag.
MIN_PAYLOAD = 46
# With GRO a receiver acknowledges about every 16th segment (measured on Pis: 938 of 941 Mbit/s both ways at once).
SEGMENTS_PER_ACK = 16
# Values above the limit by more than this are measurement errors (facts: sender-side counting, wrong clock).
TOLERANCE = 0.005


@dataclass(frozen=True)
class Oracle:
    """A physical limit and its cause (``1000 Mbit/s link, MTU 1500, TCP timestamps``)."""

    goodput: Bitrate
    because: str


def _wire(packet: int, vlan: bool) -> int:
    """Return the bytes that an IP packet takes on the wire, including the gap to the next packet."""
    return max(packet + (VLAN_TAG if vlan else 0), MIN_PAYLOAD) + FRAME_OVERHEAD


def tcp_goodput(
    speed_mbps: int, mtu: int, timestamps: bool, both_ways: bool = False, ipv6: bool = False, vlan: bool = False
) -> Bitrate:
    """Return the limit of TCP: ``link * (MTU - 40 - 12 ts) / (MTU + 38)``.

    IPv6 has 20 bytes less payload, a VLAN tag takes 4 bytes more on the wire. Sources: RFC 9293, RFC 7323, RFC 8200,
    IEEE 802.3 and 802.1Q. With both directions at once, the acknowledgements of the other direction share the wire: one
    frame for every SEGMENTS_PER_ACK segments.
    """
    headers = (IPV6_HEADER if ipv6 else IPV4_HEADER) + TCP_HEADER + (TIMESTAMP_OPTION if timestamps else 0)
    acknowledgement = _wire(headers, vlan) / SEGMENTS_PER_ACK if both_ways else 0
    return Bitrate.mbps(speed_mbps * max(mtu - headers, 0) / (_wire(mtu, vlan) + acknowledgement))


def udp_goodput(speed_mbps: int, mtu: int, ipv6: bool = False, vlan: bool = False) -> Bitrate:
    """Return the limit of UDP in packets of MTU bytes: ``link * (MTU - 28) / (max(MTU, 46) + 38)`` (RFC 768).

    IPv6 and VLAN count as for TCP.
    """
    headers = (IPV6_HEADER if ipv6 else IPV4_HEADER) + UDP_HEADER
    return Bitrate.mbps(speed_mbps * max(mtu - headers, 0) / _wire(mtu, vlan))


def window_bound(window_bytes: int, rtt_s: float) -> Oracle:
    """Return the limit of a TCP window: at most one window per round trip, ``8 W / RTT`` (RFC 6349).

    ``window_bytes`` is the effective window, ``rtt_s`` (above 0) the least round-trip time in seconds.
    """
    rate = Bitrate(window_bytes * 8 / rtt_s)
    window = f"{window_bytes / 1024:.4g} KiB" if window_bytes >= 1024 else f"{window_bytes} bytes"
    return Oracle(rate, f"window {window} over {rtt_s * 1000:.3g} ms allows {rate}")


def pcie_context(
    limit: Bitrate, link: PcieLink, mtu: int, timestamps: bool, udp: bool = False, segment: int | None = None
) -> str | None:
    """Return a sentence about a PCIe link whose packets allow less than this limit; else, or if not known, None.

    The sentence is only shown with a limit: it comes from a model. ``segment`` is as in ``physical_limit``; IPv4.
    """
    found = pcie_leaves(link, mtu, timestamps, udp, segment)
    if found is None or found[0] >= limit:
        return None
    payload = "" if link.payload is None else f" with payloads of {link.payload} bytes"
    return f"PCIe {link}{payload} leaves {found[0]} to {found[1]}"


def pcie_leaves(
    link: PcieLink, mtu: int, timestamps: bool, udp: bool = False, segment: int | None = None
) -> tuple[Bitrate, Bitrate] | None:
    """Return the least and most goodput that the packets of a PCIe link allow; None if its line code is not known."""
    mtu = _cut(mtu, segment, udp, ipv6=False)
    return pcie.goodput(link, mtu, _user_bytes(mtu, timestamps, udp))


def physical_limit(
    speed_mbps: int,
    mtu: int,
    timestamps: bool,
    bus: Bus,
    direction: Direction = Direction.TX,
    udp: bool = False,
    segment: int | None = None,
    ipv6: bool = False,
    vlan: bool = False,
) -> Oracle:
    """Return the limit of one direction over this link: that of the wire, or of the bus behind it if the bus is slower.

    ``direction`` BIDIR means one direction while the other runs, too. ``segment`` (bytes: TCP's MSS, or the payload of
    a UDP datagram) makes packets smaller than the MTU allows.
    """
    mtu = _cut(mtu, segment, udp, ipv6)
    both_ways = direction is Direction.BIDIR
    because = f"{speed_mbps} Mbit/s link, MTU {mtu}"
    if udp:
        wire = udp_goodput(speed_mbps, mtu, ipv6, vlan)
        because += ", UDP"
    else:
        wire = tcp_goodput(speed_mbps, mtu, timestamps, both_ways, ipv6, vlan)
        because += ", TCP timestamps" if timestamps else ", no TCP timestamps"
    because += (", IPv6" if ipv6 else "") + (", VLAN tag" if vlan else "")
    if both_ways and not udp:
        because += ", both directions at once"
    oracle = Oracle(wire, because)
    capacity = BUS_CAPACITY[bus]
    if capacity is not None and capacity < wire:
        oracle = Oracle(capacity, f"{bus} bus, {capacity} at most")
    return oracle


def _cut(mtu: int, segment: int | None, udp: bool, ipv6: bool) -> int:
    """Return the bytes of an IP packet with a full segment."""
    if segment is None:
        return mtu
    return min(mtu, segment + (IPV6_HEADER if ipv6 else IPV4_HEADER) + (UDP_HEADER if udp else TCP_HEADER))


def _user_bytes(packet: int, timestamps: bool, udp: bool) -> int:
    """Return the payload bytes of an IPv4 packet."""
    return packet - IPV4_HEADER - (UDP_HEADER if udp else TCP_HEADER + (TIMESTAMP_OPTION if timestamps else 0))


def highest_limit(speed_mbps: int, mtu_max: int, bus: Bus, both_ways: bool = False) -> Oracle:
    """Return the highest possible limit of TCP goodput; a limit above it can never be met.

    For one direction, no setting of MTU or timestamps carries more. For both directions at once, TCP timestamps are
    assumed to be on, the Linux default: this must detect gates that require the one-way value in both directions.
    """
    direction = Direction.BIDIR if both_ways else Direction.TX
    return physical_limit(speed_mbps, mtu_max, timestamps=both_ways, bus=bus, direction=direction)
