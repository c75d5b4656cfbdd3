"""A gate as the history keeps it: the verdict on the change, and each metric with its turns. No I/O.

The measured values of a gate are no part of a trend, because build B may never be accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_pinet.model.record.base import Record
from pytest_pinet.model.record.change import EXACT, ChangeEntryRecord, ChangeHeadRecord, ChangeRecord, ExactChangeRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import GATE, Verdict


class GateTurn(Record):
    """One turn of a build (``A`` or ``B``) with the levels of its connections that count, in bit/s.

    ``trouble`` is the reason why nothing was measured; empty if it was measured.
    """

    number: int
    side: str
    levels_bps: tuple[float, ...] = ()
    trouble: str = ""


class GatedMetric(ChangeEntryRecord):
    """The verdict on one metric of two builds, with what its result says of it.

    ``change`` has an ``interval``; ``tolerance`` is the accepted loss (0.03: 3 %). The values are None where they are
    not known. ``instructions`` are all instructions for each packet or answer, with A and with B; None if they were
    not counted.
    """

    interval: tuple[float, float] | None = None
    tolerance: float | None = None
    turns: tuple[GateTurn, ...] = ()
    instructions: tuple[float, float] | None = None

    @property
    def figure(self) -> str:
        """The ID of the metric; see `gated_figure`."""
        return gated_figure(self)


class StoredGate(ChangeHeadRecord):
    """The verdict on a whole change. Its metrics begin with the worst verdict."""

    entries: tuple[GatedMetric, ...]

    def word(self, one: GatedMetric) -> str:
        """Return the verdict on a metric in a word: ``not slower`` if it may be faster by more than the tolerance.

        Metrics of an exact gate have no interval, because their values have no noise.
        """
        if one.finding:
            return one.finding
        wide = one.interval is None or one.interval[1] > (one.tolerance or 0.0)
        if one.verdict is Verdict.PASS and self.baseline != EXACT and wide:
            return "not slower"
        return GATE[one.verdict].metric


def metric_id(result_id: str, way: str) -> str:
    """Return the ID under which this direction of a result is gated, calibrated and accepted."""
    return result_id if not way or result_id.endswith(f"-{way}") else f"{result_id}-{way}"


def gated_figure(entry: ChangeEntryRecord) -> str:
    """Return the ID of a gated metric; with its lab if runs of several labs were merged."""
    figure = metric_id(entry.id, entry.direction)
    return figure if entry.lab is None else f"{figure} ({entry.lab})"


def gate_of(head: ChangeHeadRecord, results: Sequence[ResultRecord]) -> StoredGate:
    """Return the gate with this head. Metrics whose result is missing have no interval, tolerance or turns."""
    found = {result.key: result for result in results}
    return StoredGate.of(head, entries=[_metric(entry, found.get(entry.result_key)) for entry in head.entries])


def _metric(entry: ChangeEntryRecord, result: ResultRecord | None) -> GatedMetric:
    change, exact = (result.change, result.exact) if result is not None else (None, None)
    if change is None:
        return GatedMetric.of(entry, instructions=instructions_of(exact))
    one = change.directions.get(entry.direction)
    return GatedMetric.of(
        entry,
        interval=one.interval if one is not None else None,
        tolerance=change.tolerance,
        turns=list(_turns(change, entry.direction)),
        instructions=instructions_of(exact),
    )


def instructions_of(exact: ExactChangeRecord | None) -> tuple[float, float] | None:
    """Return all instructions for each packet or answer with A and with B; None if they were not counted."""
    if exact is None or exact.a.instructions is None or exact.b.instructions is None:
        return None
    return exact.a.instructions, exact.b.instructions


def _turns(change: ChangeRecord, way: str) -> Iterator[GateTurn]:
    for turn in change.turns:
        levels = [one.level_bps for one in turn.connections.get(way, ()) if not one.excluded]
        known = tuple(level for level in levels if level is not None)
        yield GateTurn(number=turn.number, side=turn.side, levels_bps=known, trouble=turn.trouble)
