"""The answer on a change for a terminal of 80 columns: the sentence first, then each figure, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_pinet.judge.whole_change import Outcome
from pytest_pinet.report.change import BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.report.change_words import figure_name
from pytest_pinet.report.columns import Columns, side_cells
from pytest_pinet.report.fit import WIDTH, copyable, plain, wrap
from pytest_pinet.report.record import SkippedRecord
from pytest_pinet.report.terminal import skipped_lines

_HEADER = ("figure", "A", "B", "change", "outcome")
# In capitals, so that nobody overlooks them without colours.
_LOUD = (Outcome.REGRESSION, Outcome.FINDING, Outcome.LAB_ERROR, Outcome.UNDECIDED)
_COLORS = {
    Outcome.REGRESSION: "1;31",
    Outcome.FINDING: "1;31",
    Outcome.LAB_ERROR: "1;35",
    Outcome.UNDECIDED: "1;33",
    Outcome.IMPROVED: "36",
    Outcome.UNCHANGED: "32",
}


def change_lines(
    head: ChangeHeadRecord,
    skipped: Sequence[SkippedRecord] = (),
    width: int = WIDTH,
    color: bool = False,
    run_folder: str | None = None,
    json_path: str | None = None,
) -> list[str]:
    """Lines of at most ``width`` columns, but for paths, which must be copied whole."""
    lines = [
        line
        for name, build in (("A", head["a"]), ("B", head["b"]))
        for line in wrap(_build(name, build, head), hanging="   ", width=width)
    ]
    lines += ["", *_table(head["entries"], width, color)]
    if skipped:
        lines += ["", "not measured:", *skipped_lines(skipped, width)]
    counts = Counter(Outcome(entry["outcome"]) for entry in head["entries"])
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])
    lines += ["", *wrap(f"{said or 'nothing measured'}; {head['turns']} turns", hanging="  ", width=width)]
    lines += [f"{name} {copyable(path)}" for name, path in (("run folder:", run_folder), ("json:", json_path)) if path]
    return [*lines, *wrap(head["sentence"], hanging="  ", width=width)]


def _build(name: str, build: BuildRecord, head: ChangeHeadRecord) -> str:
    if name == "A" and not build["key"]:
        what = "the accepted baselines" if head["baseline"] == "accepted" else "what the boards run by themselves"
        return f"A: {what}"
    release = f", kernel {build['release']}" if build["release"] else ""
    files = len(build["files"])
    of_files = f", {files} file{'s' if files != 1 else ''}" if files else ""
    return f"{name}: {build['name']} ({build['key']}{release}{of_files})"


def _table(entries: Sequence[ChangeEntryRecord], width: int, color: bool) -> list[str]:
    if not entries:
        return ["no figure came about"]
    cells = [_cells(entry) for entry in entries]
    columns = Columns(_HEADER, map(figure_name, entries), cells, width)
    lines = [columns.head()]
    for entry, line in zip(entries, cells, strict=True):
        outcome = Outcome(entry["outcome"])
        lines.append(columns.line(figure_name(entry), line, _COLORS[outcome] if color else None))
        if outcome in _LOUD or "left out" in entry["text"]:
            lines += wrap(entry["text"], indent="    ", width=width, lines=4)
        if entry["suspect"]:
            lines += wrap(f"look first at: {entry['suspect']}", indent="    ", width=width, lines=3)
    return lines


def _cells(entry: ChangeEntryRecord) -> tuple[str, ...]:
    word = entry["finding"] or entry["outcome"]
    shown = plain(word).upper() if Outcome(entry["outcome"]) in _LOUD else word
    return (*side_cells(entry["a_bps"], entry["b_bps"], entry["change"]), shown)
