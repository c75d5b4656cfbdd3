"""The page section on the newest change: its answer, a forest plot of all metrics, and the builds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_pinet.history.gates import StoredGate
from pytest_pinet.history.points import StoredRun
from pytest_pinet.history.text import gate_text
from pytest_pinet.judge.change_verdict import MetricOutcome
from pytest_pinet.model.record.change import BuildRecord, ChangeEntryRecord, ChangeHeadRecord, ChangeRecord
from pytest_pinet.model.record.exact_change import ExactChangeRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.build_source import source_lines
from pytest_pinet.report.change_table import (
    GOOD,
    VERDICTS,
    build_parts,
    emulated_sentence,
    figure_name,
    ran_sentences,
    turns_text,
)
from pytest_pinet.report.charts.bar import change_bar
from pytest_pinet.report.charts.turns import turns_chart
from pytest_pinet.report.diagrams.facts import count
from pytest_pinet.report.exact_record import EXACT
from pytest_pinet.report.exact_text import (
    FUNCTION_HEADS,
    METRIC_HEADS,
    METRIC_SENTENCE,
    MOST_FUNCTIONS,
    FunctionRow,
    board_lines,
    by_nic,
    exact_label,
    function_rows,
    rate_cells,
    sum_cells,
)
from pytest_pinet.report.page.forest import Change, Forest
from pytest_pinet.report.page.templating import render
from pytest_pinet.report.page.unit import PageUnit

_ANSWERS = {"pass": Verdict.PASS, "regression": Verdict.FAIL, "lab error": Verdict.ERROR}


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


def change_section(run: RunRecord, head: ChangeHeadRecord, unit: PageUnit, folder: str = "") -> Markup:
    """Return the section on the change that this run measured. ``folder`` is the address of the run's files."""
    exact = head.baseline == EXACT
    records = {one.key: one.change for one in run.results if one.change is not None}
    changes = [records.get(entry.result_key) for entry in head.entries]
    found = {one.key: one.exact for one in run.results}
    forest = Forest.of(
        map(_change, head.entries, changes), (one.tolerance if one is not None else None for one in changes)
    )
    place = "on exact boards" if exact else f"in lab {run.lab}"
    return render(
        "change.html",
        sentence=unit.sentence(head.sentence),
        emulated=emulated_sentence(run),
        unit=unit,
        exact=exact,
        exact_heads=METRIC_HEADS,
        exact_meaning=METRIC_SENTENCE,
        rows=[
            _exact_row(entry, found.get(entry.result_key)) if exact else _row(entry, change, forest, unit)
            for entry, change in zip(head.entries, changes, strict=True)
        ],
        forest=forest,
        functions=[_functions(nic, own) for nic, own in by_nic(run.results).items()] if exact else [],
        boards=board_lines(run.results) if exact else [],
        builds=[(_build_title(name, build), _parts(build, folder)) for name, build in (("A", head.a), ("B", head.b))],
        ran=[(text, "") for text in ran_sentences(head)],
        not_proved=len(head.not_proved),
        facts=f"Run {run.run} {place}, {turns_text(head)}, pytest-pinet {run.pinet}.",
    )


def outcome_word(outcome: str, finding: str, interval: tuple[float, float] | None, tolerance: float | None) -> str:
    """Return the outcome in a word: ``not slower`` where it is not known that the metric is not faster either."""
    if finding or MetricOutcome(outcome) is not MetricOutcome.UNCHANGED:
        return finding or outcome
    return "not slower" if interval is None or tolerance is None or interval[1] > tolerance else outcome


def _row(entry: ChangeEntryRecord, change: ChangeRecord | None, forest: Forest, unit: PageUnit) -> ChangeRow:
    outcome = MetricOutcome(entry.outcome)
    paper = turns_chart(change, entry.direction, unit.text) if change is not None else None
    value, interval = _change(entry, change)
    lines = [entry.text] if outcome not in GOOD else []
    lines += [f"Look first at: {entry.suspect}"] if entry.suspect else []
    return ChangeRow(
        figure_name(entry),
        (unit.number(entry.a_bps), unit.number(entry.b_bps), _percent(value), _interval(interval)),
        VERDICTS[outcome],
        outcome_word(entry.outcome, entry.finding, interval, change.tolerance if change is not None else None),
        [unit.sentence(line) for line in lines],
        forest.row((value, interval), VERDICTS[outcome]),
        Markup(paper.inline()) if paper is not None else "",
    )


