"""What PCI Express leaves to a NIC: a model of its packets, as context beside the hard limit of its lanes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_pinet.model.quantities import Bitrate

# Bit/s of a lane after its line code: 8b/10b up to generation 2, 128b/130b from 3 on (PCI Express Base 5.0, 4.2).
_LANE_BPS = {1: 2.5e9 * 8 / 10, 2: 5e9 * 8 / 10, 3: 8e9 * 128 / 130, 4: 16e9 * 128 / 130}
# Ethernet header: what goes over the bus of it, since the check sequence stays in the NIC.
_ETHERNET_HEADER = 14
# Each packet of the bus: 2 framing, 2 sequence, 16 header (64-bit address), 4 link check.
_PACKET_BYTES = 24
# Reading a descriptor and writing it back, for each frame.
_DESCRIPTOR_BYTES = 40
# Acknowledgements and flow control of the link layer take up to 5 %.
_LEAST_EFFICIENCY = 0.95


@dataclass(frozen=True)
class PcieLink:
    """A negotiated PCIe link: generation (1 to 4), lanes, and the largest payload of its packets (MPS, bytes)."""

    generation: int
    lanes: int
    payload: int

    def __post_init__(self) -> None:
        if self.generation not in _LANE_BPS:
            raise ValueError(f"PCIe generation {self.generation} is not one of {', '.join(map(str, _LANE_BPS))}")
        if self.lanes < 1 or self.payload < 1:
            raise ValueError(f"a PCIe link has lanes and a payload above 0, not {self.lanes} and {self.payload}")

    @property
    def raw(self) -> Bitrate:
        """What its lanes carry in one direction, the headers of the bus included."""
        return Bitrate(_LANE_BPS[self.generation] * self.lanes)

    def goodput(self, mtu: int, user_bytes: int) -> tuple[Bitrate, Bitrate]:
        """Least and most goodput of received frames of ``mtu`` bytes, ``user_bytes`` of each the user's.

        Each frame takes ``frame + ceil(frame / MPS) * 24 + 40`` bytes on the bus (facts/measuring.md 2.7; a CM4 with an
        I340 measures 3.06 Gbit/s, where this says 2.99 to 3.14).
        """
        frame = mtu + _ETHERNET_HEADER
        on_bus = frame + math.ceil(frame / self.payload) * _PACKET_BYTES + _DESCRIPTOR_BYTES
        most = self.raw.bps * user_bytes / on_bus
        return Bitrate(most * _LEAST_EFFICIENCY), Bitrate(most)

    def __str__(self) -> str:
        return f"PCIe {self.generation}.0 x{self.lanes} with payloads of {self.payload} bytes"
