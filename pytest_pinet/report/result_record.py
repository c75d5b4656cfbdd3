"""Builds the record of a result of any kind from its judgement and measurement."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple

from pytest_pinet.judge.flows import total
from pytest_pinet.judge.level import level_bps
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import EndEvidence, ProcessorLoad
from pytest_pinet.model.judgement import DirectionJudgement, MeasurementJudgement
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.measurement import EventKind, Flow, HttpReport, SocketsRecord, Window
from pytest_pinet.model.record.measurement import (
    ConnectionRecord,
    DirectionRecord,
    EvidenceRecord,
    FlowRecord,
    HttpRecord,
    HttpRoundRecord,
    WindowRecord,
)
from pytest_pinet.model.record.result import CombinationRecord, EndRecord, ResultRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.model.verdict import Verdict

# Only the most frequent interrupts are recorded; the raw files have all.
INTERRUPTS = 6
_ATTRIBUTE = "pinet_results"
# What is counted of a flow, and added up for a direction.
_COUNTS = ("retransmits", "lost_packets", "packets")


def result_record(
    combination: Combination | CombinationRecord, traffic: str, judged: MeasurementJudgement, /, **values: object
) -> ResultRecord:
    """Return a result: the combination, the key of the traffic, the judgement, and ``values`` by the names of its keys.

    ``traffic`` is empty if nothing was measured. ``combination`` is a record if it belongs to no lab. Without
    ``started``, the test did not begin. Raises TypeError for the name of no key, ValueError for a value of a wrong
    type.
    """
    if isinstance(combination, Combination):
        combination = combination_record(combination, traffic)
    always = {
        "id": f"{combination.id}/{traffic}" if traffic else combination.id,
        "message": f"{combination.id} {judged.reason}",
    }
    return ResultRecord.of(
        judged,
        combination=combination,
        directions={str(way): direction_record(one) for way, one in judged.directions.items()},
        flows=[
            FlowRecord.of(one, **dict(direction_record(one.judged)), direction=one.way, fair_bps=one.fair.bps)
            for one in judged.flows
        ],
        **always | values,
    )


def combination_record(combination: Combination, traffic: str) -> CombinationRecord:
    """Return the combination with its nodes and ports. ``traffic`` is the key of the traffic."""
    return CombinationRecord.of(
        combination,
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
    # Jitter and sockets belong to a single flow; a sum of flows has none.
    only = judged.flows[0] if len(judged.flows) == 1 else Flow(Direction.TX, ())
    streams = only.streams if len(judged.flows) == 1 else [flow.goodput for flow in judged.flows]
    return DirectionRecord.of(
        judged,
        goodput_bps=judged.goodput.bps,
        interval_bps=judged.interval,
        oracle_bps=judged.oracle.bps,
        oracle=judged.because,
        connections=[connection_record(one) for one in judged.connections],
        # An exact board has no flows of a traffic tool, so that there are no such counts.
        **{key: total([getattr(flow, key) for flow in judged.flows]) if judged.flows else None for key in _COUNTS},
        jitter_ms=only.jitter_ms,
        streams_bps=[stream.bps for stream in streams],
        sockets=sockets_record(only),
    )


def connection_record(one: Connection) -> ConnectionRecord:
    """Return the record of a connection with the flows of one direction."""
    warmup_s = one.traffic_seconds - one.seconds
    return ConnectionRecord(
        fresh=one.fresh,
        goodput_bps=one.goodput.bps,
        seconds=one.seconds,
        warmup_s=warmup_s,
        slow_start_s=warmup_s if any(event.kind is EventKind.SLOW_START for event in one.events) else 0.0,
        excluded=one.excluded,
        level_bps=level_bps(one),
        events=one.events,
        samples=one.samples,
        number=one.number,
        boot_age_s=one.boot_age_s,
        traffic_before_s=one.traffic_before_s,
    )


def sockets_record(flow: Flow) -> SocketsRecord | None:
    """Return the kernel's data on a flow's sockets; None if it was not read or the sender's kernel did not answer."""
    if flow.sockets is None:
        return None
    own, far = flow.sockets, flow.far_sockets
    received = None if far is None else far.rcvbuf_bytes
    return SocketsRecord(own.connections, own.mss, own.rtt_s, own.cwnd_bytes, own.sndbuf_bytes, received)


