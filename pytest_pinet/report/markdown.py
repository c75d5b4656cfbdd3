"""Formats a run as Markdown, for the page of a CI job or a merge request. The verdict in words comes first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.history.points import gate_of, gated_figure
from pytest_pinet.model.record.change import EXACT, BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import GOOD, Verdict
from pytest_pinet.report.change_table import (
    build_parts,
    change_in_words,
    counts_text,
    emulated_sentence,
    entry_cells,
    ran_sentences,
    run_when_text,
    turns_text,
)
from pytest_pinet.report.exact_text import (
    FUNCTION_HEADS,
    METRIC_COLUMNS,
    METRIC_HEADS,
    METRIC_SENTENCE,
    MOST_FUNCTIONS,
    board_lines,
    by_nic,
    exact_cells,
    exact_label,
    function_rows,
)
from pytest_pinet.report.sentences import scale_text
from pytest_pinet.report.terminal import (
    WORDS,
    ResultRow,
    by_reason,
    count_line,
    more_cells,
    not_begun,
    rows_of,
)
from pytest_pinet.report.text_wrap import SIDES, copyable, count, markdown_table, rate, written

# GitHub limits a comment to 65536 characters. The page of a job may be longer.
MOST_CHARACTERS = 60_000
LINES_OF_MESSAGE = 30
MOST_LOSSES = 20
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$])")
# What forges make of plain text, also of escaped text: mentions, references (#12, !12, GH-12), links to other sites,
# and commands at the begin of a line (/close).
_REFERENCE = re.compile(r"(@|[#!$%&~^](?=\w)|\bGH-(?=\d)|\bwww(?=\.)|:(?=//)|^/)", re.IGNORECASE)
_ZERO_WIDTH_SPACE = "\u200b"
MARKS = {
    Verdict.PASS: "\u2705",
    Verdict.MARGINAL: "\u26a0\ufe0f",
    Verdict.IMPROVED: "\u2b06\ufe0f",
    Verdict.FAIL: "\u274c",
    Verdict.INCONCLUSIVE: "\u2753",
    Verdict.INVALID: "\u2753",
    Verdict.ERROR: "\U0001f527",
    Verdict.SKIPPED: "\u23ed\ufe0f",
}

# A metric of a change, and its outcome in a word.
_Row = tuple[ChangeEntryRecord, str]


def verdict_in_words(run: RunRecord) -> str:
    """Return the verdict on the run as one sentence."""
    if run.change is not None:
        return change_in_words(run, run.change)
    verdicts = Counter(result.verdict for result in run.results)
    measured = sum(bool(result.directions) or result.has_no_rate for result in run.results)
    if verdicts[Verdict.FAIL]:
        sentence = f"Throughput fails in {verdicts[Verdict.FAIL]} of {measured} measurements."
    elif not measured:
        sentence = "Nothing was measured, so there is no verdict."
    elif bad := [verdict for verdict in verdicts if verdict not in (*GOOD, Verdict.SKIPPED)]:
        said = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in sorted(bad))
        sentence = f"No verdict: nothing failed, but {said} of {len(run.results)} measurements."
    else:
        said = f"all {measured} measurements meet their limits" if measured > 1 else "one measurement meets its limit"
        # A record can be all that is left of a run: the tests that it lacks may have failed.
        sentence = f"Throughput holds: {said}." if run.complete else f"No verdict: nothing failed, and {said}."
    if run.figures == "emulated":
        sentence += " The values are emulated."
    if scaled := scale_text(run.results):
        sentence += f" {scaled.capitalize()}."
    return sentence if run.complete else f"{sentence} The run was interrupted."


def summary_markdown(run: RunRecord, most: int = MOST_CHARACTERS, losses: Sequence[str] = ()) -> str:
    """Return the whole page. Passed results are folded, and left out if the page gets too long.

    ``losses`` are lines about the losses of the lab (`report.sentences`), the first one a heading.
    """
    if run.change is not None:
        return _change_markdown(run, run.change, most, losses)
    begun = [result for result in run.results if not result.not_begun]
    rows = rows_of(begun)
    bad = [row for row in rows if row.verdict is not Verdict.PASS]
    good = [row for row in rows if row.verdict is Verdict.PASS]
    head = [f"## {verdict_in_words(run)}", "", escaped(count_line(run.results, run.skipped)), ""]
    head += _losses(losses) + _table(bad)
    tail = _skipped(run) + _builds(run.results)
    foot = f"Run {run.run}, lab {run.lab}, {run.started}, pytest-pinet {run.pinet}"
    tail.append(f"<sub>{escaped(foot)}</sub>")
    text = "\n".join(head)
    for result in begun:
        block = _message(result)
        if block and len(text) + len(block) < most // 2:
            text += f"\n{block}"
    end = "\n" + "\n".join(tail) + "\n"
    while good:
        passed = (
            f"\n<details{'' if bad else ' open'}><summary>{len(good)} that pass</summary>\n\n"
            + "\n".join(_table(good))
            + "\n</details>\n"
        )
        if len(text) + len(passed) + len(end) <= most:
            text += passed
            break
        good = good[: len(good) // 2]
    return (text + end)[:most]


def _table(rows: Sequence[ResultRow]) -> list[str]:
    if not rows:
        return []
    heads, *more = more_cells(rows)
    cells: list[tuple[str, ...]] = [("combination", "dir", "goodput", "limit", "of max", *heads, "verdict")]
    for row, own in zip(rows, more, strict=True):
        share = row.share
        cells.append(
            (
                "<br>".join(map(escaped, (row.label, *row.extra))),
                row.direction or "-",
                *(row.figure or (rate(row.goodput_bps), rate(row.limit_bps))),
                "-" if share is None else f"{share * 100:.1f} %",
                *(one.replace("%", " %") for one in own),
                f"{MARKS[row.verdict]} {WORDS[row.verdict]}",
            )
        )
    return markdown_table(cells, f"<<>>>{'>' * len(heads)}<")


def _message(result: ResultRecord) -> str:
    """Return the folded terminal message of a result that is not good, with the command that repeats the test."""
    if result.verdict in (Verdict.PASS, Verdict.IMPROVED, Verdict.SKIPPED) or not result.message:
        return ""
    lines = result.message.splitlines()
    if result.rerun and not any(result.rerun in line for line in lines):
        lines.append(f"rerun: {result.rerun}")
    return folded(f"{result.combination.id}: {WORDS[result.verdict]}", lines)


def _skipped(run: RunRecord) -> list[str]:
    missed = [*run.skipped, *not_begun(run.results)]
    if not missed:
        return []
    lines = [f"- {escaped(', '.join(ids))}: {escaped(reason)}" for reason, ids in by_reason(missed).items()]
    return details(f"{len(missed)} not measured", lines)


def _builds(results: Sequence[ResultRecord]) -> list[str]:
    """Return the list of measured builds, each once."""
    found = grouped(
        (parts, f"{result.combination.board}:{result.combination.nic}")
        for result in results
        if (parts := tuple(f"{key} {value}" for key, value in result.build.items() if value and key != "bus_info"))
    )
    if not found:
        return []
    lines = [
        f"- {', '.join(dict.fromkeys(map(escaped, ends)))}: {escaped(', '.join(parts))}"
        for parts, ends in found.items()
    ]
    return details(count(len(found), "build"), lines)


def details(title: str, lines: Sequence[str]) -> list[str]:
    """Return Markdown lines, folded below a title."""
    # Markdown is not read on a line that begins with a tag, so that its escapes would stay, and tags would count.
    return [f"<details><summary>{written(_unlinked(title))}</summary>", "", *lines, "</details>", ""]


def _losses(lines: Sequence[str]) -> list[str]:
    """Return the losses as a list below a bold line."""
    if not lines:
        return []
    head, *rest = lines[: MOST_LOSSES + 1]
    more = len(lines) - 1 - len(rest)
    rest += [f"and {more} more: pinet losses"] if more else []
    return [f"**{escaped(head)}**", "", *(f"- {escaped(line)}" for line in rest), ""]


def _change_markdown(run: RunRecord, head: ChangeHeadRecord, most: int, losses: Sequence[str]) -> str:
    """Return the whole page, at most ``most`` characters long. Unchanged directions are folded."""
    gate = gate_of(head, run.results)
    rows = [(entry, gate.word(one)) for entry, one in zip(head.entries, gate.entries, strict=True)]
    bad = [row for row in rows if row[0].verdict is not Verdict.PASS]
    same = [row for row in rows if row[0].verdict is Verdict.PASS]
    parts = [f"## {escaped(change_in_words(run, head))}", ""]
    if run.meaning is not None and (meant := emulated_sentence(run)):
        parts += [escaped(meant), ""]
    exact = head.baseline == EXACT
    parts += [METRIC_SENTENCE, ""] if exact and head.entries else []
    parts += _metrics(bad, run.results, exact)
    parts += _causes([entry for entry, _ in bad])
    if same:
        table = _metrics(same, run.results, exact)
        parts += ["", *details(counts_text(gate, Verdict.PASS), table)]
    parts += function_tables(run.results) if exact else []
    parts += _skipped(run)
    parts += [_build(name, build) for name, build in (("A", head.a), ("B", head.b))]
    parts += _losses(losses)
    if ran := ran_sentences(head):
        unproved = f", {len(head.not_proved)} not proved" if head.not_proved else ""
        parts += ["", *details(f"what ran{unproved}", [f"- {escaped(text)}" for text in ran])]
    foot = f"Run {run.run}, lab {run.lab}, {turns_text(head)}, {run_when_text(run)}, pytest-pinet {run.pinet}"
    end = f"\n<sub>{escaped(foot)}</sub>\n"
    text = "\n".join(parts) + "\n"
    undecided: set[str] = set()
    for result in run.results:
        if result.verdict in GOOD or result.verdict is Verdict.SKIPPED or not result.message:
            continue
        if result.verdict is Verdict.INCONCLUSIVE:
            # Why an exact gate judges nothing stands once.
            reasons = {direction.reason for direction in result.directions.values()}
            if reasons and reasons <= undecided:
                continue
            undecided |= reasons
        block = folded(f"{result.combination.id}: {result.verdict}", result.message.splitlines())
        if len(text) + len(block) + len(end) < most:
            text += f"\n{block}"
    return (text + end)[:most]


def _causes(entries: Sequence[ChangeEntryRecord]) -> list[str]:
    """Return a line for each cause, with the first metric that has it."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        look = f"look first at: {entry.suspect}" if entry.suspect else ""
        if cause := "; ".join(filter(None, [entry.text, look])):
            found.setdefault(cause, []).append(escaped(gated_figure(entry)))
    return [
        f"- {own[0]}{f' and {len(own) - 1} more' if len(own) > 1 else ''}: {escaped(cause)}"
        for cause, own in found.items()
    ]


