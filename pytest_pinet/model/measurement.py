"""The values of a measurement, before they are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic


class EventKind(StrEnum):
    """The kinds of events, by their names in reports."""

    STALL = "stall"  # nothing, or nearly nothing, arrived
    DIP = "dip"  # far below the rest of the run
    SLOW_START = "slow start"  # the warm-up took longer than its cap
    LINK_DOWN = "link down"  # the carrier was lost
    RESTART = "restart"  # a counter or a process restarted


@dataclass(frozen=True)
class Event:
    """An event during traffic.

    ``start_s`` counts from the start of the traffic, ``seconds`` is its length. ``text`` is a sentence for readers
    (``link dropped for 2.1 s at 14:03:07, sw1/p5``). ``times`` counts drops that were too short to be seen one by one.
    """

    kind: EventKind
    start_s: float
    seconds: float
    text: str
    times: int = 1


class KtapOutcome(StrEnum):
    """The outcome of one line of TAP."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class KtapResult:
    """One line of TAP: ``outcome`` is ``pass``, ``fail`` or ``skip``, ``note`` the text behind ``#``."""

    name: str
    outcome: KtapOutcome
    note: str


@dataclass(frozen=True)
class SocketsRecord:
    """What the kernels at both ends reported of a flow's connections during the traffic; null if one does not report.

    ``mss`` is the smallest one in use (bytes, without TCP options). ``sndbuf_bytes`` is the buffer of the
    sender, ``rcvbuf_bytes`` the buffer of the receiver.
    """

    connections: int
    mss: int
    rtt_s: float | None = None
    cwnd_bytes: int | None = None
    sndbuf_bytes: int | None = None
    rcvbuf_bytes: int | None = None


@dataclass(frozen=True)
class Sockets(SocketsRecord):
    """The data connections of one flow, read once during the traffic; None is a value that is not known.

    ``rtt_s`` is the mean smoothed round trip, ``rtt_min_s`` the shortest. ``cwnd_bytes`` is the sum of the congestion
    windows. ``retransmits`` counts the segments that were sent again so far.
    ``receiver_limited`` and ``sender_limited`` are shares (0 to 1) of the time with data to send in which all
    connections waited for the receiver's window, or for the sender's own buffer. ``sndbuf_bytes`` and ``rcvbuf_bytes``
    are the smallest buffers that the kernel allows a connection. ``is_mss_of_window``: the receiver's window makes the
    segments as small as ``mss``. ``while_busy`` is the rate of acknowledged data in the time with data to send: it
    exceeds the goodput if the sender had pauses.
    """

    rtt_min_s: float | None = None
    retransmits: int | None = None
    receiver_limited: float | None = None
    sender_limited: float | None = None
    is_mss_of_window: bool = False
    while_busy: Bitrate | None = None


@dataclass(frozen=True)
class Sample:
    """One interval at the receiver: start (seconds since the start of traffic), length, bytes, and if it is warm-up."""

    start_s: float
    seconds: float
    bytes: int
    warmup: bool = False

    # The judge reads each rate more than ten times.
    @cached_property
    def bps(self) -> float:
        return self.bytes * 8 / self.seconds if self.seconds > 0 else 0.0


def rate_of(samples: Sequence[Sample]) -> Bitrate:
    """Return all bytes over all seconds; 0 without any time."""
    seconds = sum(s.seconds for s in samples)
    return Bitrate(sum(s.bytes for s in samples) * 8 / seconds) if seconds > 0 else Bitrate(0.0)