def evidence_records(found: Iterable[Sequence[EndEvidence]]) -> list[EvidenceRecord]:
    """Return the records of all ends of each connection."""
    return [evidence_record(number, end) for number, ends in enumerate(found, 1) for end in ends]


def evidence_record(connection: int, found: EndEvidence) -> EvidenceRecord:
    """Return the evidence of one end and connection as plain data."""
    interrupts, interface = found.interrupts, found.interface
    if interrupts is not None:
        interrupts = dict(sorted(interrupts.items(), key=lambda entry: -sum(entry[1]))[:INTERRUPTS])
    if interface is not None:
        interface = {name: count for name, count in interface.items() if count or name == "carrier_changes"}
    processors = found.processors
    if processors is not None:
        processors = tuple(
            ProcessorLoad(one.cpu, *(round(share, 4) for share in astuple(one)[1:])) for one in processors
        )
    return EvidenceRecord.of(
        found,
        connection=connection,
        processors=processors,
        interrupts=interrupts,
        interface=interface,
        from_connection=found.first_connection,
    )


def window_record(connection: int, window: Window) -> WindowRecord:
    """Return the record of the shared time of one connection."""
    return WindowRecord.of(
        window, connection=connection, start_skew_s=window.skew_s, start_skew_within_s=window.skew_within_s
    )


def most_apart(windows: Sequence[WindowRecord]) -> tuple[float | None, float | None]:
    """Return the largest start skew of all connections and its uncertainty; None if no connection has a skew."""
    known = [(skew, one.start_skew_within_s) for one in windows if (skew := one.start_skew_s) is not None]
    return max(known, key=lambda found: (found[0], found[1] or 0.0), default=(None, None))


def http_record(size: int, connections: int, rounds: Sequence[HttpReport]) -> HttpRecord:
    """Return the record of all rounds together. ``rounds`` must not be empty."""
    failed: Counter[str] = Counter()
    for one in rounds:
        failed.update(one.troubles)
    return HttpRecord(
        size_bytes=size,
        connections=connections,
        requests_per_s=sum(one.good for one in rounds) / sum(one.seconds for one in rounds),
        failed=failed,
        rounds=tuple(HttpRoundRecord.of(one, requests_per_s=one.rate, failed=one.troubles) for one in rounds),
    )


def parameters_hash(traffic: Traffic, mtu: int | None, tunings: Iterable[Tuned] = (), scale: float = 1.0) -> str:
    """Return a hash of the measurement parameters that are not part of the id.

    It includes the settings without effect, and the ``scale`` of the link rates.
    """
    without = sorted({tuned.name for tuned in tunings if not tuned.outcome.holds})
    # Omit unset parameters, so that a new parameter of a later version does not cut every trend.
    own = {**asdict(traffic), "mtu": mtu, "without": without or None, "scale": None if scale == 1 else scale}
    # The setup of the path is part of the id.
    facts = {name: value for name, value in own.items() if value not in (None, False) and name != "setup"}
    return _short(facts)


def with_tool(parameters: str, tool: str) -> str:
    """Return the hash for another traffic tool. The hash for our own default tools stays the same."""
    return parameters if tool in (Lab.traffic_tool, Lab.http_tool) else _short({"parameters": parameters, "tool": tool})


def _short(facts: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def attach_results(report: object, results: Iterable[ResultRecord]) -> None:
    """Put results on a report of pytest as plain data, because pytest-xdist sends reports between processes.

    The results replace the results that the report already has.
    """
    setattr(report, _ATTRIBUTE, [result.dump() for result in results])


def attached_results(report: object) -> list[ResultRecord]:
    """Return the results of a report; none for a report of another test."""
    return [ResultRecord.model_validate(one) for one in getattr(report, _ATTRIBUTE, ())]


def attached_verdicts(report: object) -> list[Verdict]:
    """Return the verdicts of the results of a report, without reading the whole results."""
    return [Verdict(one["verdict"]) for one in getattr(report, _ATTRIBUTE, ())]


def skip_reason(report: object) -> str:
    """Return why the test of a report was skipped; empty if the report does not tell."""
    found = getattr(report, "longrepr", None)
    return str(found[2]).removeprefix("Skipped: ") if isinstance(found, tuple) else ""
