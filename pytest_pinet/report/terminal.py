"""Formats the summary at the end of a run: a table of 80 columns, worst first, and what was not measured.

Other reports have the same rows: one for each judged direction.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.execution.grouping import grouped, occurrences
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.quantities import unit_of
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord, SkippedRecord
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict
from pytest_pinet.report.sentences import (
    evenness_note,
    ineffective,
    limited_by_text,
    of_interest,
    traffic_sentences,
)
from pytest_pinet.report.text_wrap import (
    WIDTH,
    copyable,
    first_sentence,
    plain,
    rate,
    signed_percent,
    text_table,
    wrap,
    wrap_each,
)

# The default traffic. Its name is omitted from rows to keep them short.
USUAL_TRAFFIC = "tcp-P1"
_EXPLAINED = (Verdict.ERROR, Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.MARGINAL)
# The words for verdicts. Bad verdicts are in capitals, so that they are visible without colours.
WORDS = {one: one.value if one in GOOD or one is Verdict.SKIPPED else one.value.upper() for one in Verdict}
COLORS = {
    Verdict.PASS: "32",
    Verdict.IMPROVED: "36",
    Verdict.MARGINAL: "33",
    Verdict.INCONCLUSIVE: "1;33",
    Verdict.INVALID: "1;33",
    Verdict.FAIL: "1;31",
    Verdict.ERROR: "1;35",
    Verdict.SKIPPED: "2",
}
_NOTE_LINES = 3


@dataclass(frozen=True)
class ResultRow:
    """One row of the table. A field is None where nothing was measured or no limit was set.

    ``change`` is relative to the accepted baseline, or to state or build A of a comparison. ``spread`` is the highest
    minus the lowest connection that counts, relative to the goodput. ``per_flow`` means that each flow has the limit,
    not the sum. ``notes`` explain why there is no judgement or why a value is not good. Only the first row of a result
    has ``limited_by`` and ``extra``: results beside goodput, such as round trips or how flows shared the link.
    ``extra`` is also part of ``notes``. ``node_id`` is that of the test for pytest. A row of a value has its value and
    its limit in words, in ``figure``.
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
    figure: tuple[str, str] | None = None

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
        extra = [*([evenness_note(result)] if result.evenness is not None else []), *traffic_sentences(result)]
        of_first = tuple(dict.fromkeys((*rows[0].notes, *extra)))
        rows[0] = replace(rows[0], notes=of_first, limited_by=limited_by_text(result), extra=tuple(extra))
    verdict = result.verdict
    # A cost of traffic is shown only if it fails.
    shown = {n: one for n, one in of_interest(result.figures or {}).items() if not rows or one.verdict is Verdict.FAIL}
    if shown:
        rows += [_figure_row(label, test, name, one, notes) for name, one in shown.items()]
    elif all(row.verdict is not verdict for row in rows):
        # The verdict that ended the measurement does not belong to a direction.
        rows.append(ResultRow(label, test, "", verdict, notes=(result.message, *notes)))
    return [replace(row, node_id=result.test) for row in rows]


def _figure_row(label: str, test: str, name: str, one: FigureJudgement, notes: tuple[str, ...]) -> ResultRow:
    # The key of some traffic begins with the name of its only value.
    label = label if f" {name}-" in label else f"{label}-{name}"
    value = "-" if one.value is None else one.kind(name).show(one.value)
    texts = value, "none" if one.limit is None else one.kind(name).show(one.limit.number)
    spread, shown = _spread(one.values, one.value), _shown(one, notes)
    return ResultRow(label, test, "", one.verdict, spread=spread, notes=shown, figure=texts)


def _measured(label: str, test: str, name: str, direction: DirectionRecord, notes: tuple[str, ...]) -> ResultRow:
    counted = [one.goodput_bps for one in direction.connections if not one.excluded]
    return ResultRow(
        label,
        test,
        name,
        direction.verdict,
        direction.goodput_bps,
        direction.limit_bps,
        direction.oracle_bps,
        direction.baseline.difference if direction.baseline is not None else None,
        _spread(counted, direction.goodput_bps),
        _shown(direction, notes),
    )


def _spread(values: Sequence[float], of: float | None) -> float | None:
    """Return the spread of values relative to their result; None for fewer than two."""
    return (max(values) - min(values)) / of if len(values) > 1 and of else None


