"""The page section on the newest change: its verdict, a forest plot of all metrics, and the builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_pinet.history.points import GatedMetric, StoredGate, StoredRun, gate_of
from pytest_pinet.history.results_file import moment
from pytest_pinet.history.text import gate_text
from pytest_pinet.model.record.change import EXACT, BuildRecord, ChangeEntryRecord, ChangeHeadRecord, ChangeRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import GOOD
from pytest_pinet.report.change_table import (
    build_parts,
    emulated_sentence,
    entry_cells,
    ran_sentences,
    run_when_text,
    source_lines,
    turns_text,
)
from pytest_pinet.report.charts.results import Forest, change_bar, turns_chart
from pytest_pinet.report.exact_text import (
    FUNCTION_HEADS,
    METRIC_HEADS,
    METRIC_SENTENCE,
    MOST_FUNCTIONS,
    board_lines,
    by_nic,
    exact_cells,
    exact_label,
    function_rows,
    sum_cells,
    without_repeats,
)
from pytest_pinet.report.page.templating import render
from pytest_pinet.report.text_wrap import signed_percent

# An earlier exact gate: the history has no rates in virtual time, only their changes.
GATE_HEADS = ("metric", "A instr.", "B instr.", "change", "change of the rate", "outcome")


@dataclass(frozen=True)
class ChangeRow:
    """One metric of a change, as the template shows it."""

    name: str
    cells: Sequence[str]
    verdict: str
    word: str
    notes: Sequence[str]
    forest: str = ""
    turns: str = ""


def change_section(run: RunRecord, head: ChangeHeadRecord, folder: str = "") -> Markup:
    """Return the section on the change that this run measured. ``folder`` is the address of the run's files."""
    exact = head.baseline == EXACT
    gate = gate_of(head, run.results)
    changes = {one.key: one.change for one in run.results if one.change is not None}
    found = {one.key: one.exact for one in run.results}
    forest = _forest(gate.entries)
    place = "on exact boards" if exact else f"in lab {run.lab}"
    texts = [one.text for one in gate.entries]
    if exact:
        texts = without_repeats(texts, "")
    return render(
        "change.html",
        sentence=head.sentence,
        emulated=emulated_sentence(run),
        exact=exact,
        exact_heads=METRIC_HEADS,
        exact_meaning=METRIC_SENTENCE,
        rows=[
            _exact_row(one, gate.word(one), exact_cells(entry, found.get(entry.result_key)), text)
            if exact
            else _row(one, gate.word(one), text, forest, _turns(entry, changes))
            for entry, one, text in zip(head.entries, gate.entries, texts, strict=True)
        ],
        forest=forest,
        functions=[_functions(nic, own) for nic, own in by_nic(run.results).items()] if exact else [],
        boards=board_lines(run.results) if exact else [],
        builds=[_build(name, build, folder) for name, build in (("A", head.a), ("B", head.b))],
        ran=[(text, "") for text in ran_sentences(head)],
        not_proved=len(head.not_proved),
        folder=folder,
        missed=[(f"{one.id}: {one.reason}", "") for one in run.skipped],
        facts=f"Run {run.run} {place}, {run_when_text(run)}, {turns_text(head)}, pytest-pinet {run.pinet}.",
    )


def _forest(metrics: Sequence[GatedMetric]) -> Forest:
    return Forest.of(((one.change, one.interval) for one in metrics), (one.tolerance for one in metrics))


def _row(one: GatedMetric, word: str, text: str, forest: Forest, turns: str = "") -> ChangeRow:
    """Return a metric as the template shows it. ``text`` explains a verdict that is not good."""
    interval = "" if one.interval is None else " to ".join(map(_percent, one.interval))
    lines = [text] if text and one.verdict not in GOOD else []
    lines += [f"Look first at: {one.suspect}"] if one.suspect else []
    return ChangeRow(
        one.figure,
        (*entry_cells(one)[:2], _percent(one.change), interval),
        one.verdict,
        word,
        lines,
        forest.row((one.change, one.interval), one.verdict, one.tolerance),
        turns,
    )


def _turns(entry: ChangeEntryRecord, changes: Mapping[tuple[str | None, str], ChangeRecord]) -> str:
    change = changes.get(entry.result_key)
    paper = turns_chart(change, entry.direction) if change is not None else None
    return Markup(paper.inline()) if paper is not None else ""


def earlier_gates(runs: Sequence[StoredRun], newest: RunRecord | None = None) -> list[dict[str, object]]:
    """Return the gates of the history, newest first, as the template shows them; without the ``newest`` itself.

    Gates of exact boards are no part of the page of a lab. A page about an exact gate has the gates of the same build.
    """
    found = [(run, run.change) for run in reversed(runs) if run.change is not None]
    if newest is not None and (head := newest.change) is not None:
        found = [
            (run, gate)
            for run, gate in found
            if not run.id.startswith(newest.run)
            and (gate.baseline == EXACT) == (head.baseline == EXACT)
            and (head.baseline != EXACT or gate.b.name == head.b.name)
        ]
    return [_gate(run, gate) for run, gate in found]


def _gate(run: StoredRun, gate: StoredGate) -> dict[str, object]:
    forest, exact = _forest(gate.entries), gate.baseline == EXACT
    place = "on exact boards" if exact else f"in lab {run.lab}"
    return {
        "title": f"{moment(run.started):%Y-%m-%d %H:%M} {gate_text(gate)}",
        "verdict": gate.verdict,
        "sentence": gate.sentence,
        "facts": f"Run {run.id} {place}, {run_when_text(run)}, {turns_text(gate)}, pytest-pinet {run.pinet}.",
        "exact": exact,
        "rows": [
            _exact_row(one, gate.word(one), (*sum_cells(one.instructions), signed_percent(one.change, 2)))
            if exact
            else _row(one, gate.word(one), "", forest)
            for one in gate.entries
        ],
        "forest": forest,
    }


def _exact_row(one: GatedMetric, word: str, values: Sequence[str], text: str = "") -> ChangeRow:
    """Return a metric of an exact gate. ``values`` are its cells on instructions and on rates in virtual time."""
    cells = [cell.replace("%", " %") for cell in values]
    notes = [text] if text and one.verdict not in GOOD else []
    return ChangeRow(exact_label(one.figure), cells, one.verdict, word, notes)


def _functions(nic: str, results: Sequence[ResultRecord]) -> dict[str, object]:
    """Return the functions of a NIC that changed, with a bar for each change."""
    found = function_rows(results)
    shown = found[:MOST_FUNCTIONS]
    widest = max((abs(row.record.change) for row in shown), default=0.0)
    return {
        "label": f"Functions of {nic} that changed",
        "heads": (*FUNCTION_HEADS, "instructions"),
        "rows": [(row, Markup(change_bar(row.record.change, widest).inline(label=False))) for row in shown],
        "more": len(found) - len(shown),
    }


def _percent(part: float | None) -> str:
    return signed_percent(part, 2).replace("%", " %")


def _build(name: str, build: BuildRecord, folder: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the title of a build, and its parts with the addresses to which they link, or none.

    ``folder`` is that of the run.
    """
    title = build.title
    if not build.key:
        title = build.name if build.name != "running" else "the build that is installed on the boards"
    links = dict(source_lines(build.known_source, folder))
    return f"{name}: {title}", [(part, links.get(part, "")) for part in build_parts(build, 64)]
