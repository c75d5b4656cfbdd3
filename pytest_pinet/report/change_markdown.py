"""Formats the answer on a change as Markdown, for the page of a CI job or a merge request."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.judge.change_verdict import MetricOutcome
from pytest_pinet.model.record.change import BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.report.change_words import build_parts, change_in_words, emulated_sentence, figure_name
from pytest_pinet.report.markdown_text import escaped, folded
from pytest_pinet.report.table import SIDES, markdown_table, side_cells

_MARKS = {
    MetricOutcome.REGRESSION: "\u274c",
    MetricOutcome.FINDING: "\u274c",
    MetricOutcome.LAB_ERROR: "\U0001f527",
    MetricOutcome.UNDECIDED: "\u2753",
    MetricOutcome.IMPROVED: "\u2b06\ufe0f",
    MetricOutcome.UNCHANGED: "\u2705",
}


def change_markdown(run: RunRecord, head: ChangeHeadRecord, most: int) -> str:
    """Return the whole page, at most ``most`` characters long. Unchanged directions are folded."""
    bad = [entry for entry in head.entries if entry.outcome != MetricOutcome.UNCHANGED]
    same = [entry for entry in head.entries if entry.outcome == MetricOutcome.UNCHANGED]
    parts = [f"## {escaped(change_in_words(run, head))}", ""]
    if run.meaning is not None and (meant := emulated_sentence(run)):
        parts += [escaped(meant), ""]
    parts += _table(bad)
    parts += [f"- {escaped(figure_name(entry))}: {escaped(_cause(entry))}" for entry in bad if _cause(entry)]
    if same:
        parts += ["", f"<details><summary>{len(same)} unchanged</summary>", "", *_table(same), "</details>", ""]
    parts += [_build(name, build) for name, build in (("A", head.a), ("B", head.b))]
    foot = f"Run {run.run}, lab {run.lab}, {head.turns} turns, {run.started}, pytest-pinet {run.pinet}"
    end = f"\n<sub>{escaped(foot)}</sub>\n"
    text = "\n".join(parts) + "\n"
    for result in run.results:
        block = _message(result)
        if block and len(text) + len(block) + len(end) < most:
            text += f"\n{block}"
    return (text + end)[:most]


def _table(entries: Sequence[ChangeEntryRecord]) -> list[str]:
    if not entries:
        return []
    cells: list[tuple[str, ...]] = [("metric", "A", "B", "change", "outcome")]
    for entry in entries:
        a, b, _ = side_cells(entry.a_bps, entry.b_bps, None)
        change = "-" if entry.change is None else f"{entry.change * 100:+.2f} %"
        outcome = f"{_MARKS[MetricOutcome(entry.outcome)]} {escaped(entry.finding or entry.outcome)}"
        cells.append((escaped(figure_name(entry)), a, b, change, outcome))
    return markdown_table(cells, SIDES)


def _cause(entry: ChangeEntryRecord) -> str:
    look = f"look first at {entry.suspect}" if entry.suspect else ""
    return "; ".join(filter(None, [entry.text, look]))


def _build(name: str, build: BuildRecord) -> str:
    """Return a build as folded Markdown, with the hash of every file."""
    if not build.key:
        return f"{name}: {escaped(build.name)}\n"
    release = f", kernel {build.release}" if build.release else ""
    lines = [f"<details><summary>{name}: {escaped(build.name)} ({build.key}{escaped(release)})</summary>", ""]
    return "\n".join([*lines, *(f"- {escaped(part)}" for part in build_parts(build, 16)), "</details>", ""])


def _message(result: ResultRecord) -> str:
    """Return the folded terminal message of a result that is not good; empty for a good one."""
    if result.verdict in ("pass", "marginal", "improved", "skipped") or not result.message:
        return ""
    return folded(f"{escaped(result.combination.id)}: {result.verdict}", result.message.splitlines())