@dataclass(frozen=True)
class Flow:
    """One direction of a traffic run, as its receiver measured it.

    ``retransmits`` is None if they were not counted (UDP has none; a receiver does not know them). ``lost_packets`` and
    ``packets`` are for UDP only. ``sent_bytes`` is what the sender handed to its kernel during the whole run: the
    received bytes, and the bytes lost or on their way at the end.

    ``sender_samples`` are the sender's own intervals. They are evidence only, since they include bytes in its buffers.
    ``other_samples`` are the receiver's if goodput is given in the time of a sender with a virtual clock. ``rtt_s`` is
    the mean round trip that the sender's kernel saw under this load. ``sockets`` is what this kernel reported about the
    connections during the traffic, ``far_sockets`` what the receiver's kernel reported. ``events`` cover the warm-up,
    too. ``head_bytes`` arrived beside the samples: protocol headers before the payload.
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
        """The samples after the warm-up, without stalls: stalls are reported separately, never averaged."""
        stalls = [(e.start_s, e.start_s + e.seconds) for e in self.events if e.kind is EventKind.STALL]

        def stalled(sample: Sample) -> bool:
            middle_s = sample.start_s + sample.seconds / 2
            return any(begin <= middle_s < end for begin, end in stalls)

        flowing = tuple(s for s in self.samples if not s.warmup and not stalled(s))
        # If nothing flowed at all, the stalls are counted: goodput is 0.
        return flowing or tuple(s for s in self.samples if not s.warmup)

    @property
    def seconds(self) -> float:
        return sum(s.seconds for s in self.counted)

    @property
    def received_bytes(self) -> int:
        """All bytes that the receiver counted, including the warm-up."""
        return sum(sample.bytes for sample in self.other_samples or self.samples)

    @property
    def since_start(self) -> Bitrate:
        """The rate from the first byte to the end of the counted time.

        This rate cannot exceed the wire; the rate of a part of the time can. TCP holds back data until a lost segment
        arrives again. The application then gets the data in one piece, which may fall into the counted time although
        the data arrived before.
        """
        end = max((s.start_s + s.seconds for s in self.counted), default=0.0)
        so_far = [s for s in self.samples if s.start_s < end]
        return rate_of(so_far)

    @property
    def goodput(self) -> Bitrate:
        """Received bits over covered seconds; never the mean of interval rates (an interval may be 10 ms short)."""
        return rate_of(self.counted)


@dataclass(frozen=True)
class Path:
    """The properties of the path between the ends, from which the physical limit is computed.

    ``duplex`` is None if a driver does not report it.
    """

    speed_mbps: int
    duplex: str | None
    mtu: int
    timestamps: bool

    def __str__(self) -> str:
        return f"{self.speed_mbps} Mbit/s {self.duplex or 'unknown'} duplex, MTU {self.mtu}"


@dataclass(frozen=True)
class Window:
    """The counted time of flows that ran at once: from the end of the last warm-up to the end of the first flow.

    ``start_s`` counts from the start of the first flow. ``skew_s`` is how much later the last flow began, as seen by
    the receiving ends; in 95 of 100 cases its error is at most ``skew_within_s``. Both are None if an end cannot
    measure them.
    """

    start_s: float
    seconds: float
    skew_s: float | None = None
    skew_within_s: float | None = None


# The name in reports of requests whose answer is bad.
REFUSED = "not answered with 2xx"


@dataclass(frozen=True)
class HttpReport:
    """One run of a load generator: ``requests`` were answered in ``seconds``.

    ``refused`` of them had a status other than 2xx. ``read_bytes`` is everything that was read, including response
    headers, with about 3 significant digits. ``connect``, ``read``, ``write`` and ``timeout`` count connection errors.
    Latencies (s) are None if the tool did not print them.
    """

    requests: int
    seconds: float
    read_bytes: float
    refused: int = 0
    connect: int = 0
    read: int = 0
    write: int = 0
    timeout: int = 0
    latency_mean_s: float | None = None
    latency_max_s: float | None = None
    latency_p99_s: float | None = None

    @property
    def good(self) -> int:
        return self.requests - self.refused

    @property
    def rate(self) -> float:
        return self.good / self.seconds if self.seconds > 0 else 0.0

    @property
    def troubles(self) -> dict[str, int]:
        """The counts of failures, by their names in reports; empty if nothing failed."""
        named = {
            REFUSED: self.refused,
            "no connection": self.connect,
            "failed to read": self.read,
            "failed to write": self.write,
            "timed out": self.timeout,
        }
        return {name: count for name, count in named.items() if count}


@dataclass(frozen=True)
class StreamStart:
    """When traffic began at an end (``dut`` or ``peer``), in seconds of the uptime of this end."""

    end: str
    uptime_s: float


@dataclass(frozen=True)
class Measurement:
    """One traffic run: a flow for each one-way direction, and the raw output of every process by file name.

    ``versions`` (of the tool) and ``cpu_percent`` (of one core, used by the tool) are by end, ``dut`` and ``peer``.
    ``notes`` are sentences that readers of the result need. ``events`` belong to the whole run (such as a dropped
    link); each flow has its own, too. ``window`` is the counted time that flows share. ``began`` and ``unmet`` (a
    sentence for each setting that a kernel did not apply) come from the tool, ``http`` from a load generator.
    ``at_end`` is what each end printed when it had run the words that the job has for the end of the traffic.
    """

    traffic: Traffic
    flows: Mapping[Direction, Flow]
    raw: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    cpu_percent: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    window: Window | None = None
    began: StreamStart | None = None
    http: HttpReport | None = None
    unmet: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    at_end: Mapping[str, str] = field(default_factory=dict)
