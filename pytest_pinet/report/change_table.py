"""Formats the verdict on a change for a terminal of 80 columns, and has the words that its reports share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pytest_pinet.history.points import StoredGate, gate_of, gated_figure
from pytest_pinet.history.results_file import moment
from pytest_pinet.judge.costs import shown_cost
from pytest_pinet.model.build import BuildSource
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.record.change import EXACT, BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord, SkippedRecord
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict
from pytest_pinet.report.exact_text import (
    MARK,
    METRIC_COLUMNS,
    METRIC_HEADS,
    METRIC_MEANING,
    board_lines,
    by_nic,
    exact_cells,
    function_lines,
    function_rows,
    window_of,
    without_repeats,
)
from pytest_pinet.report.terminal import COLORS, not_measured, place_lines
from pytest_pinet.report.text_wrap import (
    SIDES,
    WIDTH,
    count,
    first_paragraph,
    plain,
    side_cells,
    text_table,
    wrap,
    wrap_each,
)

_SHORT = 12
_KERNEL_ORG = re.compile(r"(?:https|git)://git\.kernel\.org/")
_GITHUB = re.compile(r"https://(?:www\.)?github\.com/")
_HEADER = ("metric", "A", "B", "change", "outcome")
# What A is if it has no build, by the baseline of the run.
_OWN = {"accepted": "the accepted baselines", EXACT: "the stock kernel of the exact boards"}


def kernel_words(source: BuildSource) -> str:
    """Return the short name of the source for a line of text: ``v6.12.25-rc1-3-g1f2e3d4c5d6e (1f2e3d4c5d6e)``."""
    commit = source.commit[:_SHORT]
    if source.describe and commit:
        return source.describe if commit in source.describe else f"{source.describe} ({commit})"
    return source.describe or (f"commit {commit}" if commit else "")


def commit_url(source: BuildSource) -> str:
    """Return the page of the commit on the web; empty if its server is not known."""
    tree = source.tree.rstrip("/")
    if not source.commit:
        return ""
    if _KERNEL_ORG.match(tree):
        return f"https://{tree.partition('://')[2]}/commit/?id={source.commit}"
    if _GITHUB.match(tree):
        return f"{tree.removesuffix('.git')}/commit/{source.commit}"
    if tree.startswith("https://") and "gitlab" in tree:
        return f"{tree.removesuffix('.git')}/-/commit/{source.commit}"
    return ""


def source_lines(source: BuildSource, folder: str = "") -> list[tuple[str, str]]:
    """Return lines on the source, each with the address that it links to, or none.

    ``folder`` is the address of the run folder.
    """
    lines = []
    if words := kernel_words(source):
        branch = f", branch {source.branch}" if source.branch else ""
        tree = f" of {source.tree}" if source.tree else ""
        lines.append((f"source: {words}{branch}{tree}", commit_url(source)))
    if source.made_by:
        compiler = f" with {source.compiler}" if source.compiler else ""
        lines.append((f"built by {source.made_by}{compiler}: {source.place}", ""))
    if source.config:
        lines.append((f"kernel configuration: {source.config}", f"{folder}/{source.config}" if folder else ""))
    return lines


def change_lines(
    head: ChangeHeadRecord,
    skipped: Sequence[SkippedRecord] = (),
    color: bool = False,
    run_folder: str | None = None,
    json_path: str | None = None,
    results: Sequence[ResultRecord] = (),
) -> list[str]:
    """Return lines of at most 80 columns. Paths stay whole, so that they can be copied.

    ``results`` have the intervals of the changes, and in an exact gate the functions.
    """
    lines = wrap_each((_build(name, build, head) for name, build in (("A", head.a), ("B", head.b))), hanging="   ")
    gate = gate_of(head, results)
    words = [gate.word(one) for one in gate.entries]
    is_exact = head.baseline == EXACT
    table = _exact_table(head.entries, words, results, color) if is_exact else _table(head.entries, words, color)
    lines += ["", *table]
    died = [SkippedRecord(id=one.test_name, reason=first_paragraph(one.message)) for one in results if one.died]
    lines += not_measured([*skipped, *died], each=is_exact)
    counted = f"{counts_text(gate) or 'nothing measured'}; {turns_text(head)}"
    lines += ["", *wrap_each([counted, *ran_sentences(head)])]
    return [*lines, *place_lines(run_folder, json_path), *wrap_each([head.sentence])]


def ran_sentences(head: ChangeHeadRecord) -> list[str]:
    """Return what is to be known of what ran: NICs, values that a kernel changed, and what is not proved."""
    return [
        *(f"NIC {text}" for text in head.nics),
        *(f"changed by the kernel: {text}" for text in head.changed),
        *(f"not proved: {text}" for text in head.not_proved),
    ]


def _build(name: str, build: BuildRecord, head: ChangeHeadRecord) -> str:
    if name == "A" and not build.key:
        return f"A: {_OWN.get(head.baseline, 'the build that is installed on the boards')}"
    if name == "A" and build.key == head.b.key:
        return "A: the same build as B"
    release = f", kernel {build.release}" if build.release else ""
    of_files = f", {count(len(build.files), 'file')}" if build.files else ""
    source = kernel_words(build.known_source)
    return f"{name}: {build.name} ({build.key}{release}{of_files}{f', {source}' if source else ''})"


def counts_text(gate: StoredGate, *of: Verdict) -> str:
    """Return how many metrics have each of these verdicts (default: all), worst first: ``1 regression, 2 unchanged``.

    ``not slower`` is counted apart, and findings of all kinds together.
    """
    found = Counter(
        (SEVERITY.index(one.verdict), one.finding != "", "finding" if one.finding else gate.word(one))
        for one in gate.entries
        if not of or one.verdict in of
    )
    return ", ".join(f"{count} {word}" for (*_, word), count in sorted(found.items()))


def _table(entries: Sequence[ChangeEntryRecord], words: Sequence[str], color: bool) -> list[str]:
    if not entries:
        return ["nothing was measured"]
    cells = [(gated_figure(one), *entry_cells(one), _loud(one, word)) for one, word in zip(entries, words, strict=True)]
    colors = [COLORS[entry.verdict] if color else None for entry in entries]
    return text_table([_HEADER, *cells], SIDES, WIDTH, colors, [_notes(entry) for entry in entries])


def entry_cells(entry: ChangeEntryRecord, digits: int = 1) -> tuple[str, str, str]:
    """Return the cells for A, B, and B over A minus one: of a goodput, or of a cost."""
    a, b, change = side_cells(entry.a_bps, entry.b_bps, entry.change, digits)
    if entry.cost is not None:
        a, b = shown_cost(entry.cost, entry.a), shown_cost(entry.cost, entry.b)
    return a, b, change


def _exact_table(
    entries: Sequence[ChangeEntryRecord], words: Sequence[str], results: Sequence[ResultRecord], color: bool
) -> list[str]:
    """Return the metrics of an exact gate, and the functions that changed, by NIC."""
    found = {one.key: one.exact for one in results}
    lines = wrap(f"{METRIC_MEANING}:") if entries else []
    # A column less: the name of the NIC stands above its metrics.
    for nic in dict.fromkeys(CombinationId.parse(entry.id).nic for entry in entries):
        own = [one for one in zip(entries, words, strict=True) if CombinationId.parse(one[0].id).nic == nic]
        own_entries = [entry for entry, _ in own]
        cells: list[tuple[str, ...]] = [(nic, *METRIC_HEADS[1:])]
        for entry, word in own:
            window = window_of(entry.id) or "all traffic"
            cells.append((window, *exact_cells(entry, found.get(entry.result_key)), _loud(entry, word)))
        colors = [COLORS[entry.verdict] if color else None for entry in own_entries]
        notes = without_repeats([_notes(entry) for entry in own_entries], [])
        lines += ["", *text_table(cells, METRIC_COLUMNS, WIDTH, colors, notes, whole=True)]
    for nic, of_nic in by_nic(results).items():
        if rows := function_rows(of_nic):
            lines += ["", f"functions of {nic} that changed (instructions per packet or answer):"]
            lines += function_lines(rows)
    boards = wrap_each(board_lines(results))
    return [*lines, "", *boards] if boards else lines


def run_when_text(run: RunRecord) -> str:
    """Return when this run began and how long it took: ``2026-11-29 11:34 UTC, 15 s``."""
    started = moment(run.started)
    seconds = (moment(run.finished) - started).total_seconds() if run.finished else 0.0
    took = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"{started:%Y-%m-%d %H:%M} UTC{f', {took}' if seconds > 0 else ''}"


def turns_text(head: ChangeHeadRecord | StoredGate) -> str:
    """Return the number of turns: ``8 turns``; of an exact gate ``2 boots``."""
    return count(head.turns, "boot" if head.baseline == EXACT else "turn")


def _loud(entry: ChangeEntryRecord, word: str) -> str:
    return word if entry.verdict in GOOD else plain(word).upper()


def _notes(entry: ChangeEntryRecord) -> list[str]:
    said = entry.verdict not in GOOD or "left out" in entry.text
    lines = wrap(entry.text, indent="    ", lines=4) if said else []
    return lines + (wrap(f"look first at: {entry.suspect}", indent="    ", lines=3) if entry.suspect else [])


def change_in_words(run: RunRecord, head: ChangeHeadRecord) -> str:
    """Return the verdict on the change of this run as one sentence."""
    emulated = f" The values are {emulated_mark(run)}." if run.figures == "emulated" else ""
    interrupted = "" if run.complete or "interrupted" in head.sentence else " The run was interrupted."
    return f"{head.sentence}{emulated}{interrupted}"


def emulated_words(run: RunRecord) -> str:
    """Return a note that the values are emulated; empty for measured values."""
    if run.figures != "emulated":
        return ""
    text = f"values are {emulated_mark(run)}"
    return text if run.meaning is None else f"{text}: {run.meaning}"


def emulated_mark(run: RunRecord) -> str:
    """Return the word for emulated values: ``emulated``; of an exact gate ``emulated, exact``."""
    return MARK if run.change is not None and run.change.baseline == EXACT else "emulated"


def emulated_sentence(run: RunRecord) -> str:
    """Return the note on emulated values as a sentence; empty for measured values."""
    meant = emulated_words(run)
    return f"{meant[0].upper()}{meant[1:]}." if meant else ""


def build_parts(build: BuildRecord, digits: int) -> list[str]:
    """Return all parts of a build; of each file the first ``digits`` digits of its sha256."""
    source = [text for text, _ in source_lines(build.known_source)]
    files = [f"{file.role} {file.name}: sha256 {file.sha256[:digits]}" for file in build.files]
    return [*source, *files, *build.settings]
