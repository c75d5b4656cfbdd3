"""The page section on the newest change: its answer, each direction in both builds, and the builds."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.judge.change_verdict import MetricOutcome
from pytest_pinet.model.record.change import BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.report.change_table import GOOD, VERDICTS, build_parts, emulated_sentence, figure_name, ran_sentences
from pytest_pinet.report.charts.paper import written
from pytest_pinet.report.charts.turns import turns_chart
from pytest_pinet.report.diagrams.facts import count
from pytest_pinet.report.page.words import paragraph, runs_table, unbroken, verdict_html
from pytest_pinet.report.text_wrap import rate

_HEADS = ("metric", "A", "B", "change", "outcome", "turns in order")


def change_section(run: RunRecord, head: ChangeHeadRecord) -> str:
    """Return the section on the change that this run measured."""
    rows = [_row(entry, run.results) for entry in head.entries]
    meant = emulated_sentence(run)
    emulated = paragraph(meant, "note") if meant else ""
    facts = f"Run {run.run} in lab {run.lab}, {count(head.turns, 'turn')}, pytest-pinet {run.pinet}."
    table = (
        runs_table("Metrics of the newest change", _HEADS, rows)
        + '<p class="muted">A (hollow, dashed) is the known-good build, B (filled) the one under test; each turn is a '
        "boot or a load of its build. The interval of the change is below it.</p>"
    )
    return (
        '<section id="change" aria-labelledby="change-head"><h2 id="change-head">The newest change</h2>'
        f'<p class="lead">{unbroken(head.sentence)}</p>{emulated}{table if rows else ""}'
        f"{_build('A', head.a)}{_build('B', head.b)}{_ran(head)}{paragraph(facts, 'muted')}</section>"
    )


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


def _build(name: str, build: BuildRecord) -> str:
    """Return a build as folded HTML, with the hash of every file."""
    if not build.key:
        what = build.name if build.name != "running" else "the build that is installed on the boards"
        return paragraph(f"{name}: {what}")
    release = f", kernel {build.release}" if build.release else ""
    items = "".join(f"<li>{written(part)}</li>" for part in build_parts(build, 64))
    title = written(f"{name}: {build.name} ({build.key}{release})")
    return f"<details><summary>{title}</summary><ul>{items}</ul></details>"
