"""Write docs/explanation/regressions.md from the table and the kept findings."""

from __future__ import annotations

from pathlib import Path

from benchmarks.regressions.run import CAUGHT, Finding
from benchmarks.regressions.store import Store, control_key
from benchmarks.regressions.table import HARDWARE, ROWS, Row

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "regressions.md"

_HEAD = """\
# Reported regressions, injected

Would pytest-pinet have caught the regressions that people reported?

This page has 24 regressions of Raspberry Pi class boards from public issue threads. Each symptom is injected into a lab
from outside, and a test of the [suite `everyday`](../reference/suites.md) must fail and name the right value. Beside
each row, the same test runs on the unchanged lab and must pass. `make regressions` runs all rows. RPL#N is issue N of
raspberrypi/linux.

- An injection is a symptom and no defect. A catch shows that the suite sees the symptom, not that it finds the cause.
- Each injection was written from the words of the report by a developer who had not read the metrics.
- "Missed" includes a verdict that blames the lab: a catch is a failure of the board (exit code 1).
- "Not run" is no catch. Seconds are wall time of the whole command, on a machine that did other work.
"""


def written(store: Store) -> str:
    """Return the text of the page."""
    lines = [_HEAD, f"{_counts(store)}\n", "## Table\n"]
    lines += ["| # | report | symptom | where | caught by | seconds | control |", "|---|---|---|---|---|---|---|"]
    lines += [_line(row, store) for row in ROWS]
    lines += ["", "Controls with the same letter are one run.", "", "## What is injected\n"]
    lines += ["| # | injected | scale of time |", "|---|---|---|"]
    lines += [f"| {row.number} | {row.scenario or row.reason} | {row.scale or '1:1'} |" for row in ROWS]
    lines += ["", "## What the verdicts say\n", "| # | verdict |", "|---|---|"]
    for row in ROWS:
        found = store.row(row)
        if found is not None and found.text:
            lines.append(f"| {row.number} | {found.verdict or found.outcome}: {_cell(found.text)} |")
    return "\n".join(lines) + "\n"


def _counts(store: Store) -> str:
    """Return how many rows are caught, missed, not run, and for hardware only."""
    ran = [(row, store.row(row)) for row in ROWS if row.where != HARDWARE]
    caught = sum(1 for _, found in ran if found is not None and found.outcome == CAUGHT)
    absent = sum(1 for _, found in ran if found is None)
    missed, hardware = len(ran) - caught - absent, len(ROWS) - len(ran)
    return f"Of {len(ROWS)}: {caught} caught, {missed} missed, {absent} not run, {hardware} hardware only."


def _line(row: Row, store: Store) -> str:
    report = f"{row.source}; {row.kernel}"
    if row.command is None:
        return f"| {row.number} | {report} | {row.symptom} | {row.where} | no: {row.reason} | | |"
    found = store.row(row)
    by = f"{'' if found is None else found.outcome}: {row.command}" if found is not None else f"not run: {row.command}"
    seconds = "" if found is None else f"{found.seconds:.0f}"
    control = _control(store.control(row), row)
    return f"| {row.number} | {report} | {row.symptom} | {row.where} | {by} | {seconds} | {control} |"


def _control(found: Finding | None, row: Row) -> str:
    assert row.command is not None
    keys = list(dict.fromkeys(control_key(r.command) for r in ROWS if r.command is not None))
    letter = chr(ord("A") + keys.index(control_key(row.command)))
    return f"{letter}: not run" if found is None else f"{letter}: {found.outcome}, {found.seconds:.0f} s"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
