"""The record types of ``results.json``, which workers also send to the controller: plain dicts, lists and numbers.

Rates are bit/s, durations seconds, times ISO 8601 in UTC. A key is absent or None if nothing was measured; absent is
not zero.
"""

from __future__ import annotations

from typing import TypedDict

from pytest_pinet.report.change import ChangeHeadRecord, ChangeRecord
from pytest_pinet.report.comparison import ComparisonRecord
from pytest_pinet.report.evidence import EvidenceRecord, LimitedByRecord
from pytest_pinet.report.traffic import (
    HttpRecord,
    LadderRecord,
    PingRecord,
    SocketsRecord,
    WindowRecord,
)
from pytest_pinet.report.tunings import TuningRecord

SCHEMA_VERSION = 1


class SampleRecord(TypedDict):
    """One interval at the receiver; ``attempt`` counts from 1."""

    attempt: int
    start_s: float
    seconds: float
    bytes: int
    warmup: bool


class EventRecord(TypedDict):
    """Something that happened while traffic ran: seconds since the start of the attempt's traffic, and how long."""

    kind: str
    start_s: float
    seconds: float
    text: str


class AttemptRecord(TypedDict):
    """One connection: what was fresh for it (``connection``, ``link-up``), its figure, and what happened meanwhile.

    ``seconds`` are counted, after ``warmup_s``. ``excluded`` says why it stands in no figure (empty: it does);
    ``goodput_bps`` is then what had arrived, as evidence.
    """

    fresh: str
    goodput_bps: float
    seconds: float
    warmup_s: float
    events: list[EventRecord]
    excluded: str


class ExtraRecord(TypedDict):
    """A limit on what traffic cost beside its rate: ``retransmits``, ``loss``, ``latency`` or ``cpu``.

    ``skipped``: nobody told the value, which is not judged then.
    """

    metric: str
    rule: str
    verdict: str
    reason: str


class BaselineRecord(TypedDict):
    """The accepted earlier result of a figure, and how the connections of this run differ from its runs.

    ``runs`` is how many stand behind it: with too few it gates nothing. ``difference`` is relative (-0.03: 3 % slower),
    with its ``interval`` at the error rate; both None where there is too little to tell. ``change`` is ``slower``,
    ``faster``, ``same``, ``inconclusive`` or ``not gated``; ``text`` says all of it.
    """

    figure_bps: float
    runs: int
    date: str
    builds: list[str]
    difference: float | None
    interval: list[float] | None
    change: str
    text: str


class ConnectionsRecord(TypedDict, total=False):
    """What the kernels said of the connections of one TCP flow, where they were asked."""

    sockets: SocketsRecord


class DirectionRecord(ConnectionsRecord):
    """One direction of one measurement and its verdict.

    ``goodput_bps`` is that of all attempts which count; ``interval_bps`` where it lies at the set error rate, with the
    noise between connections (None where no limit asked for it). ``rule`` is the limit as it was written and, in
    brackets, where (``94% of 941.5 Mbit/s (lab/virtual.yaml:88)``). ``oracle`` says in words what sets the physical
    limit ``oracle_bps``. ``stopped`` says why traffic stopped; ``state`` what came of a suspicion: ``confirmed``,
    ``cleared``, ``undecided``, or empty when there was none. Counts (``retransmits`` and so on) are those of all
    attempts.
    """

    goodput_bps: float
    interval_bps: list[float] | None
    error_rate: float
    limit_bps: float | None
    rule: str | None
    oracle_bps: float
    oracle: str
    verdict: str
    reason: str
    stopped: str
    state: str
    attempts: list[AttemptRecord]
    extras: list[ExtraRecord]
    baseline: BaselineRecord | None
    retransmits: int | None
    lost_packets: int | None
    packets: int | None
    jitter_ms: float | None
    streams_bps: list[float]
    samples: list[SampleRecord]


class FlowRecord(DirectionRecord):
    """One of several flows that ran at once, seen by its receiver; ``direction`` is the sum that it is part of.

    ``fair_bps`` is its max-min fair rate among all flows. A ``verdict`` of its own stands only where it has its path to
    itself; where flows share a NIC, the sum is judged, and their evenness.
    """

    name: str
    sender: str
    receiver: str
    direction: str | None
    fair_bps: float


class EvennessRecord(TypedDict):
    """How evenly several flows shared what they had: the least part of its fair rate that one got, and Jain's index."""

    least_share: float
    least_flow: str
    jain: float
    rule: str | None
    verdict: str
    reason: str


class CableRecord(TypedDict):
    """What both sides of one cable counted during a measurement; None is what a side does not count.

    ``node`` has ``rx_bytes``, ``tx_bytes`` and the errors and drops of the device; ``switch`` has ``rx_octets``,
    ``tx_octets``, errors and discards of the port (``rx`` is what it received), or is None.
    """

    end: str
    port: str
    node: dict[str, int | None]
    switch: dict[str, int | None] | None


class EndRecord(TypedDict):
    """One end of a combination: ``node:interface`` and the switch port (``sw1/p4``) that it is cabled to."""

    end: str
    port: str


