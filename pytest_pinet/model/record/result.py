"""The records of one result and of a whole run, the content of ``results.json``.

Rates are bit/s, durations seconds, times ISO 8601 in UTC.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pytest_pinet.model.evidence import Diagnosis
from pytest_pinet.model.judgement import EvennessJudgement, FigureJudgement
from pytest_pinet.model.record.base import Beside, Rare, Record, SparseRecord
from pytest_pinet.model.record.change import (
    ChangeHeadRecord,
    ChangeRecord,
    ComparisonRecord,
    ExactChangeRecord,
    RanRecord,
)
from pytest_pinet.model.record.measurement import (
    DirectionRecord,
    EvidenceRecord,
    FlowRecord,
    HttpRecord,
    KselftestRecord,
    LadderRecord,
    WindowRecord,
)
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.model.verdict import Verdict


class CableRecord(Record):
    """What both sides of one cable counted during a measurement. A value is null if this side does not count it.

    ``node`` has ``rx_bytes``, ``tx_bytes`` and the errors and drops of the device. ``switch`` has ``rx_octets``,
    ``tx_octets``, errors and discards of the port (``rx``: received by the switch); null if the switch does not count.
    """

    end: str
    port: str
    node: dict[str, int | None]
    switch: dict[str, int | None] | None


class EndRecord(Record):
    """One end of a combination: ``node:interface`` and the switch port (``sw1/p4``) of its cable."""

    end: str
    port: str


class CombinationRecord(Record):
    """What was measured. ``id`` is equal in every run.

    ``tuning`` is the requested tuning (``rps=all+mtu=9000``); empty without one. ``dut`` and ``peer`` are the
    ``node:interface`` of this run, ``dut_port`` and ``peer_port`` the switch ports of their cables. ``ends`` has all
    ends in the order of the topology.
    """

    id: str
    board: str = ""
    nic: str = ""
    topology: str = ""
    tuning: str = ""
    traffic: str = ""
    dut: str = ""
    dut_port: str = ""
    peer: str = ""
    peer_port: str = ""
    ends: tuple[EndRecord, ...] = ()


class SecondBoardRecord(Record):
    """What another board of the same kind says about a failure: its ``end``, its verdict, and a sentence.

    ``fail`` confirms the failure. With a good verdict the boards disagree, which says something about the first board.
    """

    end: str
    verdict: Verdict
    goodput_bps: dict[str, float] = Field(default_factory=dict)
    text: str = ""


class ResultRecord(SparseRecord):
    """One combination and traffic of one test.

    ``id`` names what was measured. It is equal in every run and unique for each combination, traffic and direction
    (``pi4b:onboard/pair/tcp-P1-tx``, ``pi4b:onboard/pair/tcp-P1-bidir``). ``test`` is the node id of the test. Without
    a measured value (verdict ``error`` or ``invalid``, no ``directions``), ``id`` is that of the combination alone
    (``pi4b:onboard/pair``) and ``combination.traffic`` is empty.

    ``profile`` is the time budget of the measurement. ``build`` has ``uname``, ``driver`` and ``firmware`` of the
    device under test. ``link`` is the state of the link (``1000 Mbit/s full, MTU 1500``). ``tool`` names the traffic
    tool; ``versions`` (of this tool) and ``cpu_percent`` (its use of one core) are by end, ``dut`` and ``peer``.
    ``notes`` are sentences that readers of the values must know. ``rerun`` is the command that repeats the test.
    ``files`` are paths of raw output, relative to the run folder. ``started`` is the time of the start.

    With several simultaneous flows, ``directions`` has the sums of what the devices under test sent and received,
    ``flows`` each flow, and ``evenness`` how they shared the link. With one flow, ``flows`` is empty and ``evenness``
    null. ``windows`` is the time that all flows of a connection shared, ``start_skew_s`` the largest time between their
    starts and ``start_skew_within_s`` its uncertainty (95 %).

    Only some results have the following keys. ``serials`` are the serial numbers of the boards, by end. ``settings``
    has for ``dut``, ``peer`` (and ``end 2`` and so on) the name of the ``end`` and its settings, read before the
    traffic: command line, kernel, driver, firmware, governor, offloads, rings, coalescing, EEE, pause, queues, IRQ
    affinity, queueing disciplines and sysctls; of Wi-Fi also signal, channel and power saving, if the end has ``iw``.
    ``parameters`` is a hash of how it was measured (duration of connections, MTU and so on); values with different
    hashes are no trend. ``evidence`` is what each end counted in each connection, ``limited_by`` what limited the
    goodput, ``tunings`` the outcome of each setting. ``http`` and ``ladder`` belong to such traffic. A ``kselftest`` of
    the kernel has no goodput and no ``directions``. ``figures`` are values with another unit, by their names.
    ``comparison`` belongs to two states that were measured alternately: the values come from state B, and the limits
    from state A. ``change`` belongs to two builds that were measured alternately: the values come from build B.
    ``exact`` belongs to two builds on an exact board; the intervals of ``change`` then have no width. ``ran`` is what
    ran with each build under test, ``A`` and ``B``. ``console_excerpt`` has the console lines around the line that
    ended the test, each after its time. ``finding`` is the failure of a build that could not be measured (``panic`` and
    so on). ``layout`` names the directions, values and costs that are slower with build B although only the order and
    the addresses of the code differ. ``facts`` are machine facts of other plugins (hook
    ``pytest_pinet_machine_facts``). ``scale`` is the share of its rate at which the link ran, if less than 1: values
    are converted to the full rate, ``evidence`` and ``cables`` are not. ``boot`` names the boot of the device under
    test and ``link_up`` its link-up in that boot: values of one boot or link-up resemble each other. ``died`` is true
    for a test that ended without a result of its own: its process died, a fixture or a time limit ended it, or the run
    ended before it (then ``started`` is empty). ``second_board`` is what another board of this kind had after this
    result failed. ``lab`` is the lab of a result if runs of several labs were merged.
    """

    id: str
    test: str = ""
    verdict: Verdict
    message: str = ""
    combination: CombinationRecord
    build: dict[str, str | None] = Field(default_factory=dict)
    profile: str = ""
    link: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    cpu_percent: dict[str, float] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    started: str = ""
    seconds: float = 0.0
    traffic_seconds: float = 0.0
    directions: dict[str, DirectionRecord] = Field(default_factory=dict)
    flows: tuple[FlowRecord, ...] = ()
    evenness: EvennessJudgement | None = None
    cables: tuple[CableRecord, ...] = ()
    files: tuple[str, ...] = ()
    rerun: str = ""
    serials: Rare[dict[str, str]] = None
    settings: Rare[dict[str, dict[str, str]]] = None
    second_board: Rare[SecondBoardRecord] = None
    parameters: Rare[str] = None
    evidence: Rare[tuple[EvidenceRecord, ...]] = None
    limited_by: Rare[Diagnosis] = None
    tunings: Rare[tuple[Tuned, ...]] = None
    windows: Rare[tuple[WindowRecord, ...]] = None
    start_skew_s: Annotated[float | None, Beside("windows")] = None
    start_skew_within_s: Annotated[float | None, Beside("windows")] = None
    ladder: Rare[LadderRecord] = None
    http: Rare[HttpRecord] = None
    kselftest: Rare[KselftestRecord] = None
    figures: Rare[dict[str, FigureJudgement]] = None
    comparison: Rare[ComparisonRecord] = None
    change: Rare[ChangeRecord] = None
    exact: Rare[ExactChangeRecord] = None
    ran: Rare[dict[str, RanRecord]] = None
    console_excerpt: Rare[str] = None
    finding: Rare[str] = None
    layout: Rare[tuple[str, ...]] = None
    facts: Rare[dict[str, str | int | float | bool]] = None
    tool: Rare[str] = None
    scale: Rare[float] = None
    boot: Rare[str] = None
    link_up: Rare[str] = None
    died: Rare[bool] = None
    lab: Rare[str] = None

    @property
    def key(self) -> tuple[str | None, str]:
        """The lab and the id: results of merged labs can have the same id."""
        return self.lab, self.id

    @property
    def test_name(self) -> str:
        """The name of the test, without its file."""
        return self.test.rpartition("::")[2]

    @property
    def not_begun(self) -> bool:
        """Whether the run ended before this test."""
        return bool(self.died) and not self.started

    @property
    def has_no_rate(self) -> bool:
        """Whether the result has no goodput by its nature: values, and selftests of the kernel."""
        return not self.directions and (self.kselftest is not None or self.figures is not None)


SCHEMA_VERSION = 1


class SkippedRecord(Record):
    """A combination that was requested but not measured, and the reason."""

    id: str
    reason: str


class MergedRunRecord(Record):
    """One of several runs that were joined: its run and session, and its lab."""

    run: str
    lab: str
    session: str


class RunRecord(SparseRecord):
    """The whole of ``results.json``.

    ``figures`` says what the values are: ``measured`` on hardware, or ``emulated`` (the lab sets the rates of its
    links). ``complete`` is false if the run was interrupted. ``session`` is unique for each run. Only some runs have
    the following keys. ``meaning`` says what emulated values mean: the lab and how it works. ``change`` is the answer
    on a build under test. ``scale`` is the share of their rate at which the lab's links ran, if less than 1.
    ``shards`` is the number of runs of which this run is one, and ``error_rate`` the rate for all of them together
    (``--pinet-shards``). ``merged`` has the runs that ``pinet merge`` joined to this one.
    """

    schema_version: int = Field(alias="schema")
    run: str
    lab: str = ""
    lab_file: str = ""
    figures: str = "measured"
    pinet: str = ""
    started: str
    finished: str = ""
    complete: bool = True
    exitstatus: int = 0
    results: tuple[ResultRecord, ...]
    skipped: tuple[SkippedRecord, ...] = ()
    session: Rare[str] = None
    meaning: Rare[str] = None
    change: Rare[ChangeHeadRecord] = None
    scale: Rare[float] = None
    shards: Rare[int] = None
    error_rate: Annotated[float | None, Beside("shards")] = None
    merged: Rare[tuple[MergedRunRecord, ...]] = None
