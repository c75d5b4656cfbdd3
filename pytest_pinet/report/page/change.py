"""The page section on the newest change: its answer, each direction in both builds, and the builds."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.judge.change_verdict import MetricOutcome
from pytest_pinet.model.record.change import BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.record.run import RunRecord
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
from pytest_pinet.report.charts.paper import written
from pytest_pinet.report.charts.turns import turns_chart
from pytest_pinet.report.exact_record import EXACT
from pytest_pinet.report.exact_text import (
    FUNCTION_HEADS,
    MOST_FUNCTIONS,
    FunctionRow,
    board_lines,
    by_nic,
    exact_label,
    function_rows,
    sum_cells,
)
from pytest_pinet.report.page.words import linked, paragraph, runs_table, unbroken, verdict_html
from pytest_pinet.report.text_wrap import rate

_HEADS = ("metric", "A", "B", "change", "outcome", "turns in order")
_EXACT_HEADS = ("metric", "A", "B", "change", "goodput", "outcome")


def change_section(run: RunRecord, head: ChangeHeadRecord) -> str:
    """Return the section on the change that this run measured."""
    exact = head.baseline == EXACT
    rows = [(_exact_row if exact else _row)(entry, run.results) for entry in head.entries]
    meant = emulated_sentence(run)
    emulated = paragraph(meant, "note") if meant else ""
    place = "on exact boards" if exact else f"in lab {run.lab}"
    facts = f"Run {run.run} {place}, {turns_text(head)}, pytest-pinet {run.pinet}."
    table = _exact_tables(rows, run.results) if exact else _turn_table(rows)
    return (
        '<section id="change" aria-labelledby="change-head"><h2 id="change-head">The newest change</h2>'
        f'<p class="lead">{unbroken(head.sentence)}</p>{emulated}{table if rows else ""}'
        f"{_build('A', head.a, run.run)}{_build('B', head.b, run.run)}{_ran(head)}{paragraph(facts, 'muted')}</section>"
    )


def _turn_table(rows: Sequence[str]) -> str:
    return (
        runs_table("Metrics of the newest change", _HEADS, rows)
        + '<p class="muted">A (hollow, dashed) is the known-good build, B (filled) the one under test; each turn is a '
        "boot or a load of its build. The interval of the change is below it.</p>"
    )


def _exact_tables(rows: Sequence[str], results: Sequence[ResultRecord]) -> str:
    """Return the metrics of an exact gate, and below it the functions that changed, with a bar for each change."""
    tables = runs_table("Metrics of the newest change", _EXACT_HEADS, rows)
    meant = "A and B are instructions per packet (requests: per answer). Each value repeats to the last digit."
    tables += paragraph(meant, "muted")
    for nic, own in by_nic(results).items():
        shown = function_rows(own)
        if shown:
            widest = max(abs(row.record.change) for row in shown[:MOST_FUNCTIONS])
            lines = [_function_row(row, widest) for row in shown[:MOST_FUNCTIONS]]
            label = f"Functions of {nic} that changed"
            tables += f"<h3>{written(label)}</h3>{runs_table(label, (*FUNCTION_HEADS, 'instructions'), lines)}"
            more = len(shown) - MOST_FUNCTIONS
            tables += paragraph(f"And {more} more functions, in results.json.", "muted") if more > 0 else ""
    return tables + "".join(paragraph(text, "muted") for text in board_lines(results))


def _exact_row(entry: ChangeEntryRecord, results: Sequence[ResultRecord]) -> str:
    outcome = MetricOutcome(entry.outcome)
    exact = next((one.exact for one in results if one.id == entry.id), None)
    cells = [cell.replace("%", "\u00a0%") for cell in sum_cells(exact)]
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in (*cells, _percent(entry.change)))
    notes = f'<br><span class="what">{unbroken(entry.text)}</span>' if outcome not in GOOD else ""
    return (
        f'<tr><th scope="row">{written(exact_label(entry.id))}{notes}</th>{numbers}'
        f"<td>{verdict_html(VERDICTS[outcome], entry.finding or outcome.value)}</td></tr>"
    )


def _function_row(row: FunctionRow, widest: float) -> str:
    name, *cells = row.cells
    notes = "".join(f'<br><span class="what">{written(note)}</span>' for note in row.notes)
    where, *numbers = cells
    shown = "".join(f'<td class="number">{number}</td>' for number in numbers)
    bar = change_bar(row.record.change, widest).inline(label=False)
    return f'<tr><th scope="row">{written(name)}{notes}</th><td>{written(where)}</td>{shown}<td>{bar}</td></tr>'


def _ran(head: ChangeHeadRecord) -> str:
    """Return what ran, and what of it is not proved, as folded HTML; empty if nothing is known."""
    items = "".join(f"<li>{written(text)}</li>" for text in ran_sentences(head))
    count = f", {len(head.not_proved)} not proved" if head.not_proved else ""
    return f"<details><summary>What ran{count}</summary><ul>{items}</ul></details>" if items else ""


def _row(entry: ChangeEntryRecord, results: Sequence[ResultRecord]) -> str:
    outcome = MetricOutcome(entry.outcome)
    changes = [one.change for one in results if one.id == entry.id and one.change is not None]
    chart, interval = "", ""
    if changes and entry.direction in changes[0].directions:
        one = changes[0].directions[entry.direction]
        paper = turns_chart(changes[0], entry.direction)
        chart = paper.inline() if paper is not None else ""
        low, high = one.interval or (None, None)
        interval = f"<br>{_percent(low)} to {_percent(high)}" if low is not None and high is not None else ""
    rates = [rate(bps) if bps is not None else "-" for bps in (entry.a_bps, entry.b_bps)]
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in (*rates, f"{_percent(entry.change)}{interval}"))
    lines = [entry.text] if outcome not in GOOD else []
    lines += [f"Look first at: {entry.suspect}"] if entry.suspect else []
    notes = "".join(f'<br><span class="what">{unbroken(line)}</span>' for line in lines)
    return (
        f'<tr><th scope="row">{written(figure_name(entry))}{notes}</th>{numbers}'
        f'<td>{verdict_html(VERDICTS[outcome], entry.finding or outcome.value)}</td><td class="turns">{chart}</td></tr>'
    )


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part * 100:+.2f}\u00a0%"


def _build(name: str, build: BuildRecord, run: str) -> str:
    """Return a build as folded HTML, with its source and the hash of every file."""
    if not build.key:
        what = build.name if build.name != "running" else "the build that is installed on the boards"
        return paragraph(f"{name}: {what}")
    release = f", kernel {build.release}" if build.release else ""
    source = [] if build.source is None else source_lines(build.source, f".pinet/runs/{run}")
    links = dict(source)
    items = "".join(f"<li>{linked(part, links.get(part, ''))}</li>" for part in build_parts(build, 64))
    title = written(f"{name}: {build.name} ({build.key}{release})")
    return f"<details><summary>{title}</summary><ul>{items}</ul></details>"
