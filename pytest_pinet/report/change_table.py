"""The answer on a change for a terminal of 80 columns: the sentence first, then each figure, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_pinet.judge.whole_change import Outcome
from pytest_pinet.report.change import BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.report.change_words import figure_name
from pytest_pinet.report.fit import WIDTH, copyable, plain, rate, shorten, wrap
from pytest_pinet.report.record import SkippedRecord

_HEADER = ("figure", "A", "B", "change", "outcome")
_GAP = "  "
_LABEL_MIN = 12
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
        lines += ["", "not measured:"]
        for reason in dict.fromkeys(one["reason"] for one in skipped):
            ids = ", ".join(one["id"] for one in skipped if one["reason"] == reason)
            lines += [*wrap(ids, indent="  ", width=width), *wrap(reason, indent="    ", width=width)]
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
    widths = [max(map(len, column)) for column in zip(_HEADER[1:], *cells, strict=True)]
    room = max(width - sum(widths) - len(_GAP) * len(widths), _LABEL_MIN)
    labels = shorten((plain(figure_name(entry)) for entry in entries), room)
    widest = max(len(label) for label in (_HEADER[0], *labels.values()))
    lines = [_line(_HEADER[0], _HEADER[1:], widest, widths, None)]
    for entry, line in zip(entries, cells, strict=True):
        outcome = Outcome(entry["outcome"])
        lines.append(_line(labels[plain(figure_name(entry))], line, widest, widths, outcome if color else None))
        if outcome in _LOUD or "left out" in entry["text"]:
            lines += wrap(entry["text"], indent="    ", width=width, lines=4)
        if entry["suspect"]:
            lines += wrap(f"look first at: {entry['suspect']}", indent="    ", width=width, lines=3)
    return lines


def _cells(entry: ChangeEntryRecord) -> tuple[str, ...]:
    word = entry["finding"] or entry["outcome"]
    return (
        "-" if entry["a_bps"] is None else rate(entry["a_bps"]),
        "-" if entry["b_bps"] is None else rate(entry["b_bps"]),
        "-" if entry["change"] is None else f"{entry['change'] * 100:+.1f}%",
        plain(word).upper() if Outcome(entry["outcome"]) in _LOUD else word,
    )


def _line(label: str, cells: Sequence[str], widest: int, widths: Sequence[int], color_of: Outcome | None) -> str:
    *figures, word = cells
    parts = [figure.rjust(width) for figure, width in zip(figures, widths[:-1], strict=True)]
    parts.append(word if color_of is None else f"\x1b[{_COLORS[color_of]}m{word}\x1b[0m")
    return _GAP.join([f"{label:{widest}}", *parts])
