"""The records of one direction of a measurement, of one flow, and of their attempts.

Rates are bit/s, durations seconds. A value is null if it was not measured; null is not zero.
"""

from __future__ import annotations

from pytest_pinet.model.judgement import ExtraJudgement
from pytest_pinet.model.limits import Threshold
from pytest_pinet.model.record.base import Rare, Record, SparseRecord
from pytest_pinet.model.record.traffic import SocketsRecord
from pytest_pinet.model.verdict import Verdict


class SampleRecord(Record):
    """One interval at the receiver. ``attempt`` counts from 1."""

    attempt: int = 1
    start_s: float = 0.0
    seconds: float
    bytes: int
    warmup: bool = False


class EventRecord(Record):
    """An event during the traffic: its start (seconds after the start of the attempt's traffic) and its duration."""

    kind: str
    start_s: float
    seconds: float
    text: str


class AttemptRecord(Record):
    """One connection: what was fresh for it (``connection``, ``link-up``), its goodput, and the events meanwhile.

    ``seconds`` is the counted time, after ``warmup_s``. ``excluded`` is the reason why the connection does not count;
    empty if it counts. The goodput of an excluded connection is evidence only.
    """

    fresh: str = ""
    goodput_bps: float
    seconds: float
    warmup_s: float = 0.0
    events: tuple[EventRecord, ...] = ()
    excluded: str = ""


class BaselineRecord(Record):
    """The accepted baseline of a metric, and its difference to the connections of this run.

    ``runs`` is the number of runs behind the baseline; with too few runs it does not gate. ``difference`` is relative
    (-0.03: 3 % slower), ``interval`` its interval at the error rate; both are null if there are too few values.
    ``verdict`` is ``skipped`` if the baseline does not gate. ``text`` says all of this.
    """

    figure_bps: float
    runs: int
    date: str
    builds: tuple[str, ...]
    difference: float | None
    interval: tuple[float, float] | None
    verdict: Verdict
    text: str


class DirectionRecord(SparseRecord):
    """One direction of one measurement and its verdict.

    ``goodput_bps`` is the goodput of all attempts that count. ``interval_bps`` is its interval at the error rate, with
    the noise between connections (null if no limit needed it). ``limit`` is the limit that applied, in bit/s.
    ``oracle`` says in words what sets the physical limit ``oracle_bps``. ``stopped`` is the reason why the measurement
    stopped. ``state`` is the outcome of a suspected regression: ``confirmed``, ``cleared``, ``undecided``, or empty
    without one. Counts (``retransmits`` and so on) are totals of all attempts. ``sockets`` is what the kernels reported
    of the connections of a single TCP flow.
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
    attempts: tuple[AttemptRecord, ...] = ()
    extras: tuple[ExtraJudgement, ...] = ()
    baseline: BaselineRecord | None = None
    retransmits: int | None = None
    lost_packets: int | None = None
    packets: int | None = None
    jitter_ms: float | None = None
    streams_bps: tuple[float, ...] = ()
    samples: tuple[SampleRecord, ...] = ()
    sockets: Rare[SocketsRecord] = None

    @property
    def limit_text(self) -> str | None:
        """The limit as it was written and, in brackets, where; None without a limit."""
        return None if self.limit is None else str(self.limit)

    @property
    def limit_bps(self) -> float | None:
        """The least goodput that meets the limit; None without a limit."""
        return None if self.limit is None else self.limit.number


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