class TunedRecord(TypedDict, total=False):
    """``tuning`` is what was asked for (``rps=all+mtu=9000``), empty where nothing was; the first files lack it."""

    tuning: str


class CombinationRecord(TunedRecord):
    """What was measured; ``id`` is stable across runs.

    ``dut`` and ``peer`` are the ``node:interface`` that stood for it in this run, ``dut_port`` and ``peer_port`` the
    switch ports that they are cabled to. ``ends`` are all of them, numbered as in the topology.
    """

    id: str
    board: str
    nic: str
    topology: str
    traffic: str
    dut: str
    dut_port: str
    peer: str
    peer_port: str
    ends: list[EndRecord]


class RareRecord(TypedDict, total=False):
    """What not every result has.

    The console around the line that ended a test; the comparison of two states; where figures were measured, what
    limited them, what each end counted in each attempt, and what came of each setting of their tuning.

    Where several flows ran at once, ``windows`` is the time that they shared in each attempt, and ``start_skew_s`` the
    most by which they began apart, give or take ``start_skew_within_s`` (95 %). ``http``, ``ping`` and ``ladder`` are
    there for such traffic; pings have no ``directions``, since they have no goodput.

    ``serials`` are those of the boards, by end, where a board tells its own. ``parameters`` is a hash of how it was
    measured (length of connections, MTU and the like): figures with different ones are no trend.

    ``scale`` is the share of its rate at which the link ran, where that is less than 1: figures are told at full rate,
    ``evidence`` and ``cables`` as they were counted. ``change`` has both builds where two were measured in turn:
    figures are then those of B. ``finding`` is what a build did instead of being measured (``panic`` and so on).
    ``facts`` is what other plugins know of the machines (hook ``pytest_pinet_machine_facts``).
    """

    change: ChangeRecord
    finding: str
    scale: float
    console_excerpt: str
    comparison: ComparisonRecord
    windows: list[WindowRecord]
    start_skew_s: float | None
    start_skew_within_s: float | None
    http: HttpRecord
    ping: PingRecord
    ladder: LadderRecord
    limited_by: LimitedByRecord
    evidence: list[EvidenceRecord]
    tunings: list[TuningRecord]
    serials: dict[str, str]
    parameters: str
    tool: str
    facts: dict[str, str | int | float | bool]


class ResultRecord(RareRecord):
    """One combination and traffic of one test.

    ``id`` says what was measured, is stable across runs and unique for each combination, traffic and direction
    (``pi4b:onboard/pair/tcp-P1-tx``, ``pi4b:onboard/pair/tcp-P1-bidir``); ``test`` is the node id of the test that
    measured it. Where no figure came about (verdict ``error`` or ``invalid``, no ``directions``), ``id`` is that of the
    combination alone (``pi4b:onboard/pair``) and ``combination.traffic`` is empty.

    ``profile`` is what traffic was allowed to cost. ``build`` holds ``uname``, ``driver`` and ``firmware`` of the DUT.
    ``link`` says what was found on the wire (``1000 Mbit/s full, MTU 1500``). ``tool`` names the
    traffic tool, ``versions`` (of this tool) and ``cpu_percent`` (what it used of one core) are by end, ``dut`` and
    ``peer``. ``notes`` are sentences that a reader of the figures must know. ``rerun`` is the command that repeats it.
    ``files`` are paths of raw output, relative to the run folder. ``console_excerpt`` is there when a console ended the
    test: the lines around the one that ``message`` names, each after its time. ``comparison`` is there when two states
    were measured in turn: the figures are then those of state B, and the limits come from A.

    Where several flows ran at once, ``directions`` are the sums of what the devices under test sent and received,
    ``flows`` each flow, and ``evenness`` how they shared; with one flow, ``flows`` is empty and ``evenness`` None.
    """

    id: str
    test: str
    verdict: str
    message: str
    combination: CombinationRecord
    build: dict[str, str | None]
    profile: str
    link: str | None
    versions: dict[str, str]
    cpu_percent: dict[str, float]
    notes: list[str]
    started: str
    seconds: float
    traffic_seconds: float
    directions: dict[str, DirectionRecord]
    flows: list[FlowRecord]
    evenness: EvennessRecord | None
    cables: list[CableRecord]
    files: list[str]
    rerun: str


class SkippedRecord(TypedDict):
    """A combination that was asked for and not measured, and why."""

    id: str
    reason: str


class RareRunRecord(TypedDict, total=False):
    """What some files lack: ``session``, which no other run has; ``change``, the answer on a build under test.

    ``scale`` is the share of their rate at which the lab's links ran, where that is less than 1. ``meaning`` says what
    emulated figures mean: the lab and what it does.
    """

    session: str
    change: ChangeHeadRecord
    scale: float
    meaning: str


class RunRecord(RareRunRecord):
    """The whole of ``results.json``.

    ``figures`` says what they are: ``measured`` on hardware, or ``emulated`` (the lab sets the rates of its links).
    ``complete`` is False when the run was interrupted.
    """

    schema: int
    run: str
    lab: str
    lab_file: str
    figures: str
    pinet: str
    started: str
    finished: str
    complete: bool
    exitstatus: int
    results: list[ResultRecord]
    skipped: list[SkippedRecord]
