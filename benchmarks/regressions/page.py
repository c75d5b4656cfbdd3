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
from outside, and a test of the suite `everyday` must fail and name the right value. Beside each row, the same test runs
on the unchanged lab and must pass. `make regressions` runs all rows and writes nothing;
`python -m benchmarks.regressions --publish` writes this page.

An injection is a symptom and no defect: that a test catches it shows that the measurement sees the symptom, not that
it would find the cause. Each injection was written from the words of the report by someone who had not read the
metrics. RPL#N is issue N of raspberrypi/linux.
"""


def written(store: Store) -> str:
    """Return the text of the page."""
    caught = sum(1 for row in ROWS if (found := store.row(row)) is not None and found.outcome == CAUGHT)
    hardware = sum(1 for row in ROWS if row.where == HARDWARE)
    lines = [_HEAD, f"**{caught} of {len(ROWS)} are caught; {hardware} needs hardware.**\n", "## Table\n"]
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
