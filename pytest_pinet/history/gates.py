"""A gate as the history keeps it: two builds, the answer on the change, and each metric with its turns. No I/O.

The measured values of a gate are no part of a trend, because build B may never be accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_pinet.model.record.change import (
    EXACT,
    BuildRecord,
    ChangeEntryRecord,
    ChangeHeadRecord,
    ChangeRecord,
    ExactChangeRecord,
)
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.model.verdict import ChangeVerdict, MetricOutcome


@dataclass(frozen=True)
class GateBuild:
    """A build as it was requested. ``key`` is a hash of all its parts; empty for the board's own build.

    ``files`` has the SHA-256 of each file, by its name on the board. ``settings`` are its parameters of kernel and
    modules, its settings of config.txt, its sysctls and its RPS.
    """

    name: str
    key: str = ""
    release: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class GateTurn:
    """One turn of a build (``A`` or ``B``) with the levels of its connections that count, in bit/s.

    ``trouble`` is the reason why nothing was measured; empty if it was measured.
    """

    number: int
    side: str
    levels_bps: tuple[float, ...] = ()
    trouble: str = ""


@dataclass(frozen=True)
class GatedMetric:
    """The outcome of one metric in both builds.

    ``change`` is B over A minus one with its ``interval``; ``tolerance`` is the accepted loss (0.03: 3 %). The values
    are None where they are not known. ``finding`` is the kind of a failure of build B, ``suspect`` the first
    difference that may explain the change, ``text`` a sentence. ``instructions`` are all instructions for each packet
    or answer, with A and with B; None if they were not counted.
    """

    figure: str
    outcome: MetricOutcome
    a_bps: float | None = None
    b_bps: float | None = None
    change: float | None = None
    interval: tuple[float, float] | None = None
    tolerance: float | None = None
    finding: str = ""
    suspect: str = ""
    text: str = ""
    turns: tuple[GateTurn, ...] = ()
    instructions: tuple[float, float] | None = None


@dataclass(frozen=True)
class StoredGate:
    """A whole gate: its ``answer``, and ``exit``, the exit code.

    ``baseline`` is ``interleaved``, ``exact`` or ``accepted``; ``turns`` counts all turns. ``metrics`` begin with the
    worst outcome.
    """

    a: GateBuild
    b: GateBuild
    baseline: str
    answer: ChangeVerdict
    exit: int
    sentence: str
    turns: int
    metrics: tuple[GatedMetric, ...] = ()

    def word(self, one: GatedMetric) -> str:
        """Return the outcome of a metric in a word: ``not slower`` if it may be faster by more than the tolerance.

        Metrics of an exact gate have no interval, because their values have no noise.
        """
        if one.finding or one.outcome != MetricOutcome.UNCHANGED or self.baseline == EXACT:
            return one.finding or one.outcome
        return "not slower" if one.interval is None or one.interval[1] > (one.tolerance or 0.0) else one.outcome


def metric_id(result_id: str, way: str) -> str:
    """Return the ID under which this direction of a result is gated, calibrated and accepted."""
    return result_id if not way or result_id.endswith(f"-{way}") else f"{result_id}-{way}"


def gated_figure(entry: ChangeEntryRecord) -> str:
    """Return the ID of a gated metric; with its lab if runs of several labs were merged."""
    figure = metric_id(entry.id, entry.direction)
    return figure if entry.lab is None else f"{figure} ({entry.lab})"


def gate_of(record: RunRecord) -> StoredGate | None:
    """Return the gate of a run; None if the run gated no change."""
    return None if record.change is None else gate_of_head(record.change, record.results)


def gate_of_head(head: ChangeHeadRecord, results: Sequence[ResultRecord]) -> StoredGate:
    """Return the gate with this head. Metrics whose result is missing have no interval, tolerance or turns."""
    found = {result.key: result for result in results}
    metrics = tuple(_metric(entry, found.get(entry.result_key)) for entry in head.entries)
    return StoredGate(
        _build(head.a), _build(head.b), head.baseline, head.answer, head.exit, head.sentence, head.turns, metrics
    )


def _build(build: BuildRecord) -> GateBuild:
    files = {file.name: file.sha256 for file in build.files}
    return GateBuild(build.name, build.key, build.release or "", files, build.settings)


def _metric(entry: ChangeEntryRecord, result: ResultRecord | None) -> GatedMetric:
    change, exact = (result.change, result.exact) if result is not None else (None, None)
    one = change.directions.get(entry.direction) if change is not None else None
    return GatedMetric(
        gated_figure(entry),
        entry.outcome,
        entry.a_bps,
        entry.b_bps,
        entry.change,
        one.interval if one is not None else None,
        change.tolerance if change is not None else None,
        entry.finding,
        entry.suspect,
        entry.text,
        tuple(_turns(change, entry.direction)) if change is not None else (),
        instructions_of(exact),
    )


def instructions_of(exact: ExactChangeRecord | None) -> tuple[float, float] | None:
    """Return all instructions for each packet or answer with A and with B; None if they were not counted."""
    if exact is None or exact.a.instructions is None or exact.b.instructions is None:
        return None
    return exact.a.instructions, exact.b.instructions


def _turns(change: ChangeRecord, way: str) -> Iterator[GateTurn]:
    for turn in change.turns:
        levels = [one.level_bps.get(way) for one in change.connections if one.turn == turn.number and not one.excluded]
        known = tuple(level for level in levels if level is not None)
        yield GateTurn(turn.number, turn.side, known, turn.trouble)
