"""The shape of ``results.json``, which is also what a worker hands to the controller: plain dicts, lists and numbers.

Rates are bit/s, durations seconds, times ISO 8601 in UTC. A key is absent or None where nothing was measured; absent
is not zero.
"""

from __future__ import annotations

from typing import TypedDict

SCHEMA_VERSION = 1


class SampleRecord(TypedDict):
    """One interval at the receiver."""

    start_s: float
    seconds: float
    bytes: int
    warmup: bool


class DirectionRecord(TypedDict):
    """One direction of one measurement and its verdict."""

    goodput_bps: float
    limit_bps: float | None
    rule: str | None
    oracle_bps: float
    oracle: str
    verdict: str
    reason: str
    retransmits: int | None
    lost_packets: int | None
    packets: int | None
    jitter_ms: float | None
    streams_bps: list[float]
    samples: list[SampleRecord]


class CombinationRecord(TypedDict):
    """What was measured; ``id`` is stable across runs, ``dut`` and ``peer`` name the nodes that stood for it here."""

    id: str
    board: str
    nic: str
    topology: str
    traffic: str
    dut: str
    peer: str


class ResultRecord(TypedDict):
    """One combination and traffic of one test.

    ``id`` is the test's node id plus, where a test measures several traffics, the traffic. ``build`` holds ``uname``,
    ``driver`` and ``firmware`` of the DUT. ``link`` says what was found on the wire (``1000 Mbit/s full, MTU 1500``).
    ``rerun`` is the command that repeats it. ``files`` are paths of raw output, relative to the run folder.
    """

    id: str
    test: str
    verdict: str
    message: str
    combination: CombinationRecord
    build: dict[str, str | None]
    link: str | None
    versions: dict[str, str]
    started: str
    seconds: float
    traffic_seconds: float
    directions: dict[str, DirectionRecord]
    files: list[str]
    rerun: str


class RunRecord(TypedDict):
    """The whole of ``results.json``. ``complete`` is False when the run was interrupted."""

    schema: int
    run: str
    lab: str
    lab_file: str
    pinet: str
    started: str
    finished: str
    complete: bool
    exitstatus: int
    results: list[ResultRecord]
    skipped: list[dict[str, str]]
