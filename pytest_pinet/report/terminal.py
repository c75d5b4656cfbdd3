"""The summary at the end of a run: a table that fits 80 columns, worst first, and what was not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.fit import WIDTH, copyable, first_sentence, plain, rate, shorten, wrap
from pytest_pinet.report.record import ResultRecord, SkippedRecord
from pytest_pinet.report.rows import Row, rows_of
from pytest_pinet.report.tunings import ineffective

# Words that nobody overlooks without colours, too: what is not good is in capitals.
WORDS = {
    Verdict.PASS: "pass",
    Verdict.MARGINAL: "marginal",
    Verdict.IMPROVED: "improved",
    Verdict.FAIL: "FAIL",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.INVALID: "INVALID",
    Verdict.ERROR: "ERROR",
    Verdict.SKIPPED: "skipped",
}
_COLORS = {
    Verdict.PASS: "32",
    Verdict.IMPROVED: "36",
    Verdict.MARGINAL: "33",
    Verdict.INCONCLUSIVE: "1;33",
    Verdict.INVALID: "1;33",
    Verdict.FAIL: "1;31",
    Verdict.ERROR: "1;35",
    Verdict.SKIPPED: "2",
}
_HEADER = ("combination", "dir", "goodput", "limit", "of max", "verdict")
_GAP = "  "
_NOTE_LINES = 3
_LABEL_MIN = 8


def summary_table(
    results: Sequence[ResultRecord],
    skipped: Sequence[SkippedRecord],
    width: int = WIDTH,
    color: bool = False,
    run_folder: str | None = None,
    json_path: str | None = None,
    verbose: bool = False,
) -> list[str]:
    """The lines of the summary; none is wider than ``width`` (at least 72), but for a path, which must be copied whole.

    ``of max`` is the share of the physical limit, and ``verbose`` adds what limited each result. Paths aside, only
    printable ASCII is used.
    """
    rows = rows_of(results)
    lines = _table(rows, width, color, verbose) if rows else []
    if skipped:
        lines += ["", "not measured:", *skipped_lines(skipped, width)]
    lines += ["", *wrap(count_line(results, skipped), hanging="  ", width=width)]
    for sentence in (*_ungated(results), *ineffective(results)):
        lines += wrap(sentence, hanging="  ", width=width)
    lines += [f"{name} {copyable(path)}" for name, path in (("run folder:", run_folder), ("json:", json_path)) if path]
    return lines if rows else lines[1:]


def _ungated(results: Sequence[ResultRecord]) -> list[str]:
    """Figures that have a baseline which judges nothing."""
    return [
        f"{result['combination']['id']} {way} {direction['baseline']['text']}"
        for result in results
        for way, direction in result["directions"].items()
        if direction["baseline"] is not None and direction["baseline"]["change"] == "not gated"
    ]


def count_line(results: Sequence[ResultRecord], skipped: Sequence[SkippedRecord]) -> str:
    """The run in one line: ``12 measured: 10 pass, 2 fail; 1 not measured: 1 skipped``."""
    measured = Counter(Verdict(result["verdict"]) for result in results if result["directions"] or "ping" in result)
    missed = Counter(
        Verdict(result["verdict"]) for result in results if not result["directions"] and "ping" not in result
    )
    missed[Verdict.SKIPPED] += len(skipped)
    parts = [f"{measured.total()} measured" + _counts(measured)]
    if missed.total():
        parts.append(f"{missed.total()} not measured" + _counts(missed))
    return "; ".join(parts)


def _counts(verdicts: Counter[Verdict]) -> str:
    words = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in reversed(SEVERITY) if verdicts[verdict])
    return f": {words}" if words else ""


def _table(rows: list[Row], width: int, color: bool, verbose: bool) -> list[str]:
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(_HEADER[1:], *cells, strict=True)]
    room = max(width - sum(widths) - len(_GAP) * len(widths) + 1, _LABEL_MIN)
    labels = shorten((plain(row.label) for row in rows), room)
    widest = max(len(label) for label in (_HEADER[0], *labels.values()))
    lines = [_line(widest, widths, _HEADER[0], _HEADER[1:], None)]
    for row, line in zip(rows, cells, strict=True):
        lines.append(_line(widest, widths, labels[plain(row.label)], line, row.verdict if color else None))
        for note in filter(None, map(first_sentence, row.notes)):
            lines += wrap(note, indent="    ", width=width, lines=_NOTE_LINES)
        if verbose and row.limited_by:
            lines += wrap(f"limited by {row.limited_by}", indent="    ", width=width)
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    share = row.share
    return (
        plain(row.direction)[:3] or "-",
        "-" if row.goodput_bps is None else rate(row.goodput_bps),
        _limit(row),
        "-" if share is None else f"{share * 100:.1f}%" if share < 9.99 else ">999%",
        WORDS[row.verdict],
    )


def _limit(row: Row) -> str:
    if row.limit_bps is not None:
        return rate(row.limit_bps)
    return "-" if row.goodput_bps is None else "per flow" if row.per_flow else "none"


def _line(label_width: int, widths: list[int], label: str, cells: Sequence[str], color_of: Verdict | None) -> str:
    direction, *figures, word = cells
    parts = [figure.rjust(width) for figure, width in zip(figures, widths[1:-1], strict=True)]
    parts.append(word if color_of is None else f"\x1b[{_COLORS[color_of]}m{word}\x1b[0m")
    # One blank is enough after the direction, whose words are shorter than its heading.
    return f"{label:{label_width}}{_GAP}{direction:{widths[0]}} {_GAP.join(parts)}"


def skipped_lines(skipped: Sequence[SkippedRecord], width: int) -> list[str]:
    """Skips by reason: a whole matrix often lacks the same thing."""
    by_reason: dict[str, list[str]] = {}
    for skip in skipped:
        by_reason.setdefault(skip["reason"], []).append(skip["id"])
    lines = []
    for reason, ids in by_reason.items():
        lines += wrap(", ".join(ids), indent="  ", width=width)
        lines += wrap(reason, indent="    ", width=width)
    return lines
