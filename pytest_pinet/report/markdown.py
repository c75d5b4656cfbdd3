"""Formats a run as Markdown, for the page of a CI job or a merge request. The verdict in words comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.change_markdown import change_markdown
from pytest_pinet.report.change_words import change_in_words
from pytest_pinet.report.markdown_text import escaped, folded
from pytest_pinet.report.rows import ResultRow, rows_of
from pytest_pinet.report.sentences import scale_text
from pytest_pinet.report.table import markdown_table
from pytest_pinet.report.terminal import WORDS, count_line
from pytest_pinet.report.text_wrap import rate

# GitHub limits a comment to 65536 characters. The page of a job may be longer.
MOST_CHARACTERS = 60_000
_GOOD = (Verdict.PASS, Verdict.MARGINAL, Verdict.IMPROVED)
_MARKS = {
    Verdict.PASS: "\u2705",
    Verdict.MARGINAL: "\u26a0\ufe0f",
    Verdict.IMPROVED: "\u2b06\ufe0f",
    Verdict.FAIL: "\u274c",
    Verdict.INCONCLUSIVE: "\u2753",
    Verdict.INVALID: "\u2753",
    Verdict.ERROR: "\U0001f527",
    Verdict.SKIPPED: "\u23ed\ufe0f",
}


def verdict_in_words(run: RunRecord) -> str:
    """Return the verdict on the run as one sentence."""
    if run.change is not None:
        return change_in_words(run, run.change)
    verdicts = Counter(Verdict(result.verdict) for result in run.results)
    measured = sum(bool(result.directions) or result.ping is not None for result in run.results)
    if verdicts[Verdict.FAIL]:
        sentence = f"Throughput fails in {verdicts[Verdict.FAIL]} of {measured} measurements."
    elif not measured:
        sentence = "Nothing was measured, so nothing is known."
    elif bad := [verdict for verdict in verdicts if verdict not in (*_GOOD, Verdict.SKIPPED)]:
        said = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in sorted(bad))
        sentence = f"No verdict: nothing failed, but {said} of {len(run.results)} measurements."
    else:
        said = f"all {measured} measurements keep their limits" if measured > 1 else "one measurement keeps its limit"
        sentence = f"Throughput holds: {said}."
    if run.figures == "emulated":
        sentence += " The values are emulated."
    if scaled := scale_text(run.results):
        sentence += f" {scaled.capitalize()}."
    return sentence if run.complete else f"{sentence} The run was interrupted."


def summary_markdown(run: RunRecord, most: int = MOST_CHARACTERS) -> str:
    """Return the whole page. Passed results are folded, and left out if the page gets too long."""
    if run.change is not None:
        return change_markdown(run, run.change, most)
    rows = rows_of(run.results)
    bad = [row for row in rows if row.verdict is not Verdict.PASS]
    good = [row for row in rows if row.verdict is Verdict.PASS]
    head = [f"## {verdict_in_words(run)}", "", escaped(count_line(run.results, run.skipped)), ""]
    head += _table(bad)
    tail = _skipped(run) + _builds(run.results)
    foot = f"Run {run.run}, lab {run.lab}, {run.started}, pytest-pinet {run.pinet}"
    tail.append(f"<sub>{escaped(foot)}</sub>")
    text = "\n".join(head)
    for result in run.results:
        block = _message(result)
        if block and len(text) + len(block) < most // 2:
            text += f"\n{block}"
    end = "\n" + "\n".join(tail) + "\n"
    while good:
        folded = (
            f"\n<details{'' if bad else ' open'}><summary>{len(good)} that pass</summary>\n\n"
            + "\n".join(_table(good))
            + "\n</details>\n"
        )
        if len(text) + len(folded) + len(end) <= most:
            text += folded
            break
        good = good[: len(good) // 2]
    return (text + end)[:most] if len(text + end) > most else text + end


def _table(rows: Sequence[ResultRow]) -> list[str]:
    if not rows:
        return []
    cells: list[tuple[str, ...]] = [("combination", "dir", "goodput", "limit", "of max", "verdict")]
    for row in rows:
        share = row.share
        cells.append(
            (
                "<br>".join(map(escaped, (row.label, *row.extra))),
                row.direction or "-",
                "-" if row.goodput_bps is None else rate(row.goodput_bps),
                "-" if row.limit_bps is None else rate(row.limit_bps),
                "-" if share is None else f"{share * 100:.1f} %",
                f"{_MARKS[row.verdict]} {WORDS[row.verdict]}",
            )
        )
    return markdown_table(cells, "<<>>><")


def _message(result: ResultRecord) -> str:
    """Return the folded terminal message of a result that is not good, with the command that repeats the test."""
    if Verdict(result.verdict) in (Verdict.PASS, Verdict.IMPROVED, Verdict.SKIPPED) or not result.message:
        return ""
    lines = result.message.splitlines()
    if result.rerun and not any(result.rerun in line for line in lines):
        lines.append(f"rerun: {result.rerun}")
    return folded(f"{escaped(result.combination.id)}: {WORDS[Verdict(result.verdict)]}", lines)


def _skipped(run: RunRecord) -> list[str]:
    if not run.skipped:
        return []
    by_reason: dict[str, list[str]] = {}
    for skip in run.skipped:
        by_reason.setdefault(skip.reason, []).append(skip.id)
    lines = [f"<details><summary>{len(run.skipped)} not measured</summary>", ""]
    lines += [f"- {escaped(', '.join(ids))}: {escaped(reason)}" for reason, ids in by_reason.items()]
    return [*lines, "</details>", ""]


def _builds(results: Sequence[ResultRecord]) -> list[str]:
    """Return the list of measured builds, each once."""
    found: dict[tuple[str, ...], list[str]] = {}
    for result in results:
        build = result.build
        parts = tuple(f"{key} {value}" for key, value in build.items() if value and key != "bus_info")
        if parts:
            found.setdefault(parts, []).append(f"{result.combination.board}:{result.combination.nic}")
    if not found:
        return []
    lines = [f"<details><summary>{len(found)} build{'s' if len(found) > 1 else ''}</summary>", ""]
    lines += [
        f"- {', '.join(dict.fromkeys(map(escaped, ends)))}: {escaped(', '.join(parts))}"
        for parts, ends in found.items()
    ]
    return [*lines, "</details>", ""]
