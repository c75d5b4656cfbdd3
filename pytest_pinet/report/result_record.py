"""Builds the record of a result of any kind from its judgement and measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pytest_pinet.judge.attempts import total
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
from pytest_pinet.model.record.change import ChangeRecord, ComparisonRecord
from pytest_pinet.model.record.direction import (
    AttemptRecord,
    BaselineRecord,
    DirectionRecord,
    EventRecord,
    FlowRecord,
    SampleRecord,
)
from pytest_pinet.model.record.evidence import EvidenceRecord
from pytest_pinet.model.record.result import CableRecord, CombinationRecord, EndRecord, ResultRecord
from pytest_pinet.model.record.traffic import HttpRecord, LadderRecord, PingRecord, WindowRecord
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.evidence import evidence_record, limited_by_record
from pytest_pinet.report.traffic import most_apart, sockets_record


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
    """Return the record of a result."""
    skew_s, skew_within_s = most_apart(parts.windows)
    return ResultRecord(
        id=parts.id,
        test=test,
        verdict=parts.verdict,
        message=parts.message,
        combination=combination_record(parts.combination, parts.traffic),
        build=dict(parts.build),
        profile=parts.profile,
        link=None if parts.path is None else str(parts.path),
        versions=dict(parts.versions),
        cpu_percent=dict(parts.cpu_percent),
        notes=tuple(parts.notes),
        started=parts.started.isoformat(),
        seconds=parts.seconds,
        traffic_seconds=parts.traffic_seconds,
        directions={str(way): direction_record(one) for way, one in parts.directions.items()},
        flows=tuple(flow_record(one) for one in parts.flows),
        evenness=parts.evenness,
        cables=tuple(parts.cables),
        files=tuple(parts.files),
        rerun=rerun,
        serials=None if parts.serials is None else dict(parts.serials),
        parameters=parts.parameters,
        evidence=None if parts.evidence is None else _evidence(parts.evidence),
        limited_by=None if parts.limited_by is None else limited_by_record(parts.limited_by),
        tunings=None if parts.tunings is None else tuple(dict.fromkeys(parts.tunings)),
        windows=tuple(parts.windows) or None,
        start_skew_s=skew_s,
        start_skew_within_s=skew_within_s,
        ladder=parts.ladder,
        http=parts.http,
        ping=parts.ping,
        comparison=parts.comparison,
        change=parts.change,
        console_excerpt=parts.console_excerpt,
        finding=parts.finding,
    )


def combination_record(combination: Combination, traffic: str) -> CombinationRecord:
    """Return the combination with its nodes and ports. ``traffic`` is the key of the traffic."""
    return CombinationRecord(
        id=combination.id,
        board=combination.board,
        nic=combination.nic,
        topology=combination.topology.name,
        tuning=combination.tuning.key,
        traffic=traffic,
        dut=str(combination.dut),
        dut_port=str(combination.dut.interface.port),
        peer=str(combination.peer),
        peer_port=str(combination.peer.interface.port),
        ends=tuple(EndRecord(end=str(end), port=str(end.interface.port)) for end in combination.ends),
    )


def direction_record(judged: DirectionJudgement) -> DirectionRecord:
    """Return the record of one direction, or of one of several flows."""
    return DirectionRecord(**_direction(judged))


def flow_record(flow: FlowJudgement) -> FlowRecord:
    """Return the record of one of several flows that ran at once."""
    return FlowRecord(
        **_direction(flow.judged),
        name=flow.name,
        sender=flow.sender,
        receiver=flow.receiver,
        direction=None if flow.way is None else str(flow.way),
        fair_bps=flow.fair.bps,
    )


def _direction(judged: DirectionJudgement) -> dict[str, object]:
    # Jitter and sockets belong to a single flow; a sum of flows has none.
    only = judged.flows[0] if len(judged.flows) == 1 else Flow(Direction.TX, ())
    streams = only.streams if len(judged.flows) == 1 else [flow.goodput for flow in judged.flows]
    return {
        "goodput_bps": judged.goodput.bps,
        "interval_bps": judged.interval,
        "error_rate": judged.error_rate,
        "limit_bps": None if judged.limit is None else judged.limit.bps,
        "rule": judged.rule,
        "oracle_bps": judged.oracle.bps,
        "oracle": judged.because,
        "verdict": judged.verdict,
        "reason": judged.reason,
        "stopped": judged.stopped,
        "state": judged.state,
        "attempts": tuple(_attempt(attempt) for attempt in judged.attempts),
        "extras": judged.extras,
        "baseline": None if judged.baseline is None else _baseline(judged.baseline),
        "retransmits": total([flow.retransmits for flow in judged.flows]),
        "lost_packets": total([flow.lost_packets for flow in judged.flows]),
        "packets": total([flow.packets for flow in judged.flows]),
        "jitter_ms": only.jitter_ms,
        "streams_bps": tuple(stream.bps for stream in streams),
        "samples": tuple(
            SampleRecord(attempt=n, start_s=s.start_s, seconds=s.seconds, bytes=s.bytes, warmup=s.warmup)
            for n, attempt in enumerate(judged.attempts, 1)
            for s in attempt.samples
        ),
        "sockets": sockets_record(only),
    }


def _evidence(attempts: Sequence[Sequence[EndEvidence]]) -> tuple[EvidenceRecord, ...]:
    return tuple(evidence_record(number, end) for number, ends in enumerate(attempts, 1) for end in ends)


def _baseline(found: BaselineDifference) -> BaselineRecord:
    return BaselineRecord(
        figure_bps=found.baseline.bps,
        runs=found.runs,
        date=found.date,
        builds=tuple(found.builds),
        difference=found.difference,
        interval=found.interval,
        change=found.change,
        text=found.text,
    )


def _attempt(attempt: JudgedAttempt) -> AttemptRecord:
    return AttemptRecord(
        fresh=str(attempt.fresh),
        goodput_bps=attempt.goodput.bps,
        seconds=attempt.seconds,
        warmup_s=attempt.warmup_s,
        events=tuple(
            EventRecord(kind=str(e.kind), start_s=e.start_s, seconds=e.seconds, text=e.text) for e in attempt.events
        ),
        excluded=attempt.excluded,
    )
