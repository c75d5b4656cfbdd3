"""What PCI Express leaves to a NIC: a model of its packets, as context beside the hard limit of its lanes."""

from __future__ import annotations

import math

from pytest_pinet.model.conditions import PcieLink
from pytest_pinet.model.quantities import Bitrate

# Line codes: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s (PCI Express Base 5.0, 4.2); 64 GT/s is not of these.
_CODE_8B10B_GTPS = 5.0
_CODE_128B130B_GTPS = 32.0
# Ethernet header: what goes over the bus of it, since the check sequence stays in the NIC.
_ETHERNET_HEADER = 14
# Each packet of the bus: 2 framing, 2 sequence, 16 header (64-bit address), 4 link check.
_PACKET_BYTES = 24
# Reading a descriptor and writing it back, for each frame.
_DESCRIPTOR_BYTES = 40
# Acknowledgements and flow control of the link layer take up to 5 %.
_LEAST_EFFICIENCY = 0.95
# The largest payload of a packet (MPS) where nobody tells it: the least that every device takes, and the most that
# those of these boards do.
_PAYLOADS = (128, 512)


def raw(link: PcieLink) -> Bitrate | None:
    """What its lanes carry in one direction, the headers of the bus included; None for a line code not known here."""
    if link.gtps > _CODE_128B130B_GTPS:
        return None
    code = 8 / 10 if link.gtps <= _CODE_8B10B_GTPS else 128 / 130
    return Bitrate(link.gtps * 1e9 * code * link.lanes)


def goodput(link: PcieLink, mtu: int, user_bytes: int) -> tuple[Bitrate, Bitrate] | None:
    """Least and most goodput of received frames of ``mtu`` bytes, ``user_bytes`` of each the user's.

    Each frame takes ``frame + ceil(frame / MPS) * 24 + 40`` bytes on the bus (facts/measuring.md 2.7; a CM4 with an
    I340 measures 3.06 Gbit/s, where this says 2.99 to 3.14 for 128 bytes). None where ``raw`` is.
    """
    carried = raw(link)
    if carried is None:
        return None
    frame = mtu + _ETHERNET_HEADER
    payloads = _PAYLOADS if link.payload is None else (link.payload,)
    on_bus = [frame + math.ceil(frame / payload) * _PACKET_BYTES + _DESCRIPTOR_BYTES for payload in payloads]
    each = [carried.bps * user_bytes / one for one in on_bus]
    return Bitrate(min(each) * _LEAST_EFFICIENCY), Bitrate(max(each))
