"""Formats the answer on a change for a terminal of 80 columns: the directions, worst first, then the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_pinet.judge.change_verdict import MetricOutcome
from pytest_pinet.model.record.change import BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.model.record.run import SkippedRecord
from pytest_pinet.report.change_words import figure_name
from pytest_pinet.report.table import SIDES, side_cells, text_table
from pytest_pinet.report.terminal import skipped_lines
from pytest_pinet.report.text_wrap import WIDTH, copyable, plain, wrap

_HEADER = ("metric", "A", "B", "change", "outcome")
# In capitals, so that they are visible without colours.
_LOUD = (MetricOutcome.REGRESSION, MetricOutcome.FINDING, MetricOutcome.LAB_ERROR, MetricOutcome.UNDECIDED)
_COLORS = {
    MetricOutcome.REGRESSION: "1;31",
    MetricOutcome.FINDING: "1;31",
    MetricOutcome.LAB_ERROR: "1;35",
    MetricOutcome.UNDECIDED: "1;33",
    MetricOutcome.IMPROVED: "36",
    MetricOutcome.UNCHANGED: "32",
}


def change_lines(
    head: ChangeHeadRecord,
    skipped: Sequence[SkippedRecord] = (),
    width: int = WIDTH,
    color: bool = False,
    run_folder: str | None = None,
    json_path: str | None = None,
) -> list[str]:
    """Return lines of at most ``width`` columns. Paths stay whole, so that they can be copied."""
    lines = [
        line
        for name, build in (("A", head.a), ("B", head.b))
        for line in wrap(_build(name, build, head), hanging="   ", width=width)
    ]
    lines += ["", *_table(head.entries, width, color)]
    if skipped:
        lines += ["", "not measured:", *skipped_lines(skipped, width)]
    counts = Counter(MetricOutcome(entry.outcome) for entry in head.entries)
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in MetricOutcome if counts[outcome])
    lines += ["", *wrap(f"{said or 'nothing measured'}; {head.turns} turns", hanging="  ", width=width)]
    lines += [f"{name} {copyable(path)}" for name, path in (("run folder:", run_folder), ("json:", json_path)) if path]
    return [*lines, *wrap(head.sentence, hanging="  ", width=width)]


def _build(name: str, build: BuildRecord, head: ChangeHeadRecord) -> str:
    if name == "A" and not build.key:
        what = "the accepted baselines" if head.baseline == "accepted" else "what the boards run by themselves"
        return f"A: {what}"
    release = f", kernel {build.release}" if build.release else ""
    files = len(build.files)
    of_files = f", {files} file{'s' if files != 1 else ''}" if files else ""
    return f"{name}: {build.name} ({build.key}{release}{of_files})"


def _table(entries: Sequence[ChangeEntryRecord], width: int, color: bool) -> list[str]:
    if not entries:
        return ["nothing was measured"]
    cells = [_HEADER, *((figure_name(entry), *_cells(entry)) for entry in entries)]
    colors = [_COLORS[MetricOutcome(entry.outcome)] if color else None for entry in entries]
    head, *body = text_table(cells, SIDES, width, colors)
    lines = [head]
    for entry, line in zip(entries, body, strict=True):
        lines.append(line)
        outcome = MetricOutcome(entry.outcome)
        if outcome in _LOUD or "left out" in entry.text:
            lines += wrap(entry.text, indent="    ", width=width, lines=4)
        if entry.suspect:
            lines += wrap(f"look first at: {entry.suspect}", indent="    ", width=width, lines=3)
    return lines


def _cells(entry: ChangeEntryRecord) -> tuple[str, ...]:
    word = entry.finding or entry.outcome
    shown = plain(word).upper() if MetricOutcome(entry.outcome) in _LOUD else word
    return (*side_cells(entry.a_bps, entry.b_bps, entry.change), shown)
