"""Generates docs/contributing/soak.md from docs/contributing/soak.json alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from tools.soak.record import Statement

HEAD = """\
# Statements that need many runs

`make soak` runs the test of each statement below as often as the table says, and generates this page from
`docs/contributing/soak.json`. An interrupted `make soak` continues where it stopped: a statement that has all its runs
does not run again. CI does not run these tests.

- A statement *held* if it has all its runs and no more of them failed than allowed. It held *so far* if runs are
  missing.
- The tests are in `tests/soak/`. `make soak ARGS="-k WORD"` runs the statements whose sentence or test contains the
  word, `ARGS=--list` lists all, and `ARGS="-k WORD --again"` deletes earlier runs first.
- The statements on goodput, sharing and cost need a machine without other work.
"""


def page(statements: Sequence[Statement]) -> str:
    """Return the whole page."""
    machines = sorted({result.machine for one in statements for result in one.results})
    states = Counter(one.state for one in statements)
    counts = ", ".join(f"{states[name]} {name}" for name in ("held", "held so far", "not held", "not yet run"))
    lines = [HEAD, f"{len(statements)} statements: {counts}."]
    for family, members in groupby(statements, key=lambda one: one.family):
        lines += ["", f"## {family}", "", "| statement | result | runs | failures | date | commit | machine |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        shown = list(members)
        lines += [_row(one, machines) for one in shown]
        reasons = [f"- {one.statement} Latest failure: {reason}" for one in shown if (reason := _reason(one))]
        lines += ["", *reasons] if reasons else []
    if machines:
        lines += ["", "## Machines", "", *(f"{number}. {name}" for number, name in enumerate(machines, start=1))]
    return "\n".join(lines) + "\n"


def _row(one: Statement, machines: Sequence[str]) -> str:
    cells = [one.statement, one.state]
    cells += [f"{one.ran} of {one.runs}" if one.ran < one.runs else str(one.ran)]
    cells += [f"{one.failures}, {one.allowed} allowed" if one.ran else f"{one.allowed} allowed"]
    cells += [max((result.date for result in one.results), default="-")]
    cells += [_unique(result.commit for result in one.results)]
    cells += [_unique(str(machines.index(result.machine) + 1) for result in one.results)]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _unique(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words)) or "-"


def _reason(one: Statement) -> str:
    reason = next((result.reason for result in reversed(one.results) if result.reason), "")
    return f"`{reason.replace('`', chr(39))}`" if reason else ""
