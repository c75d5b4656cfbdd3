"""What the wire can carry at most: the physical limit that every figure is checked against."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.hardware import BUS_CAPACITY, Bus
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction

# 14 bytes Ethernet header, 4 frame check sequence, 8 preamble and delimiter, 12 inter-frame gap (IEEE 802.3).
FRAME_OVERHEAD = 38
IPV4_TCP_HEADERS = 40
IPV4_UDP_HEADERS = 28
TIMESTAMP_OPTION = 12
# A frame that carries nothing but an acknowledgement: 20 IP + 20 TCP (+ 12) bytes, at least 46 bytes of payload.
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


def tcp_goodput(speed_mbps: int, mtu: int, timestamps: bool, both_ways: bool = False) -> Bitrate:
    """TCP over IPv4: ``link * (MTU - 40 - 12 ts) / (MTU + 38)`` (RFC 793, RFC 7323, IEEE 802.3).

    With both directions at once the acknowledgements of the other direction share the wire: one frame for every
    SEGMENTS_PER_ACK segments.
    """
    option = TIMESTAMP_OPTION if timestamps else 0
    wire = mtu + FRAME_OVERHEAD
    if both_ways:
        wire_ack = max(MIN_PAYLOAD, IPV4_TCP_HEADERS + option) + FRAME_OVERHEAD
        return Bitrate.mbps(speed_mbps * (mtu - IPV4_TCP_HEADERS - option) / (wire + wire_ack / SEGMENTS_PER_ACK))
    return Bitrate.mbps(speed_mbps * (mtu - IPV4_TCP_HEADERS - option) / wire)


def udp_goodput(speed_mbps: int, mtu: int) -> Bitrate:
    """UDP over IPv4 in packets of MTU bytes: ``link * (MTU - 28) / (max(MTU, 46) + 38)``."""
    return Bitrate.mbps(speed_mbps * (mtu - IPV4_UDP_HEADERS) / (max(mtu, MIN_PAYLOAD) + FRAME_OVERHEAD))


def physical_limit(
    speed_mbps: int,
    mtu: int,
    timestamps: bool,
    bus: Bus,
    direction: Direction = Direction.TX,
    udp: bool = False,
    segment: int | None = None,
) -> Oracle:
    """The limit of one direction over this link: the wire, or the bus behind it when that is slower.

    ``direction`` BIDIR means one direction while the other runs too. ``segment`` (bytes: TCP's MSS, or the payload of a
    UDP datagram) makes packets smaller than the MTU allows.
    """
    if segment is not None:
        mtu = min(mtu, segment + (IPV4_UDP_HEADERS if udp else IPV4_TCP_HEADERS))
    both_ways = direction is Direction.BIDIR
    if udp:
        wire = udp_goodput(speed_mbps, mtu)
        because = f"{speed_mbps} Mbit/s link, MTU {mtu}, UDP"
    else:
        wire = tcp_goodput(speed_mbps, mtu, timestamps, both_ways)
        stamps = "TCP timestamps" if timestamps else "no TCP timestamps"
        because = f"{speed_mbps} Mbit/s link, MTU {mtu}, {stamps}" + (", both directions at once" if both_ways else "")
    capacity = BUS_CAPACITY[bus]
    if capacity is not None and capacity < wire:
        return Oracle(capacity, f"{bus} bus, {capacity} at most")
    return Oracle(wire, because)


def highest_limit(speed_mbps: int, mtu_max: int, bus: Bus) -> Oracle:
    """No setting of MTU or timestamps carries more than this; a limit above it can never be met."""
    return physical_limit(speed_mbps, mtu_max, timestamps=False, bus=bus)
