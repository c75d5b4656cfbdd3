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

    With both directions at once, ``opposed`` sends each by a process of its own instead of one that does both, and
    ``peer_bitrate`` (per stream) is what the peer sends at most, which takes two processes, too.

    ``affinity`` is the CPU of the device under test that the tool is kept on.
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
    peer_bitrate: Bitrate | None = None
    opposed: bool = False
    affinity: int | None = None

    @property
    def apart(self) -> bool:
        """Whether each direction has a process of its own."""
        return self.opposed or self.peer_bitrate is not None

    def bitrate_of(self, way: Direction) -> Bitrate | None:
        """What each stream of this one-way direction is told to send at most."""
        return self.bitrate if way is Direction.TX or self.peer_bitrate is None else self.peer_bitrate

    def one_way(self, way: Direction) -> Traffic:
        """What the process of one direction sends where each has its own."""
        return replace(self, direction=way, bitrate=self.bitrate_of(way), peer_bitrate=None, opposed=False)

    def packet_bytes(self, full: int) -> int | None:
        """What a packet carries where that may be less than ``full``, which the MTU allows (TCP's MSS, a datagram)."""
        return self.length if self.udp else self.mss

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
        if self.peer_bitrate is not None:
            parts.append(f"pb{self.peer_bitrate.bps / 1e6:g}M")
        elif self.opposed:
            parts.append("opposed")
        if self.length is not None:
            parts.append(f"l{self.length}")
        if self.congestion is not None:
            parts.append(self.congestion)
        if self.affinity is not None:
            parts.append(f"A{self.affinity}")
        if self.direction is Direction.BIDIR:
            parts.append("bidir")
        return "-".join(parts)


# What a web server writes before a small file: status line and some six header fields.
RESPONSE_HEAD = 250


@dataclass(frozen=True)
class HttpTraffic(Traffic):
    """A cached file of ``size`` bytes, asked for again and again on ``streams`` connections; its sender is the server.

    There is no warm-up to drop: the load generator's own seconds are what counts.
    """

    warmup_s: float | None = 0.0
    size: int = 100_000

    def packet_bytes(self, full: int) -> int | None:
        """On average: the last packet of a response carries what is left."""
        response = self.size + RESPONSE_HEAD
        return response // math.ceil(response / full)

    @property
    def key(self) -> str:
        return f"http-c{self.streams}-s{self.size}"


@dataclass(frozen=True)
class LadderTraffic(Traffic):
    """UDP at one rate (of each stream) after the other, the lowest first; ``bitrate`` is the highest of them.

    ``loss`` is the part (0 to 1) of the datagrams that may be lost of a rate that is held.
    """

    rates: tuple[Bitrate, ...] = ()
    loss: float = 0.001

    def step(self, rate: Bitrate) -> Traffic:
        """The traffic of one rate."""
        return Traffic(
            self.direction,
            True,
            self.streams,
            self.duration_s,
            self.warmup_s,
            window=self.window,
            bitrate=rate,
            length=self.length,
        )

    @property
    def key(self) -> str:
        return f"{super().key}-ladder"
