"""What was measured, before anybody judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.model.events import Event, EventKind
from pytest_pinet.model.http import HttpReport
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.sockets import Sockets
from pytest_pinet.model.traffic import Direction, Traffic


@dataclass(frozen=True)
class Sample:
    """One interval at the receiver: seconds since the start of traffic, length, bytes; ``warmup`` is not counted."""

    start_s: float
    seconds: float
    bytes: int
    warmup: bool = False

    @property
    def bps(self) -> float:
        return self.bytes * 8 / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Flow:
    """One direction of a traffic run, seen by its receiver.

    ``retransmits`` is None where nobody counted them (UDP; a receiver does not know). ``lost_packets`` and ``packets``
    are UDP's. ``sent_bytes`` is what the sender handed to its kernel during the whole run: what was received, and what
    was on its way at the end, or lost.

    ``sender_samples`` are the sender's own intervals: evidence only, since they count what is still in its buffers.
    ``other_samples`` are the receiver's, where the figure is told in the time of a sender whose clock is virtual.
    ``rtt_s`` is the mean round trip as the sender's kernel saw it under this load, ``sockets`` what that kernel said of
    the connections in mid-traffic, ``far_sockets`` what that of the receiver did. ``events`` are what happened to the
    traffic, its warm-up included. ``head_bytes`` arrived beside the samples: what a protocol puts before its payload.
    """

    direction: Direction
    samples: tuple[Sample, ...]
    retransmits: int | None = None
    lost_packets: int | None = None
    packets: int | None = None
    jitter_ms: float | None = None
    streams: tuple[Bitrate, ...] = ()
    sent_bytes: int | None = None
    sender_samples: tuple[Sample, ...] = ()
    other_samples: tuple[Sample, ...] = ()
    rtt_s: float | None = None
    sockets: Sockets | None = None
    far_sockets: Sockets | None = None
    head_bytes: int = 0
    events: tuple[Event, ...] = ()

    @property
    def counted(self) -> tuple[Sample, ...]:
        """The samples after the warm-up, without those of stalls: these are told by themselves, never averaged."""
        stalls = [(e.start_s, e.start_s + e.seconds) for e in self.events if e.kind is EventKind.STALL]

        def stalled(sample: Sample) -> bool:
            middle_s = sample.start_s + sample.seconds / 2
            return any(begin <= middle_s < end for begin, end in stalls)

        flowing = tuple(s for s in self.samples if not s.warmup and not stalled(s))
        # Where nothing ever flowed that is the figure.
        return flowing or tuple(s for s in self.samples if not s.warmup)

    @property
    def seconds(self) -> float:
        return sum(s.seconds for s in self.counted)

    @property
    def received_bytes(self) -> int:
        """All that the receiver counted, in whatever time, warm-up included."""
        return sum(sample.bytes for sample in self.other_samples or self.samples)

    @property
    def since_start(self) -> Bitrate:
        """The rate from the first byte to the end of the counted time.

        Unlike a part of it, it cannot exceed the wire: data that TCP held back until a lost segment came again reaches
        the application in one piece, which may fall into the counted time although it arrived before.
        """
        end = max((s.start_s + s.seconds for s in self.counted), default=0.0)
        so_far = [s for s in self.samples if s.start_s < end]
        seconds = sum(s.seconds for s in so_far)
        return Bitrate(sum(s.bytes for s in so_far) * 8 / seconds) if seconds > 0 else Bitrate(0.0)

    @property
    def goodput(self) -> Bitrate:
        """Received bytes over covered seconds; never the mean of interval rates (intervals may be 10 ms short)."""
        seconds = self.seconds
        return Bitrate(sum(s.bytes for s in self.counted) * 8 / seconds) if seconds > 0 else Bitrate(0.0)


@dataclass(frozen=True)
class Path:
    """What the wire between the ends was found to be; the ground of the physical limit.

    ``duplex`` is None where a driver does not tell it.
    """

    speed_mbps: int
    duplex: str | None
    mtu: int
    timestamps: bool


@dataclass(frozen=True)
class Window:
    """The time that counts of flows which ran at once: after the last warm-up, until the first of them ended.

    ``start_s`` counts from the start of the first flow. ``skew_s`` is how long after it the last one began, as the
    receiving ends saw it; in 95 of 100 cases it is no further than ``skew_within_s`` from the truth. None where an end
    cannot tell.
    """

    start_s: float
    seconds: float
    skew_s: float | None = None
    skew_within_s: float | None = None


@dataclass(frozen=True)
class Began:
    """When traffic began, as the clock of an end (``dut`` or ``peer``) said it: seconds of its uptime."""

    end: str
    uptime_s: float


@dataclass(frozen=True)
class Measurement:
    """One traffic run: a flow for each one-way direction, and the raw output of every process by file name.

    ``versions`` (of the tool) and ``cpu_percent`` (of one core, used by the tool) by end, ``dut`` and ``peer``;
    ``notes`` are sentences that a reader of the figure must know; ``events`` are those of the run as a whole (a link
    that dropped), beside those of each flow. ``window`` is the shared time of runs at once; ``began`` and ``unmet``
    (settings that a kernel did not take, a sentence each) are what the tool says, ``http`` what a load generator did.
    """

    traffic: Traffic
    flows: Mapping[Direction, Flow]
    raw: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    cpu_percent: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    window: Window | None = None
    began: Began | None = None
    http: HttpReport | None = None
    unmet: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
