"""Builds the rows of the summary table: one per judged direction, worst first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.model.record.direction import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.sentences import evenness_note, http_text, ladder_text, limited_by_text, ping_text

# The default traffic. Its name is omitted from rows to keep them short.
USUAL_TRAFFIC = "tcp-P1"
_EXPLAINED = (Verdict.ERROR, Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.MARGINAL)


@dataclass(frozen=True)
class ResultRow:
    """One row of the table. A field is None where nothing was measured or no limit was set.

    ``change`` is relative to the accepted baseline, or to state or build A of a comparison. ``spread`` is the highest
    minus the lowest connection that counts, relative to the goodput. ``per_flow`` means that each flow has the limit,
    not the sum. ``notes`` explain why there is no judgement or why a value is not good. Only the first row of a result
    has ``limited_by`` and ``extra``: results beside goodput, such as round trips or how flows shared the link.
    ``extra`` is also part of ``notes``. ``node_id`` is that of the test for pytest.
    """

    label: str
    test: str
    direction: str
    verdict: Verdict
    goodput_bps: float | None = None
    limit_bps: float | None = None
    oracle_bps: float | None = None
    change: float | None = None
    spread: float | None = None
    notes: tuple[str, ...] = ()
    per_flow: bool = False
    limited_by: str = ""
    extra: tuple[str, ...] = ()
    node_id: str = ""

    @property
    def share(self) -> float | None:
        """Return the share of the physical limit that was reached."""
        return self.goodput_bps / self.oracle_bps if self.goodput_bps is not None and self.oracle_bps else None

    @property
    def margin(self) -> float:
        """Return goodput over limit; infinite without a limit."""
        return self.goodput_bps / self.limit_bps if self.goodput_bps is not None and self.limit_bps else math.inf


def rows_of(results: Sequence[ResultRecord]) -> list[ResultRow]:
    """Return all rows: worst verdict first, then lowest goodput relative to the limit."""
    rows = [row for result in results for row in _rows_of(result)]
    return sorted(_distinct(rows), key=lambda row: (SEVERITY.index(row.verdict), row.margin, row.label, row.direction))


def _rows_of(result: ResultRecord) -> list[ResultRow]:
    combination = result.combination
    traffic = combination.traffic
    label = combination.id if traffic in (USUAL_TRAFFIC, "") else f"{combination.id} {traffic}"
    test = result.test.rpartition("::")[2].partition("[")[0]
    notes = tuple(result.notes)
    rows = [_measured(label, test, name, direction, notes) for name, direction in result.directions.items()]
    compared = result.change or result.comparison
    if compared is not None:
        sides = compared.directions
        rows = [replace(row, change=sides[row.direction].change) if row.direction in sides else row for row in rows]
    rows += [
        _measured(f"{label} {flow.name}", test, flow.direction or "", flow, ())
        for flow in result.flows
        if flow.verdict is not Verdict.PASS
    ]
    if any(flow.limit_bps is not None for flow in result.flows):
        rows = [replace(row, per_flow=row.limit_bps is None) for row in rows]
    if rows:
        rows[0] = replace(rows[0], limited_by=limited_by_text(result))
    extra = [evenness_note(result)] if result.evenness is not None else []
    extra += [ladder_text(result.ladder)] if result.ladder is not None else []
    extra += [http_text(result.http)] if result.http is not None else []
    if rows:
        rows[0] = replace(rows[0], notes=tuple(dict.fromkeys((*rows[0].notes, *extra))), extra=tuple(extra))
    verdict = result.verdict
    if result.ping is not None:
        trips = (ping_text(result.ping),)
        rows.append(ResultRow(label, test, "", verdict, notes=trips, extra=trips))
    elif all(row.verdict is not verdict for row in rows):
        # The verdict that ended the measurement does not belong to a direction.
        rows.append(ResultRow(label, test, "", verdict, notes=(result.message, *notes)))
    return [replace(row, node_id=result.test) for row in rows]


def _measured(label: str, test: str, name: str, direction: DirectionRecord, notes: tuple[str, ...]) -> ResultRow:
    verdict = direction.verdict
    reasons = (direction.reason,) if verdict in _EXPLAINED else ()
    return ResultRow(
        label,
        test,
        name,
        verdict,
        direction.goodput_bps,
        direction.limit_bps,
        direction.oracle_bps,
        direction.baseline.difference if direction.baseline is not None else None,
        _spread(direction),
        () if verdict is Verdict.PASS else (*reasons, *notes),
    )


def _spread(direction: DirectionRecord) -> float | None:
    """Return the spread of the connections that count; None for fewer than two."""
    counted = [one.goodput_bps for one in direction.connections if not one.excluded]
    if len(counted) < 2 or not direction.goodput_bps:
        return None
    return (max(counted) - min(counted)) / direction.goodput_bps


def _distinct(rows: list[ResultRow]) -> list[ResultRow]:
    """Make labels unique: equal ones get the name of their test, and a number if they are still equal."""
    looks = Counter((row.label, row.direction) for row in rows)
    named = [
        replace(row, label=f"{row.label} {row.test}") if looks[row.label, row.direction] > 1 else row for row in rows
    ]
    looks = Counter((row.label, row.direction) for row in named)
    seen: Counter[tuple[str, str]] = Counter()
    numbered = []
    for row in named:
        look = (row.label, row.direction)
        seen[look] += 1
        numbered.append(replace(row, label=f"{row.label} #{seen[look]}") if looks[look] > 1 else row)
    return numbered
