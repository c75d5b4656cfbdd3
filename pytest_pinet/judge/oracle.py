"""What the wire can carry at most: the physical limit that every figure is checked against."""

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
# A frame has at least 46 bytes between its header and its check sequence; a VLAN tag counts among them.
MIN_PAYLOAD = 46
# With GRO a receiver acknowledges about every 16th segment (measured on Pis: 938 of 941 Mbit/s both ways at once).
SEGMENTS_PER_ACK = 16
# Figures above the limit by more than this are errors of the measurement (facts: sender-side counting, wrong clock).
TOLERANCE = 0.005


@dataclass(frozen=True)
class Oracle:
    """A physical limit and what sets it (``1000 Mbit/s link, MTU 1500, TCP timestamps``)."""

    goodput: Bitrate
    because: str


def _wire(packet: int, vlan: bool) -> int:
    """Bytes that an IP packet takes on the wire, the gap to the next one included."""
    return max(packet + (VLAN_TAG if vlan else 0), MIN_PAYLOAD) + FRAME_OVERHEAD


def tcp_goodput(
    speed_mbps: int, mtu: int, timestamps: bool, both_ways: bool = False, ipv6: bool = False, vlan: bool = False
) -> Bitrate:
    """TCP: ``link * (MTU - 40 - 12 ts) / (MTU + 38)``, IPv6 20 bytes less of payload, a VLAN tag 4 bytes more of wire.

    Sources: RFC 9293, RFC 7323, RFC 8200, IEEE 802.3 and 802.1Q. With both directions at once the acknowledgements of
    the other direction share the wire: one frame for every SEGMENTS_PER_ACK segments.
    """
    headers = (IPV6_HEADER if ipv6 else IPV4_HEADER) + TCP_HEADER + (TIMESTAMP_OPTION if timestamps else 0)
    acknowledgement = _wire(headers, vlan) / SEGMENTS_PER_ACK if both_ways else 0
    return Bitrate.mbps(speed_mbps * max(mtu - headers, 0) / (_wire(mtu, vlan) + acknowledgement))


def udp_goodput(speed_mbps: int, mtu: int, ipv6: bool = False, vlan: bool = False) -> Bitrate:
    """UDP in packets of MTU bytes: ``link * (MTU - 28) / (max(MTU, 46) + 38)`` (RFC 768); IPv6 and VLAN as for TCP."""
    headers = (IPV6_HEADER if ipv6 else IPV4_HEADER) + UDP_HEADER
    return Bitrate.mbps(speed_mbps * max(mtu - headers, 0) / _wire(mtu, vlan))


def window_bound(window_bytes: int, rtt_s: float) -> Oracle:
    """TCP has at most one window on its way in each round trip: ``8 W / RTT`` (RFC 6349).

    ``window_bytes`` is the effective window, ``rtt_s`` (more than 0) the least round-trip time in seconds.
    """
    rate = Bitrate(window_bytes * 8 / rtt_s)
    window = f"{window_bytes / 1024:.4g} KiB" if window_bytes >= 1024 else f"{window_bytes} bytes"
    return Oracle(rate, f"window {window} over {rtt_s * 1000:.3g} ms allows {rate}")


def pcie_context(
    limit: Bitrate, link: PcieLink, mtu: int, timestamps: bool, udp: bool = False, segment: int | None = None
) -> str | None:
    """What the packets of a PCIe link leave of this limit, in words; None when that is all of it, or is not known.

    Told beside a limit and never one itself, since it is a model. ``segment`` as in ``physical_limit``; IPv4.
    """
    found = pcie_leaves(link, mtu, timestamps, udp, segment)
    if found is None or found[0] >= limit:
        return None
    payload = "" if link.payload is None else f" with payloads of {link.payload} bytes"
    return f"PCIe {link}{payload} leaves {found[0]} to {found[1]}"


def pcie_leaves(
    link: PcieLink, mtu: int, timestamps: bool, udp: bool = False, segment: int | None = None
) -> tuple[Bitrate, Bitrate] | None:
    """Least and most goodput that the packets of a PCIe link leave; None where its line code is not known."""
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
    """The limit of one direction over this link: the wire, or the bus behind it when that is slower.

    ``direction`` BIDIR means one direction while the other runs too. ``segment`` (bytes: TCP's MSS, or the payload of a
    UDP datagram) makes packets smaller than the MTU allows.
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
    """Bytes of an IP packet that carries a full segment."""
    if segment is None:
        return mtu
    return min(mtu, segment + (IPV6_HEADER if ipv6 else IPV4_HEADER) + (UDP_HEADER if udp else TCP_HEADER))


def _user_bytes(packet: int, timestamps: bool, udp: bool) -> int:
    """Bytes of an IPv4 packet that are the user's."""
    return packet - IPV4_HEADER - (UDP_HEADER if udp else TCP_HEADER + (TIMESTAMP_OPTION if timestamps else 0))


def highest_limit(speed_mbps: int, mtu_max: int, bus: Bus, both_ways: bool = False) -> Oracle:
    """What a limit of TCP goodput may ask for at most; one above it can never be met.

    One way no setting of MTU or timestamps carries more. Both ways at once, TCP timestamps are taken as on, as every
    Linux has them: a gate that asks for the one-way figure in both directions is the mistake that this must find.
    """
    direction = Direction.BIDIR if both_ways else Direction.TX
    return physical_limit(speed_mbps, mtu_max, timestamps=both_ways, bus=bus, direction=direction)
