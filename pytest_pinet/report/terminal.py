"""Formats the summary at the end of a run: a table of 80 columns, worst first, and what was not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.record.run import SkippedRecord
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict
from pytest_pinet.report.rows import ResultRow, rows_of
from pytest_pinet.report.sentences import ineffective
from pytest_pinet.report.table import text_table
from pytest_pinet.report.text_wrap import WIDTH, copyable, first_sentence, plain, wrap

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
# All rates have one unit, so that a column is easy to compare and narrow. The first column of rates is the goodput.
_UNIT = "Mbit/s"
_NOTE_LINES = 3


def summary_table(
    results: Sequence[ResultRecord],
    skipped: Sequence[SkippedRecord],
    width: int = WIDTH,
    color: bool = False,
    run_folder: str | None = None,
    json_path: str | None = None,
    verbose: bool = False,
) -> list[str]:
    """Return the lines of the summary, at most ``width`` (at least 72) columns wide.

    Paths stay whole, so that they can be copied. ``of max`` is the share of the physical limit. The columns ``change``
    (against the baseline) and ``spread`` (of the connections) exist if a row has such a value. ``verbose`` adds the
    bottleneck of each result. Except for paths, only printable ASCII is used.
    """
    rows = rows_of([result for result in results if not result.not_begun])
    missed = [*skipped, *not_begun(results)]
    lines = _table(rows, width, color, verbose) if rows else []
    if missed:
        lines += ["", "not measured:", *skipped_lines(missed, width)]
    lines += ["", *wrap(count_line(results, skipped), hanging="  ", width=width)]
    for sentence in (*_ungated(results), *ineffective(results)):
        lines += wrap(sentence, hanging="  ", width=width)
    lines += [f"{name} {copyable(path)}" for name, path in (("run folder:", run_folder), ("json:", json_path)) if path]
    return lines if rows else lines[1:]


def not_begun(results: Sequence[ResultRecord]) -> list[SkippedRecord]:
    """Return what the run ended before. It can be hundreds of tests: they are listed by reason, as skipped ones are."""
    return [SkippedRecord(id=one.test_name, reason=one.message) for one in results if one.not_begun]


def _ungated(results: Sequence[ResultRecord]) -> list[str]:
    """Return a line for each direction whose baseline does not gate."""
    return [
        f"{result.combination.id} {way} {direction.baseline.text}"
        for result in results
        for way, direction in result.directions.items()
        if direction.baseline is not None and direction.baseline.change == "not gated"
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


def _table(rows: list[ResultRow], width: int, color: bool, verbose: bool) -> list[str]:
    compared, spread = (any(getattr(row, name) is not None for row in rows) for name in ("change", "spread"))
    more = ["change"] * compared + ["spread"] * spread
    cells = [("combination", "dir", _UNIT, "limit", "of max", *more, "verdict")]
    for row in rows:
        extra = [change_text(row.change)] * compared + [spread_text(row.spread)] * spread
        cells.append((row.label, *_cells(row), *extra, WORDS[row.verdict]))
    colors = [COLORS[row.verdict] if color else None for row in rows]
    columns = f"<  <  >  >  >  {'>  ' * len(more)}<"
    return text_table(cells, columns, width, colors, [_notes(row, width, verbose) for row in rows], True)


def _notes(row: ResultRow, width: int, verbose: bool) -> list[str]:
    sentences = filter(None, map(first_sentence, row.notes))
    lines = [line for note in sentences for line in wrap(note, indent="    ", width=width, lines=_NOTE_LINES)]
    if verbose and row.limited_by:
        lines += wrap(f"limited by {row.limited_by}", indent="    ", width=width)
    return lines


def _cells(row: ResultRow) -> tuple[str, ...]:
    share = row.share
    return (
        plain(row.direction)[:3] or "-",
        "-" if row.goodput_bps is None else megabits(row.goodput_bps),
        _limit(row),
        "-" if share is None else f"{share * 100:.1f}%" if share < 9.99 else ">999%",
    )


def _limit(row: ResultRow) -> str:
    if row.limit_bps is not None:
        return megabits(row.limit_bps)
    return "-" if row.goodput_bps is None else "per flow" if row.per_flow else "none"


def megabits(bps: float) -> str:
    """Return a bit rate in Mbit/s, without its unit, in at most 8 characters: at least three digits that count."""
    value = bps / 1e6
    text = f"{value:.{0 if value >= 999.95 else 1 if value >= 9.995 else 2}f}"
    return f"{value:.1e}" if len(text) > 6 or 0 < value < 0.0995 else text


def change_text(change: float | None) -> str:
    """Return a relative change, such as ``-9.6%``, in at most 6 characters."""
    if change is None:
        return "-"
    return f"{change * 100:+.1f}%" if abs(change) < 9.99 else ">999%"


def spread_text(spread: float | None) -> str:
    """Return a spread, such as ``0.4%``, in at most 5 characters."""
    if spread is None:
        return "-"
    return f"{spread * 100:.1f}%" if spread < 9.99 else ">999%"


def skipped_lines(skipped: Sequence[SkippedRecord], width: int) -> list[str]:
    """Return the skipped combinations grouped by reason."""
    return [
        line
        for reason, ids in by_reason(skipped).items()
        for line in (*wrap(", ".join(ids), indent="  ", width=width), *wrap(reason, indent="    ", width=width))
    ]


def by_reason(skipped: Sequence[SkippedRecord]) -> dict[str, list[str]]:
    """Return the ids of skipped combinations by reason, because many often share one reason."""
    found: dict[str, list[str]] = {}
    for skip in skipped:
        found.setdefault(skip.reason, []).append(skip.id)
    return found
