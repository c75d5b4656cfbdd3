"""What is sent: tool-independent description of one traffic run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_pinet.model.quantities import Bitrate

# The longest warm-up that is still one: TCP fills a link of 1 Gbit/s in a few hundred milliseconds.
WARMUP_CAP_S = 1.0


class Direction(StrEnum):
    """Seen from the device under test: it sends (tx), receives (rx), or both at once (bidir)."""

    TX = "tx"
    RX = "rx"
    BIDIR = "bidir"

    def __str__(self) -> str:
        return self.value

    @property
    def parts(self) -> tuple[Direction, ...]:
        """The one-way directions that this one is made of."""
        return (Direction.TX, Direction.RX) if self is Direction.BIDIR else (self,)


@dataclass(frozen=True)
class Traffic:
    """One run of traffic between the DUT and its peer.

    ``duration_s`` counts after ``warmup_s`` (dropped by us, never by ``iperf3 -O``); where that is None the warm-up is
    found, and ends after WARMUP_CAP_S at the latest. ``window`` and ``mss`` (bytes),
    ``bitrate`` (per stream and direction), ``length`` (bytes per write or datagram) and ``congestion`` are None where
    the tool's or kernel's default holds.
    """

    direction: Direction
    udp: bool = False
    streams: int = 1
    duration_s: float = 5.0
    warmup_s: float | None = 1.0
    window: int | None = None
    mss: int | None = None
    bitrate: Bitrate | None = None
    length: int | None = None
    congestion: str | None = None

    @property
    def seconds(self) -> int:
        """How long traffic flows on one connection of an ordinary link."""
        return self.seconds_with(WARMUP_CAP_S)

    def seconds_with(self, warmup_cap_s: float) -> int:
        """As ``seconds``, where a warm-up may take so long; tools take whole seconds only."""
        warmup_s = warmup_cap_s if self.warmup_s is None else self.warmup_s
        return max(1, math.ceil(warmup_s + self.duration_s - 1e-9))

    def towards(self, direction: Direction) -> Traffic:
        """The same traffic in another direction."""
        return replace(self, direction=direction)

    @property
    def key(self) -> str:
        """The stable part of an id: what is sent, without how long it is measured."""
        parts = ["udp" if self.udp else "tcp", f"P{self.streams}"]
        if self.window is not None:
            parts.append(f"w{self.window}")
        if self.mss is not None:
            parts.append(f"M{self.mss}")
        if self.bitrate is not None:
            parts.append(f"b{self.bitrate.bps / 1e6:g}M")
        if self.length is not None:
            parts.append(f"l{self.length}")
        if self.congestion is not None:
            parts.append(self.congestion)
        if self.direction is Direction.BIDIR:
            parts.append("bidir")
        return "-".join(parts)
