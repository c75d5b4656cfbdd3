"""The records of what was measured: directions, flows, traffic beside goodput, and the evidence of the ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Annotated

from pydantic import BeforeValidator

from pytest_pinet.model.evidence import ManagementTraffic, OtherWork, ProcessorLoad, Throttling
from pytest_pinet.model.judgement import BaselineDifference, ExtraJudgement
from pytest_pinet.model.limits import Threshold
from pytest_pinet.model.measurement import Event, KtapResult, Sample, SocketsRecord
from pytest_pinet.model.record.base import Rare, Record, SparseRecord
from pytest_pinet.model.verdict import Verdict


def _bits(throttling: object) -> object:
    return throttling.bits if isinstance(throttling, Throttling) else throttling


class HeatRecord(Record):
    """Clock, temperature and throttling of one end at one moment. A value that cannot be read is null.

    ``throttling`` has the bits that the firmware reports.
    """

    clock_mhz: float | None
    clock_max_mhz: float | None
    temperature_c: float | None
    throttling: Annotated[int | None, BeforeValidator(_bits)]


class EvidenceRecord(SparseRecord):
    """One end during one connection (numbered from 1): the differences of its counters before and after the traffic.

    ``interrupts`` (the most frequent actions), ``softirqs`` and ``softnet`` have one number for each CPU.
    ``interface`` has the kernel's counters of the device (changed counters only, and ``carrier_changes``), ``nic`` the
    counters of its driver. ``kernel`` has the lines of the kernel log that report trouble. A value is null if the end
    does not report it, or if its counter restarted; the name of that source is then in ``restarted``. ``under_load``
    was read during the traffic. With ``from_connection``, the differences span all connections from that one to this
    one. ``others`` is the work of user processes that are not ours, as a share of one CPU, and ``throttled`` the time
    that a CPU quota took from ours. ``management`` has the octets of ssh and of an NFS root, if they use this device,
    and their share of the traffic.
    """

    connection: int
    end: str
    device: str
    machine: str | None
    window_s: float | None
    traffic_s: float
    processors: tuple[ProcessorLoad, ...] | None
    interrupts: dict[str, tuple[int, ...]] | None
    softirqs: dict[str, tuple[int, ...]] | None
    softnet: dict[str, tuple[int, ...]] | None
    interface: dict[str, int] | None
    nic: dict[str, int] | None
    kernel: tuple[str, ...] | None
    before: HeatRecord | None
    under_load: HeatRecord | None
    after: HeatRecord | None
    restarted: tuple[str, ...]
    from_connection: Rare[int] = None
    management: Rare[ManagementTraffic] = None
    others: Rare[OtherWork] = None
    throttled: Rare[float] = None


class WindowRecord(Record):
    """The time that all flows of one connection (numbered from 1) shared, in seconds after the start of the first flow.

    ``start_skew_s`` is the time between the first and the last start; null if an end does not report it.
    ``start_skew_within_s`` is its uncertainty (95 %).
    """

    connection: int
    start_s: float
    seconds: float
    start_skew_s: float | None
    start_skew_within_s: float | None = None


class HttpRoundRecord(Record):
    """One run of the HTTP client."""

    requests: int
    seconds: float
    requests_per_s: float
    latency_mean_s: float | None
    latency_p99_s: float | None
    failed: dict[str, int]


class HttpRecord(Record):
    """Requests for a cached file: successful requests per second over all rounds. One round is one run of wrk.

    ``failed`` counts failed requests by kind (``not answered with 2xx``, ``timed out``). A kind that did not occur has
    no key.
    """

    size_bytes: int
    connections: int
    requests_per_s: float
    failed: dict[str, int]
    rounds: tuple[HttpRoundRecord, ...]


class StepRecord(Record):
    """One rate of a ladder: the highest sent rate, the goodput, and whether the loss stayed within the bound.

    ``reached`` is false if the sender did not reach its rate.
    """

    rate_bps: float
    goodput_bps: float
    loss: float | None
    connections: int
    reached: bool
    held: bool


class LadderRecord(Record):
    """Increasing rates: ``knee_bps`` is the highest rate that held (all streams together), null if none held."""

    loss: float
    knee_bps: float | None
    steps: tuple[StepRecord, ...]


class KselftestRecord(Record):
    """A selftest of the kernel (``drivers/net:ping.py``): its results, and how many it ``planned`` (null: no plan)."""

    test: str
    planned: int | None
    results: tuple[KtapResult, ...]


@dataclass(frozen=True)
class ConnectionRecord:
    """One connection in one direction: what was fresh for it (``connection``, ``link-up``, ``boot``), and its goodput.

    ``seconds`` is the counted time, after ``warmup_s``; ``slow_start_s`` is the length of a slow start (0: there was
    none). ``excluded`` is the reason why the connection does not count; empty if it counts. The goodput of an excluded
    connection is evidence only. ``level_bps`` is the judged goodput, with little weight on short disturbances (null:
    there is none). ``samples`` are the intervals at the receiver, ``events`` happened during the traffic; their times
    are in seconds after its start. ``number`` counts the connections since the link-up, from 1. ``boot_age_s`` is the
    age of the boot of the device under test at the start of the traffic, ``traffic_before_s`` the traffic over its
    device in this boot before that. These three are null if they are not known; other programs and earlier runs count
    for none of them.
    """

    fresh: str = ""
    goodput_bps: float = 0.0
    seconds: float = 0.0
    warmup_s: float = 0.0
    slow_start_s: float = 0.0
    excluded: str = ""
    level_bps: float | None = None
    events: tuple[Event, ...] = ()
    samples: tuple[Sample, ...] = ()
    number: int | None = None
    boot_age_s: float | None = None
    traffic_before_s: float | None = None


class DirectionRecord(SparseRecord):
    """One direction of one measurement and its verdict.

    ``goodput_bps`` is the goodput of all connections that count. ``interval_bps`` is its interval at the error rate,
    with the noise between connections (null if no limit needed it). ``limit`` is the limit that applied, in bit/s.
    ``oracle`` says in words what sets the physical limit ``oracle_bps``. ``stopped`` is the reason why the measurement
    stopped. ``state`` is the outcome of a suspected regression: ``confirmed``, ``cleared``, ``undecided``, or empty
    without one. Counts (``retransmits`` and so on) are totals of all connections. ``sockets`` is what the kernels
    reported of the connections of a single TCP flow.
    """

    goodput_bps: float
    interval_bps: tuple[float, float] | None = None
    error_rate: float = 0.01
    limit: Threshold | None = None
    oracle_bps: float
    oracle: str = ""
    verdict: Verdict
    reason: str = ""
    stopped: str = ""
    state: str = ""
    connections: tuple[ConnectionRecord, ...] = ()
    extras: tuple[ExtraJudgement, ...] = ()
    baseline: BaselineDifference | None = None
    retransmits: int | None = None
    lost_packets: int | None = None
    packets: int | None = None
    jitter_ms: float | None = None
    streams_bps: tuple[float, ...] = ()
    sockets: Rare[SocketsRecord] = None

    @property
    def limit_text(self) -> str | None:
        """The limit as it was written and, in brackets, where; None without a limit."""
        return None if self.limit is None else str(self.limit)

    @property
    def limit_bps(self) -> float | None:
        """The least goodput that meets the limit; None without a limit."""
        return None if self.limit is None else self.limit.number

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples of all connections, in their order."""
        return tuple(chain.from_iterable(one.samples for one in self.connections))


class FlowRecord(DirectionRecord):
    """One of several simultaneous flows, at its receiver. ``direction`` is the sum to which the flow belongs.

    ``fair_bps`` is its max-min fair rate among all flows. Only a flow that shares its path with no other flow is judged
    by itself. If flows share a NIC, their sum and their evenness are judged.
    """

    name: str
    sender: str
    receiver: str
    direction: str | None
    fair_bps: float