def _change(entry: ChangeEntryRecord, change: ChangeRecord | None) -> Change:
    one = change.directions.get(entry.direction) if change is not None else None
    return entry.change, one.interval if one is not None else None


def _interval(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{_percent(interval[0])} to {_percent(interval[1])}"


def earlier_gates(runs: Sequence[StoredRun], unit: PageUnit) -> list[dict[str, object]]:
    """Return the gates of the history, newest first, as the template shows them."""
    return [_gate(run, run.gate, unit) for run in reversed(runs) if run.gate is not None]


def _gate(run: StoredRun, gate: StoredGate, unit: PageUnit) -> dict[str, object]:
    forest = Forest.of(((one.change, one.interval) for one in gate.metrics), (one.tolerance for one in gate.metrics))
    rows = [
        ChangeRow(
            one.figure,
            (unit.number(one.a_bps), unit.number(one.b_bps), _percent(one.change), _interval(one.interval)),
            VERDICTS[MetricOutcome(one.outcome)],
            outcome_word(one.outcome, one.finding, one.interval, one.tolerance),
            [unit.sentence(f"Look first at: {one.suspect}")] if one.suspect else [],
            forest.row((one.change, one.interval), VERDICTS[MetricOutcome(one.outcome)]),
        )
        for one in gate.metrics
    ]
    return {
        "title": f"{run.started:%Y-%m-%d} {gate_text(gate)}",
        "verdict": _ANSWERS.get(gate.answer, Verdict.INCONCLUSIVE),
        "sentence": unit.sentence(gate.sentence),
        "facts": f"Run {run.id} in lab {run.lab}, {count(gate.turns, 'turn')}, pytest-pinet {run.pinet}.",
        "rows": rows,
        "forest": forest,
    }


def _exact_row(entry: ChangeEntryRecord, exact: ExactChangeRecord | None) -> ChangeRow:
    outcome = MetricOutcome(entry.outcome)
    cells = [cell.replace("%", "\u00a0%") for cell in (*sum_cells(exact), *rate_cells(entry, exact))]
    notes = [entry.text] if outcome not in GOOD else []
    word = entry.finding or outcome.value
    return ChangeRow(exact_label(entry.id), cells, VERDICTS[outcome], word, notes)


def _functions(nic: str, results: Sequence[ResultRecord]) -> dict[str, object]:
    """Return the functions of a NIC that changed, with a bar for each change."""
    found = function_rows(results)
    shown = found[:MOST_FUNCTIONS]
    widest = max((abs(row.record.change) for row in shown), default=0.0)
    return {
        "label": f"Functions of {nic} that changed",
        "heads": (*FUNCTION_HEADS, "instructions"),
        "rows": [(row, _bar(row, widest)) for row in shown],
        "more": len(found) - len(shown),
    }


def _bar(row: FunctionRow, widest: float) -> Markup:
    return Markup(change_bar(row.record.change, widest).inline(label=False))


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part * 100:+.2f}\u00a0%"


def _build_title(name: str, build: BuildRecord) -> str:
    if not build.key:
        return f"{name}: {build.name if build.name != 'running' else 'the build that is installed on the boards'}"
    release = f", kernel {build.release}" if build.release else ""
    return f"{name}: {build.name} ({build.key}{release})"


def _parts(build: BuildRecord, folder: str) -> list[tuple[str, str]]:
    """Return all parts of a build with the addresses to which they link, or none. ``folder`` is that of the run."""
    links = dict(source_lines(build.source, folder)) if build.source is not None else {}
    return [(part, links.get(part, "")) for part in build_parts(build, 64)]