def _shown(one: DirectionRecord | FigureJudgement, notes: tuple[str, ...]) -> tuple[str, ...]:
    reasons = (one.reason,) if one.verdict in _EXPLAINED else ()
    return () if one.verdict is Verdict.PASS else (*reasons, *notes)


def _distinct(rows: list[ResultRow]) -> list[ResultRow]:
    """Make labels unique: equal ones get the name of their test, and a number if they are still equal."""
    looks = Counter((row.label, row.direction) for row in rows)
    named = [
        replace(row, label=f"{row.label} {row.test}") if looks[row.label, row.direction] > 1 else row for row in rows
    ]
    again = [(row.label, row.direction) for row in named]
    looks = Counter(again)
    return [
        replace(row, label=f"{row.label} #{number}") if looks[look] > 1 else row
        for row, look, number in zip(named, again, occurrences(again), strict=True)
    ]


def summary_table(
    results: Sequence[ResultRecord],
    skipped: Sequence[SkippedRecord],
    color: bool = False,
    run_folder: str | None = None,
    json_path: str | None = None,
    verbose: bool = False,
    explained: Collection[str] = (),
) -> list[str]:
    """Return the lines of the summary, at most 80 columns wide.

    Paths stay whole, so that they can be copied. ``of max`` is the share of the physical limit. The columns ``change``
    (against the baseline) and ``spread`` (of the connections) exist if a row has such a value. ``verbose`` adds the
    bottleneck of each result. The failures of the tests ``explained`` are printed elsewhere: their rows have no notes.
    Except for paths, only printable ASCII is used.
    """
    rows = rows_of([result for result in results if not result.not_begun])
    shown = [replace(row, notes=()) if row.node_id in explained and row.verdict not in GOOD else row for row in rows]
    lines = _table(shown, color, verbose) if rows else []
    lines += not_measured([*skipped, *not_begun(results)])
    more = (*_ungated(results), *ineffective(results), *_nothing_measured(results, skipped))
    lines += ["", *wrap_each([count_line(results, skipped), *more]), *place_lines(run_folder, json_path)]
    return lines if rows else lines[1:]


def place_lines(run_folder: str | None, json_path: str | None) -> list[str]:
    """Return where a run is kept. Paths stay whole."""
    return [f"{name}: {copyable(path)}" for name, path in (("run folder", run_folder), ("json", json_path)) if path]


def _nothing_measured(results: Sequence[ResultRecord], skipped: Sequence[SkippedRecord]) -> list[str]:
    """Return a sentence for a run in which every test was skipped: pytest calls it a success."""
    if not (results or skipped) or any(result.verdict is not Verdict.SKIPPED for result in results):
        return []
    reasons = {one.reason for one in skipped}
    why = "for the one reason above" if len(reasons) == 1 and not results else "for the reasons above"
    return [
        f"NOTHING WAS MEASURED: every test was skipped, {why}.",
        "pytest counts this as a success; with --pinet-require 1 such a run fails.",
    ]


def not_begun(results: Sequence[ResultRecord]) -> list[SkippedRecord]:
    """Return what the run ended before. It can be hundreds of tests: they are listed by reason, as skipped ones are."""
    return [SkippedRecord(id=one.test_name, reason=one.message) for one in results if one.not_begun]


def _ungated(results: Sequence[ResultRecord]) -> list[str]:
    """Return a line for each direction whose baseline does not gate."""
    return [
        f"{result.combination.id} {way} {direction.baseline.text}"
        for result in results
        for way, direction in result.directions.items()
        if direction.baseline is not None and direction.baseline.verdict is Verdict.SKIPPED
    ]


def count_line(results: Sequence[ResultRecord], skipped: Sequence[SkippedRecord]) -> str:
    """Return the counts of a run: ``12 measured: 10 pass, 2 fail; 1 not measured: 1 skipped``."""
    measured = Counter(result.verdict for result in results if result.directions or result.has_no_rate)
    missed = Counter(result.verdict for result in results if not (result.directions or result.has_no_rate))
    missed[Verdict.SKIPPED] += len(skipped)
    parts = [f"{measured.total()} measured" + _counts(measured)]
    if missed.total():
        parts.append(f"{missed.total()} not measured" + _counts(missed))
    second = Counter(result.second_board.verdict for result in results if result.second_board is not None)
    if second:
        agreed, disagreed = second[Verdict.FAIL], sum(second[verdict] for verdict in GOOD)
        undecided = second.total() - agreed - disagreed
        more = f", {undecided} without a verdict" if undecided else ""
        parts.append(f"on a second board: {agreed} confirmed, {disagreed} not confirmed{more}")
    return "; ".join(parts)


