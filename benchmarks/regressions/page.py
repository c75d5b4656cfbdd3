"""Write docs/explanation/regressions.md from the table and the kept findings."""

from __future__ import annotations

from pathlib import Path

from benchmarks.regressions.run import Finding
from benchmarks.regressions.store import Store, control_key
from benchmarks.regressions.table import HARDWARE, ROWS, Row

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "regressions.md"

_HEAD = """\
# Reported regressions, injected

Would pytest-pinet have caught the regressions that people reported?

This page has 24 regressions of Raspberry Pi class boards from public issue threads. Each symptom is injected into a lab
from outside, and a test of the [suite `everyday`](../reference/suites.md) must fail and name the right value in its
sentence. Beside each row, the same test runs on the unchanged lab and must pass. `make regressions` runs all rows.
RPL#N is issue N of raspberrypi/linux.

- An injection is a symptom and no defect. A catch shows that the suite sees the symptom, not that it finds the cause.
- Each injection was written from the words of the report by a developer who had not read the metrics.
- "Missed" includes a verdict that blames the lab: a catch is a failure of the board (exit code 1).
- "Not run" is no catch. Seconds are wall time of the whole command, on a machine that did other work.
- All rows but 20 and 29 (`pinet watch`) run without the excuse for other work (`no_excuse.py`), and their controls too.
  The lab shares a machine with other programs, which would excuse a link that is slow on purpose. In a run of yours,
  connections that other work disturbed do not count. In rows 13 and 14, traffic of more than a minute lasts a sixth of
  its time (`faster.py`).
"""
_MEASURED = """\
Controls with the same letter are one run. "Measured" is the day, and the commit of the tree that ran. "Up to" a commit:
the finding came with this commit; the tree that ran had no later one.
"""
_SENTENCES = """\
At most 300 characters of each sentence. Findings "up to" a commit have the first line only.
"""


def written(store: Store) -> str:
    """Return the text of the page."""
    lines = [_HEAD, f"{_counts(store)}\n", "## Table\n"]
    lines += ["| # | report | symptom | where | caught by | seconds | measured | control |", f"{'|---' * 8}|"]
    lines += [_line(row, store) for row in ROWS]
    lines += ["", _MEASURED, "## What is injected\n"]
    lines += ["| # | injected | scale of time |", "|---|---|---|"]
    lines += [f"| {row.number} | {row.scenario or row.reason} | {row.scale or '1:1'} |" for row in ROWS]
    lines += ["", "## What the verdicts say\n", _SENTENCES, "| # | verdict |", "|---|---|"]
    for row in ROWS:
        found = store.row(row)
        if found is not None and found.text:
            lines.append(f"| {row.number} | {found.verdict or found.outcome}: {_cell(found.text)} |")
    return "\n".join(lines) + "\n"


def _counts(store: Store) -> str:
    """Return how many rows are caught, missed, not run, and for hardware only."""
    ran = [row for row in ROWS if row.where != HARDWARE]
    caught = sum(map(store.is_caught, ran))
    absent = sum(1 for row in ran if store.row(row) is None or store.control(row) is None)
    missed, hardware = len(ran) - caught - absent, len(ROWS) - len(ran)
    return f"Of {len(ROWS)}: {caught} caught, {missed} missed, {absent} not run, {hardware} hardware only."


def _line(row: Row, store: Store) -> str:
    report = f"{row.source}; {row.kernel}"
    if row.command is None:
        return f"| {row.number} | {report} | {row.symptom} | {row.where} | no: {row.reason} | | | |"
    found = store.row(row)
    by = f"{'' if found is None else found.outcome}: {row.command}" if found is not None else f"not run: {row.command}"
    seconds = "" if found is None else f"{found.seconds:.0f}"
    measured = "" if found is None else _when(found)
    control = _control(store.control(row), row)
    return f"| {row.number} | {report} | {row.symptom} | {row.where} | {by} | {seconds} | {measured} | {control} |"


def _control(found: Finding | None, row: Row) -> str:
    assert row.command is not None
    keys = list(dict.fromkeys(control_key(r.command) for r in ROWS if r.command is not None))
    letter = chr(ord("A") + keys.index(control_key(row.command)))
    return (
        f"{letter}: not run" if found is None else f"{letter}: {found.outcome}, {found.seconds:.0f} s; {_when(found)}"
    )


def _when(found: Finding) -> str:
    return ", ".join(filter(None, [found.day, found.commit]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
