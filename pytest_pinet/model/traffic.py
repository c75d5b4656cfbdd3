"""The traffic of one run, independent of the tool."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_pinet.model.quantities import Bitrate

# The longest warm-up. TCP fills a link of 1 Gbit/s in a few hundred milliseconds.
WARMUP_CAP_S = 1.0


class Direction(StrEnum):
    """The direction seen from the device under test: it sends (tx), receives (rx), or does both at once (bidir)."""

    TX = "tx"
    RX = "rx"
    BIDIR = "bidir"

    @property
    def parts(self) -> tuple[Direction, ...]:
        return (Direction.TX, Direction.RX) if self is Direction.BIDIR else (self,)


@dataclass(frozen=True)
class Traffic:
    """One run of traffic between the DUT and its peer.

    ``duration_s`` begins after ``warmup_s``. We drop the warm-up ourselves, without ``iperf3 -O``. If ``warmup_s`` is
    None the end of the warm-up is detected, at most WARMUP_CAP_S after the start. ``window`` and ``mss`` (bytes),
    ``bitrate`` (per stream and direction), ``length`` (bytes per write or datagram) and ``congestion`` are None to keep
    the default of the tool or kernel.

    For traffic in both directions, ``opposed`` uses one process per direction instead of one for both. ``peer_bitrate``
    (per stream) limits the rate of the peer and also needs two processes.

    ``affinity`` is the CPU of the device under test to which the tool is pinned.
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
    def segment(self) -> int | None:
        """The payload of a packet (datagram or MSS) if it is configured."""
        return self.length if self.udp else self.mss

    @property
    def apart(self) -> bool:
        """Whether each direction has its own process."""
        return self.opposed or self.peer_bitrate is not None

    def bitrate_of(self, way: Direction) -> Bitrate | None:
        """Return the rate limit of each stream in this one-way direction."""
        return self.bitrate if way is Direction.TX or self.peer_bitrate is None else self.peer_bitrate

    def one_way(self, way: Direction) -> Traffic:
        """Return the traffic of the process for one direction, if each direction has its own."""
        return replace(self, direction=way, bitrate=self.bitrate_of(way), peer_bitrate=None, opposed=False)

    def packet_bytes(self, full: int) -> int | None:
        """Return the payload of a packet (datagram or MSS) if it is configured; None: packets have ``full`` bytes."""
        return self.segment

    @property
    def seconds(self) -> int:
        """How long traffic flows on one connection of an ordinary link."""
        return self.seconds_with(WARMUP_CAP_S)

    def seconds_with(self, warmup_cap_s: float) -> int:
        """Return ``seconds`` for another longest warm-up. The value is whole, since tools take only whole seconds."""
        warmup_s = warmup_cap_s if self.warmup_s is None else self.warmup_s
        return max(1, math.ceil(warmup_s + self.duration_s - 1e-9))

    def towards(self, direction: Direction) -> Traffic:
        return replace(self, direction=direction)

    @property
    def key(self) -> str:
        """The part of an id that describes the traffic, without its duration; stable across runs."""
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


# Bytes of a response before a small file: the status line and about six header fields.
RESPONSE_HEAD = 250


@dataclass(frozen=True)
class HttpTraffic(Traffic):
    """HTTP requests for a cached file of ``size`` bytes, repeated on ``streams`` connections. The sender is the server.

    No warm-up is dropped: the load generator's own seconds are counted.
    """

    warmup_s: float | None = 0.0
    size: int = 100_000

    def packet_bytes(self, full: int) -> int | None:
        """Return the average payload of a packet: the last packet of a response is not full."""
        response = self.size + RESPONSE_HEAD
        return response // math.ceil(response / full)

    @property
    def key(self) -> str:
        return f"http-c{self.streams}-s{self.size}"


@dataclass(frozen=True)
class LadderTraffic(Traffic):
    """UDP at increasing rates (per stream); ``bitrate`` is the highest of them.

    A rate is held if at most the share ``loss`` (0 to 1) of its datagrams is lost.
    """

    rates: tuple[Bitrate, ...] = ()
    loss: float = 0.001

    def step(self, rate: Bitrate) -> Traffic:
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