def _counts(verdicts: Counter[Verdict]) -> str:
    words = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in reversed(SEVERITY) if verdicts[verdict])
    return f": {words}" if words else ""


def _table(rows: list[ResultRow], color: bool, verbose: bool) -> list[str]:
    unit = _shared_unit(rows)
    heads, *more = more_cells(rows)
    cells = [("combination", "dir", unit[0] if unit else "goodput", "limit", "of max", *heads, "verdict")]
    cells += [(row.label, *_cells(row, unit), *own, WORDS[row.verdict]) for row, own in zip(rows, more, strict=True)]
    colors = [COLORS[row.verdict] if color else None for row in rows]
    columns = f"<  <  >  >  >  {'>  ' * len(heads)}<"
    return text_table(cells, columns, WIDTH, colors, [_notes(row, verbose) for row in rows], True)


def more_cells(rows: Sequence[ResultRow]) -> list[tuple[str, ...]]:
    """Return the cells of the columns that only some tables have: of the head, then of each row."""
    columns: list[tuple[str, ...]] = []
    if any(row.change is not None for row in rows):
        columns.append(("change", *(_percent(row.change, is_change=True) for row in rows)))
    if any(row.spread is not None for row in rows):
        columns.append(("spread", *(_percent(row.spread) for row in rows)))
    return list(zip(*columns, strict=True)) if columns else [()] * (len(rows) + 1)


def _notes(row: ResultRow, verbose: bool) -> list[str]:
    sentences = filter(None, map(first_sentence, row.notes))
    lines = [line for note in sentences for line in wrap(note, indent="    ", lines=_NOTE_LINES)]
    if verbose and row.limited_by:
        lines += wrap(f"limited by {row.limited_by}", indent="    ")
    return lines


def _shared_unit(rows: Sequence[ResultRow]) -> tuple[str, float] | None:
    """Return the unit that all rates of the table share, so that its columns are narrow and easy to compare.

    This is the unit of the smallest rate. None if the largest one would have too many digits: each has its own unit.
    """
    known = [bps for row in rows for bps in (row.goodput_bps, row.limit_bps) if bps]
    unit, factor = unit_of(min(known, default=1e6))
    return (unit, factor) if max(known, default=0.0) < 9999.5 * factor else None


def _rate(bps: float, unit: tuple[str, float] | None) -> str:
    """Return a rate in the unit of the table with at least three digits, or with a unit of its own."""
    if unit is None:
        return rate(bps)
    value = bps / unit[1]
    return f"{value:.{0 if value >= 999.95 else 1 if value >= 9.995 else 2}f}"


def _cells(row: ResultRow, unit: tuple[str, float] | None) -> tuple[str, ...]:
    if row.figure is not None:
        return ("-", *row.figure, "-")
    goodput, limit = (None if bps is None else _rate(bps, unit) for bps in (row.goodput_bps, row.limit_bps))
    no_limit = "-" if goodput is None else "per flow" if row.per_flow else "none"
    return plain(row.direction)[:3] or "-", goodput or "-", limit or no_limit, _percent(row.share)


def _percent(part: float | None, is_change: bool = False) -> str:
    """Return a share, or a relative change such as ``-9.6%``, in at most 6 characters."""
    if part is not None and abs(part) >= 9.99:
        return ">999%"
    return signed_percent(part) if is_change or part is None else f"{part * 100:.1f}%"


def not_measured(skipped: Sequence[SkippedRecord], each: bool = False) -> list[str]:
    """Return the skipped combinations grouped by reason, below an empty line and a heading; no line without any.

    ``each``: a line of its own for each, if it is short.
    """
    lines = ["", "not measured:"] if skipped else []
    for reason, ids in by_reason(skipped).items():
        short = [f"  {one}: {reason}" for one in ids]
        if each and max(map(len, short)) <= WIDTH:
            lines += short
        else:
            lines += [*wrap(", ".join(ids), indent="  "), *wrap(reason, indent="    ")]
    return lines


def by_reason(skipped: Sequence[SkippedRecord]) -> dict[str, list[str]]:
    """Return the ids of skipped combinations by reason, because many often share one reason."""
    return grouped((skip.reason, skip.id) for skip in skipped)