def _metrics(rows: Sequence[_Row], results: Sequence[ResultRecord], exact: bool) -> list[str]:
    """Return the metrics: goodput of A and B; of an exact gate instructions for each packet and rates."""
    if not rows:
        return []
    found = {one.key: one.exact for one in results}
    cells: list[tuple[str, ...]] = [METRIC_HEADS if exact else ("metric", "A", "B", "change", "outcome")]
    for entry, word in rows:
        name = exact_label(entry.id) if exact else gated_figure(entry)
        values = exact_cells(entry, found.get(entry.result_key)) if exact else entry_cells(entry, digits=2)
        outcome = f"{MARKS[entry.verdict]} {escaped(word)}"
        cells.append((escaped(name), *(one.replace("%", " %") for one in values), outcome))
    return markdown_table(cells, METRIC_COLUMNS if exact else SIDES)


def function_tables(results: Sequence[ResultRecord]) -> list[str]:
    """Return the functions of each NIC that changed, with their files."""
    lines: list[str] = []
    for nic, own in by_nic(results).items():
        rows = function_rows(own)
        if rows:
            title = f"Functions of {escaped(nic)} that changed, in instructions per packet (requests: per answer)"
            cells = [
                (*FUNCTION_HEADS, ""),
                *((*map(escaped, row.cells), escaped("; ".join(row.notes))) for row in rows),
            ]
            lines += [title, "", *markdown_table(cells[: MOST_FUNCTIONS + 1], "<<>>><")]
            more = len(rows) - MOST_FUNCTIONS
            lines += [f"and {more} more functions, in results.json", ""] if more > 0 else []
    return [*lines, *(f"{escaped(text)}\n" for text in board_lines(results))]


def _build(name: str, build: BuildRecord) -> str:
    """Return a build as folded Markdown, with the hash of every file."""
    if not build.key:
        return f"{name}: {escaped(build.name)}\n"
    return "\n".join(details(f"{name}: {build.title}", [f"- {escaped(part)}" for part in build_parts(build, 16)]))


def escaped(text: str) -> str:
    """Return any text on one line of Markdown that a forge shows as it is: no markup, mention, reference or command."""
    return _SPECIAL.sub(r"\\\1", _unlinked(" ".join(text.split())))


def _unlinked(text: str) -> str:
    return _REFERENCE.sub(rf"\1{_ZERO_WIDTH_SPACE}", copyable(text))


def folded(title: str, lines: Sequence[str]) -> str:
    """Return the first lines of a message unchanged, folded below a title."""
    text = "\n".join(copyable(line).replace("```", "'''") for line in lines[:LINES_OF_MESSAGE])
    return "\n".join(details(title, ["```text", text, "```"]))
