"""The physical limit: the most goodput that the wire can carry. Every measured value is checked against it.

All limits are without a VLAN tag: the switch ports of nodes are access ports. ``family`` is that of IP, 4 or 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_pinet.model.evidence import PcieLink
from pytest_pinet.model.hardware import BUS_CAPACITY, Bus
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic

# 14 bytes Ethernet header, 4 frame check sequence, 8 preamble and delimiter, 12 inter-frame gap (IEEE 802.3).
FRAME_OVERHEAD = 38
TIMESTAMP_OPTION = 12
# A frame has at least 46 bytes between its header and its check sequence.
MIN_PAYLOAD = 46
# With GRO a receiver acknowledges about every 16th segment (measured on Pis: 938 of 941 Mbit/s both ways at once).
SEGMENTS_PER_ACK = 16
# Values above the limit by more than this are measurement errors (facts: sender-side counting, wrong clock).
TOLERANCE = 0.005

# Line codes: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s (PCI Express Base 5.0, 4.2). 64 GT/s uses neither.
_CODE_8B10B_GTPS = 5.0
_CODE_128B130B_GTPS = 32.0
# Only the Ethernet header crosses the bus: the check sequence stays in the NIC.
_ETHERNET_HEADER = 14
# Overhead of each packet of the bus: 2 framing, 2 sequence, 16 header (64-bit address), 4 link check.
_PACKET_BYTES = 24
# For each frame, a descriptor is read and written back.
_DESCRIPTOR_BYTES = 40
# Acknowledgements and flow control of the link layer take up to 5 %.
_LEAST_EFFICIENCY = 0.95
# The largest payload of a packet (MPS) if it is not known: the least that every device supports, and the most that
# devices for these boards support.
_PAYLOADS = (128, 512)


def tcp_headers(family: int = 4) -> int:
    """Return the bytes of the IP and TCP headers without options (RFC 791, RFC 8200, RFC 9293)."""
    return (40 if family == 6 else 20) + 20


def udp_headers(family: int = 4) -> int:
    """Return the bytes of the IP and UDP headers (RFC 768)."""
    return (40 if family == 6 else 20) + 8


@dataclass(frozen=True)
class PacketSizes:
    """IP packets with full segments on a path of this MTU (bytes). ``timestamps``: TCP has this option.

    ``segment`` (bytes: TCP's MSS, or the payload of a UDP datagram) makes packets smaller than the MTU allows.
    """

    mtu: int
    timestamps: bool
    udp: bool = False
    segment: int | None = None
    family: int = 4

    @classmethod
    def of(cls, path: Path, traffic: Traffic) -> PacketSizes:
        return cls(path.mtu, path.timestamps, traffic.udp, traffic.segment, traffic.setup.family)

    @property
    def headers(self) -> int:
        """The bytes of all headers, with TCP's timestamps (RFC 7323)."""
        if self.udp:
            return udp_headers(self.family)
        return tcp_headers(self.family) + (TIMESTAMP_OPTION if self.timestamps else 0)

    @property
    def size(self) -> int:
        """The bytes of a packet."""
        plain = udp_headers(self.family) if self.udp else tcp_headers(self.family)
        return self.mtu if self.segment is None else min(self.mtu, self.segment + plain)

    @property
    def payload(self) -> int:
        """The bytes of user data in a packet."""
        return max(self.size - self.headers, 0)

    @property
    def counted_share(self) -> float:
        """The share of the payload in the octets that a NIC counts: frames without check sequence and gap."""
        return self.payload / (self.size + _ETHERNET_HEADER)

    def goodput(self, speed_mbps: int, both_ways: bool = False) -> Bitrate:
        """Return what the wire carries: for TCP in IPv4, ``link * (MTU - 40 - 12 ts) / (MTU + 38)``.

        With both directions at once, the acknowledgements of TCP in the other direction share the wire: one frame for
        every SEGMENTS_PER_ACK segments.
        """
        acknowledgement = _wire(self.headers) / SEGMENTS_PER_ACK if both_ways and not self.udp else 0
        return Bitrate.mbps(speed_mbps * self.payload / (_wire(self.size) + acknowledgement))


def _wire(packet: int) -> int:
    """Return the bytes that an IP packet takes on the wire, including the gap to the next packet (IEEE 802.3)."""
    return max(packet, MIN_PAYLOAD) + FRAME_OVERHEAD


@dataclass(frozen=True)
class Oracle:
    """A physical limit and its cause (``1000 Mbit/s link, MTU 1500, TCP timestamps``)."""

    goodput: Bitrate
    because: str


def window_bound(window_bytes: int, rtt_s: float) -> Oracle:
    """Return the limit of a TCP window: at most one window per round trip, ``8 W / RTT`` (RFC 6349).

    ``window_bytes`` is the effective window, ``rtt_s`` (above 0) the least round-trip time in seconds.
    """
    rate = Bitrate(window_bytes * 8 / rtt_s)
    window = f"{window_bytes / 1024:.4g} KiB" if window_bytes >= 1024 else f"{window_bytes} bytes"
    return Oracle(rate, f"window {window} over {rtt_s * 1000:.3g} ms allows {rate}")


def pcie_context(limit: Bitrate, link: PcieLink, packets: PacketSizes) -> str | None:
    """Return a sentence about a PCIe link whose packets allow less than this limit; else, or if not known, None.

    The sentence is only shown with a limit: it comes from a model.
    """
    found = pcie_leaves(link, packets)
    if found is None or found[0] >= limit:
        return None
    payload = "" if link.payload is None else f" with payloads of {link.payload} bytes"
    return f"PCIe {link}{payload} allows {found[0]} to {found[1]}"


def pcie_leaves(link: PcieLink, packets: PacketSizes) -> tuple[Bitrate, Bitrate] | None:
    """Return the least and most goodput that the packets of a PCIe link allow; None if its line code is not known.

    Each frame takes ``frame + ceil(frame / MPS) * 24 + 40`` bytes on the bus: with headers of packets, and
    descriptors. A CM4 with an I340 measures 3.06 Gbit/s; for an MPS of 128 bytes the model gives 2.99 to 3.14.
    """
    carried = pcie_rate(link)
    if carried is None:
        return None
    frame = packets.size + _ETHERNET_HEADER
    payloads = _PAYLOADS if link.payload is None else (link.payload,)
    on_bus = [frame + math.ceil(frame / payload) * _PACKET_BYTES + _DESCRIPTOR_BYTES for payload in payloads]
    each = [carried.bps * packets.payload / one for one in on_bus]
    return Bitrate(min(each) * _LEAST_EFFICIENCY), Bitrate(max(each))


def pcie_rate(link: PcieLink) -> Bitrate | None:
    """Return what the lanes carry in one direction, including bus headers; None for an unknown line code."""
    if link.gtps > _CODE_128B130B_GTPS:
        return None
    code = 8 / 10 if link.gtps <= _CODE_8B10B_GTPS else 128 / 130
    return Bitrate(link.gtps * 1e9 * code * link.lanes)


def physical_limit(speed_mbps: int, packets: PacketSizes, bus: Bus, direction: Direction = Direction.TX) -> Oracle:
    """Return the limit of one direction over this link: that of the wire, or of the bus behind it if the bus is slower.

    ``direction`` BIDIR means one direction while the other runs, too.
    """
    both_ways = direction is Direction.BIDIR
    wire = packets.goodput(speed_mbps, both_ways)
    because = f"{speed_mbps} Mbit/s link, MTU {packets.size}{', IPv6' if packets.family == 6 else ''}"
    if packets.udp:
        because += ", UDP"
    else:
        because += ", TCP timestamps" if packets.timestamps else ", no TCP timestamps"
        because += ", both directions at once" if both_ways else ""
    capacity = BUS_CAPACITY[bus]
    if capacity is not None and capacity < wire:
        return Oracle(capacity, f"{bus} bus, {capacity} at most")
    return Oracle(wire, because)


def highest_limit(speed_mbps: int, mtu_max: int, bus: Bus, both_ways: bool = False) -> Oracle:
    """Return the highest possible limit of TCP goodput; a limit above it can never be met.

    For one direction, no setting of MTU or timestamps carries more. For both directions at once, TCP timestamps are
    assumed to be on, the Linux default: this must detect gates that require the one-way value in both directions.
    """
    direction = Direction.BIDIR if both_ways else Direction.TX
    return physical_limit(speed_mbps, PacketSizes(mtu_max, timestamps=both_ways), bus, direction)
