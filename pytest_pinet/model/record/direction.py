"""The records of one direction of a measurement, of one flow, and of their connections.

Rates are bit/s, durations seconds. A value is null if it was not measured; null is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from pytest_pinet.model.judgement import BaselineDifference, ExtraJudgement
from pytest_pinet.model.limits import Threshold
from pytest_pinet.model.measurement import Event, Sample
from pytest_pinet.model.record.base import Rare, SparseRecord
from pytest_pinet.model.record.traffic import SocketsRecord
from pytest_pinet.model.verdict import Verdict


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
