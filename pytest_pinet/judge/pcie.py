"""A model of PCI Express packets: the goodput that they allow a NIC, as context for the hard limit of the lanes."""

from __future__ import annotations

import math

from pytest_pinet.model.conditions import PcieLink
from pytest_pinet.model.quantities import Bitrate

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


def raw(link: PcieLink) -> Bitrate | None:
    """Return what the lanes carry in one direction, including bus headers; None for an unknown line code."""
    if link.gtps > _CODE_128B130B_GTPS:
        return None
    code = 8 / 10 if link.gtps <= _CODE_8B10B_GTPS else 128 / 130
    return Bitrate(link.gtps * 1e9 * code * link.lanes)


def goodput(link: PcieLink, mtu: int, user_bytes: int) -> tuple[Bitrate, Bitrate] | None:
    """Return the least and most goodput of received frames of ``mtu`` bytes, each with ``user_bytes`` of payload.

    Each frame takes ``frame + ceil(frame / MPS) * 24 + 40`` bytes on the bus (facts/measuring.md 2.7). A CM4 with an
    I340 measures 3.06 Gbit/s; for an MPS of 128 bytes the model gives 2.99 to 3.14. None if ``raw`` is None.
    """
    carried = raw(link)
    if carried is None:
        return None
    frame = mtu + _ETHERNET_HEADER
    payloads = _PAYLOADS if link.payload is None else (link.payload,)
    on_bus = [frame + math.ceil(frame / payload) * _PACKET_BYTES + _DESCRIPTOR_BYTES for payload in payloads]
    each = [carried.bps * user_bytes / one for one in on_bus]
    return Bitrate(min(each) * _LEAST_EFFICIENCY), Bitrate(max(each))
