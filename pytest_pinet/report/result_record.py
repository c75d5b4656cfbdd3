"""Builds the record of a result of any kind from its judgement and measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.diagnosis import Diagnosis
from pytest_pinet.model.evidence import EndEvidence
from pytest_pinet.model.judgement import (
    BaselineDifference,
    DirectionJudgement,
    EvennessJudgement,
    FlowJudgement,
    JudgedAttempt,
)
from pytest_pinet.model.measurement import Flow, Path
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.change import ChangeRecord
from pytest_pinet.report.comparison import ComparisonRecord
from pytest_pinet.report.evidence import evidence_record, limited_by_record
from pytest_pinet.report.record import (
    AttemptRecord,
    BaselineRecord,
    CableRecord,
    CombinationRecord,
    DirectionRecord,
    EvennessRecord,
    FlowRecord,
    ResultRecord,
)
from pytest_pinet.report.traffic import (
    HttpRecord,
    LadderRecord,
    PingRecord,
    WindowRecord,
    most_apart,
    sockets_record,
)
from pytest_pinet.report.tunings import tuning_records


@dataclass(frozen=True)
class ResultParts:
    """All parts of one result except the test and the command that repeats it, which only a session knows.

    ``traffic`` is the key of the traffic. The parts from ``serials`` on exist only for some kinds of results; None if
    this result has no such part. ``evidence`` has the counters of all ends for each attempt.
    """

    id: str
    verdict: Verdict
    message: str
    combination: Combination
    traffic: str = ""
    build: Mapping[str, str | None] = field(default_factory=dict)
    profile: str = ""
    path: Path | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    cpu_percent: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    seconds: float = 0.0
    traffic_seconds: float = 0.0
    directions: Mapping[Direction, DirectionJudgement] = field(default_factory=dict)
    flows: Sequence[FlowJudgement] = ()
    evenness: EvennessJudgement | None = None
    cables: Sequence[CableRecord] = ()
    files: Sequence[str] = ()
    serials: Mapping[str, str] | None = None
    parameters: str | None = None
    evidence: Sequence[Sequence[EndEvidence]] | None = None
    limited_by: Diagnosis | None = None
    tunings: Iterable[Tuned] | None = None
    windows: Sequence[WindowRecord] = ()
    ladder: LadderRecord | None = None
    http: HttpRecord | None = None
    ping: PingRecord | None = None
    comparison: ComparisonRecord | None = None
    change: ChangeRecord | None = None
    console_excerpt: str | None = None
    finding: str | None = None


def result_record(parts: ResultParts, test: str = "", rerun: str = "") -> ResultRecord:
    """Return the record of a result as plain data."""
    record: ResultRecord = {
        "id": parts.id,
        "test": test,
        "verdict": parts.verdict.value,
        "message": parts.message,
        "combination": combination_record(parts.combination, parts.traffic),
        "build": dict(parts.build),
        "profile": parts.profile,
        "link": None if parts.path is None else str(parts.path),
        "versions": dict(parts.versions),
        "cpu_percent": dict(parts.cpu_percent),
        "notes": list(parts.notes),
        "started": parts.started.isoformat(),
        "seconds": parts.seconds,
        "traffic_seconds": parts.traffic_seconds,
        "directions": {str(way): direction_record(one) for way, one in parts.directions.items()},
        "flows": [flow_record(one) for one in parts.flows],
        "evenness": None if parts.evenness is None else evenness_record(parts.evenness),
        "cables": list(parts.cables),
        "files": list(parts.files),
        "rerun": rerun,
    }
    _add_rare(record, parts)
    return record


def _add_rare(record: ResultRecord, parts: ResultParts) -> None:
    """Add the parts that not every kind of result has."""
    if parts.serials is not None:
        record["serials"] = dict(parts.serials)
    if parts.parameters is not None:
        record["parameters"] = parts.parameters
    if parts.evidence is not None:
        record["evidence"] = [evidence_record(n, end) for n, ends in enumerate(parts.evidence, 1) for end in ends]
    if parts.limited_by is not None:
        record["limited_by"] = limited_by_record(parts.limited_by)
    if parts.tunings is not None:
        record["tunings"] = tuning_records(parts.tunings)
    if parts.windows:
        record["windows"] = list(parts.windows)
        record["start_skew_s"], record["start_skew_within_s"] = most_apart(parts.windows)
    if parts.ladder is not None:
        record["ladder"] = parts.ladder
    if parts.http is not None:
        record["http"] = parts.http
    if parts.ping is not None:
        record["ping"] = parts.ping
    if parts.comparison is not None:
        record["comparison"] = parts.comparison
    if parts.change is not None:
        record["change"] = parts.change
    if parts.console_excerpt is not None:
        record["console_excerpt"] = parts.console_excerpt
    if parts.finding is not None:
        record["finding"] = parts.finding


def combination_record(combination: Combination, traffic: str) -> CombinationRecord:
    """Return the combination with its nodes and ports. ``traffic`` is the key of the traffic."""
    return {
        "id": combination.id,
        "board": combination.board,
        "nic": combination.nic,
        "topology": combination.topology.name,
        "tuning": combination.tuning.key,
        "traffic": traffic,
        "dut": str(combination.dut),
        "dut_port": str(combination.dut.interface.port),
        "peer": str(combination.peer),
        "peer_port": str(combination.peer.interface.port),
        "ends": [{"end": str(end), "port": str(end.interface.port)} for end in combination.ends],
    }


def direction_record(judged: DirectionJudgement) -> DirectionRecord:
    """Return the record of one direction, or of one of several flows."""
    # Jitter and sockets belong to a single flow; a sum of flows has none.
    only = judged.flows[0] if len(judged.flows) == 1 else Flow(Direction.TX, ())
    streams = only.streams if len(judged.flows) == 1 else [flow.goodput for flow in judged.flows]
    record: DirectionRecord = {
        "goodput_bps": judged.goodput.bps,
        "interval_bps": None if judged.interval is None else list(judged.interval),
        "error_rate": judged.error_rate,
        "limit_bps": None if judged.limit is None else judged.limit.bps,
        "rule": judged.rule,
        "oracle_bps": judged.oracle.bps,
        "oracle": judged.because,
        "verdict": judged.verdict.value,
        "reason": judged.reason,
        "stopped": judged.stopped,
        "state": judged.state,
        "attempts": [_attempt(attempt) for attempt in judged.attempts],
        "extras": [
            {"metric": str(one.metric), "rule": one.rule, "verdict": one.verdict.value, "reason": one.reason}
            for one in judged.extras
        ],
        "baseline": None if judged.baseline is None else _baseline(judged.baseline),
        "retransmits": _total(flow.retransmits for flow in judged.flows),
        "lost_packets": _total(flow.lost_packets for flow in judged.flows),
        "packets": _total(flow.packets for flow in judged.flows),
        "jitter_ms": only.jitter_ms,
        "streams_bps": [stream.bps for stream in streams],
        "samples": [
            {"attempt": n, "start_s": s.start_s, "seconds": s.seconds, "bytes": s.bytes, "warmup": s.warmup}
            for n, attempt in enumerate(judged.attempts, 1)
            for s in attempt.samples
        ],
    }
    sockets = sockets_record(only)
    if sockets is not None:
        record["sockets"] = sockets
    return record


def flow_record(flow: FlowJudgement) -> FlowRecord:
    """Return the record of one of several flows that ran at once."""
    return {
        **direction_record(flow.judged),
        "name": flow.name,
        "sender": flow.sender,
        "receiver": flow.receiver,
        "direction": None if flow.way is None else str(flow.way),
        "fair_bps": flow.fair.bps,
    }


def evenness_record(even: EvennessJudgement) -> EvennessRecord:
    """Return the record of how evenly several flows shared the link."""
    return {
        "least_share": even.least_share,
        "least_flow": even.least_flow,
        "jain": even.jain,
        "rule": even.rule,
        "verdict": even.verdict.value,
        "reason": even.reason,
    }


def _baseline(found: BaselineDifference) -> BaselineRecord:
    return {
        "figure_bps": found.baseline.bps,
        "runs": found.runs,
        "date": found.date,
        "builds": list(found.builds),
        "difference": found.difference,
        "interval": None if found.interval is None else list(found.interval),
        "change": found.change,
        "text": found.text,
    }


def _total(values: Iterable[int | None]) -> int | None:
    """Return the sum, or None if one value was not counted, because a partial sum would be wrong."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _attempt(attempt: JudgedAttempt) -> AttemptRecord:
    return {
        "fresh": str(attempt.fresh),
        "goodput_bps": attempt.goodput.bps,
        "seconds": attempt.seconds,
        "warmup_s": attempt.warmup_s,
        "events": [
            {"kind": str(e.kind), "start_s": e.start_s, "seconds": e.seconds, "text": e.text} for e in attempt.events
        ],
        "excluded": attempt.excluded,
    }
