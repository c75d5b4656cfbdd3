"""What is sent over a link in one run, independent of the tool: traffic, pings, or a selftest of the kernel."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import quoted
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


# Longer delays exceed the time limits of connections.
DELAY_MAX_S = 2.0
# 4095 is reserved (IEEE 802.1Q).
VLAN_MAX = 4094


@dataclass(frozen=True)
class PathSetup:
    """How the path is set up for one gate call: the IP ``family`` (4 or 6), and delay and loss at the peer.

    ``delay_s`` is added to each round trip, half of it each way; ``loss`` is the share of packets lost each way.
    ``vlan`` is the tag of all frames (802.1Q), from end to end. ``background`` is traffic that runs at the same time.
    """

    family: int = 4
    delay_s: float = 0.0
    loss: float = 0.0
    vlan: int | None = None
    background: Traffic | None = None

    def __post_init__(self) -> None:
        if self.family not in (4, 6):
            raise ConfigError(f"family={self.family!r}: expected 4 or 6")
        if not 0 <= self.delay_s <= DELAY_MAX_S:
            raise ConfigError(f"delay of {self.delay_s:g} s: expected at most {DELAY_MAX_S:g} s")
        if self.vlan is not None and (type(self.vlan) is not int or not 1 <= self.vlan <= VLAN_MAX):
            raise ConfigError(f"vlan={self.vlan!r}: expected 1 to {VLAN_MAX}")
        if not 0 <= self.loss < 1:
            raise ConfigError(f"loss of {self.loss * 100:g} %: expected less than 100 %")

    @property
    def key(self) -> str:
        """The part of an id that describes the setup; empty for the usual one."""
        delay = f"-delay{self.delay_s * 1000:g}ms" if self.delay_s else ""
        loss = f"-loss{self.loss * 100:g}pct" if self.loss else ""
        vlan = f"-vlan{self.vlan}" if self.vlan is not None else ""
        return ("-ip6" if self.family == 6 else "") + vlan + delay + loss + self._background_key

    @property
    def _background_key(self) -> str:
        """A part without the dash that separates parts: ``-bg.tcp.P1.rx``."""
        if self.background is None:
            return ""
        traffic = self.background
        way = "" if traffic.direction is Direction.BIDIR else f".{traffic.direction}"
        return f"-bg.{traffic.key.replace('-', '.')}{way}"


USUAL_PATH = PathSetup()


@dataclass(frozen=True)
class Traffic:
    """One run of traffic between the DUT and its peer.

    ``duration_s`` begins after ``warmup_s``. We drop the warm-up ourselves, without ``iperf3 -O``. If ``warmup_s`` is
    None the end of the warm-up is detected, at most WARMUP_CAP_S after the start. ``window`` and ``mss`` (bytes),
    ``bitrate`` (per stream and direction), ``length`` (bytes per write or datagram) and ``congestion`` are None to keep
    the default of the tool or kernel.

    For traffic in both directions, ``opposed`` uses one process per direction instead of one for both. ``peer_bitrate``
    (per stream) limits the rate of the peer and also needs two processes.

    ``affinity`` is the CPU of the device under test to which the tool is pinned. ``setup`` is that of the path.
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
    setup: PathSetup = USUAL_PATH

    @property
    def segment(self) -> int | None:
        """The payload of a packet (datagram or MSS) if it is configured."""
        return self.length if self.udp else self.mss

    @property
    def apart(self) -> bool:
        """Whether each direction has its own process."""
        return self.opposed or self.peer_bitrate is not None

    def bitrate_of(self, way: Direction) -> Bitrate | None:
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
        bidir = "-bidir" if self.direction is Direction.BIDIR else ""
        return f"{'-'.join(parts)}{self.setup.key}{bidir}"


def standard_traffic(way: Direction, connection_s: int, streams: int = 1) -> Traffic:
    """Return the default traffic of the gate, for commands: ``connection_s`` per connection."""
    return Traffic(way, streams=streams, duration_s=connection_s - WARMUP_CAP_S, warmup_s=None)


# Bytes of a response before a small file: the status line and about six header fields.
RESPONSE_HEAD = 250


@dataclass(frozen=True)
class HttpTraffic(Traffic):
    """HTTP requests for a cached file of ``size`` bytes, repeated on ``streams`` connections. The sender is the server.

    No warm-up is dropped: the load generator's own seconds are counted. ``close``: each request has a connection of its
    own.
    """

    warmup_s: float | None = 0.0
    size: int = 100_000
    close: bool = False

    def packet_bytes(self, full: int) -> int | None:
        """Return the average payload of a packet: the last packet of a response is not full."""
        response = self.size + RESPONSE_HEAD
        return response // math.ceil(response / full)

    @property
    def key(self) -> str:
        return f"http-c{self.streams}-s{self.size}{self.setup.key}"


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
            setup=self.setup,
        )

    @property
    def key(self) -> str:
        return f"{super().key}-ladder"


@dataclass(frozen=True)
class Ping:
    """The parameters of a ping: ``count`` echo requests with ``size`` bytes of payload, one every ``interval_s``."""

    count: int = 10
    interval_s: float = 0.2
    size: int = 56

    @property
    def seconds(self) -> float:
        """How long sending takes."""
        return self.count * self.interval_s


@dataclass(frozen=True)
class PingReport:
    """The result of a ping. Round trips (s) are None without a reply; ``mdev_s`` also if the tool does not print it."""

    sent: int
    received: int
    min_s: float | None = None
    mean_s: float | None = None
    max_s: float | None = None
    mdev_s: float | None = None

    @property
    def loss(self) -> float:
        """The share (0 to 1) of requests without a reply."""
        return 1 - self.received / self.sent if self.sent else 0.0


_TEST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*:[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
# runner.sh of the selftests; a file `settings` of a collection can set another one.
USUAL_TIMEOUT_S = 45.0


@dataclass(frozen=True)
class Kselftest:
    """A selftest as ``run_kselftest.sh -t`` names it, ``drivers/net:ping.py``.

    ``source`` is a kernel tree, or installed selftests (a folder, or an archive of one). ``environment`` are further
    lines of ``net.config``.
    """

    test: str
    source: str
    timeout_s: float = USUAL_TIMEOUT_S
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _TEST.fullmatch(self.test) or ".." in self.test:
            raise ConfigError(f"expected a selftest such as 'drivers/net:ping.py', got {quoted(self.test)}")
        for name, value in self.environment.items():
            # The selftests take quotes literally, and cut each line at '#'.
            if not _NAME.fullmatch(name) or not re.fullmatch(r"[^#'\"\s][^#'\"\n]*", value):
                line = f"{name}={value}"
                raise ConfigError(f"expected a line of net.config such as DISRUPTIVE=no, got {quoted(line)}")

    @property
    def collection(self) -> str:
        """The folder below tools/testing/selftests."""
        return self.test.partition(":")[0]

    @property
    def key(self) -> str:
        """The part of an id, without characters that separate its parts."""
        return "kselftest-" + re.sub(r"[/:]", "-", self.test)
