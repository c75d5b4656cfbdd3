"""Generates docs/contributing/soak.md from docs/contributing/soak.json alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tools.soak.record import Statement

HEAD = """\
# Statements that need many runs

`make soak` runs the test of each statement in `tests/soak/` as often as its mark says, and generates this page. CI does
not run these tests. `docs/contributing/soak.json` has all statements, with their runs, failures, dates and machines.

- A statement *held* if it has all its runs and no more of them failed than allowed. It held *so far* if runs are
  missing.
- `make soak ARGS="-k WORD"` runs the statements whose sentence or test contains the word, `ARGS=--list` lists all, and
  `ARGS="-k WORD --again"` deletes earlier runs first. An interrupted `make soak` continues where it stopped.
- The statements on goodput, sharing and cost need a machine without other work.

| statements on | held | so far | not held | not yet run | runs | latest |
| --- | --- | --- | --- | --- | --- | --- |"""


def page(statements: Sequence[Statement]) -> str:
    """Return the whole page: a row for each family, then the statements that did not hold, with the latest failure."""
    lines = [HEAD]
    for family, members in groupby(statements, key=lambda one: one.family):
        shown = list(members)
        states = [one.state for one in shown]
        counts = [states.count(name) for name in ("held", "held so far", "not held", "not yet run")]
        latest = max((result.date for one in shown for result in one.results), default="-")
        cells = [family.replace("|", "/"), *counts, sum(one.ran for one in shown), latest]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    failures = [_failure(one) for one in statements if one.state == "not held"]
    lines += ["", *(failures or ["All statements that ran held."])]
    return "\n".join(lines) + "\n"


def _failure(one: Statement) -> str:
    reason = next(result.reason for result in reversed(one.results) if result.failures)
    count = f"{one.failures} of {one.ran} failed, {one.allowed} allowed"
    return f"- Not held ({count}): {one.statement} `{reason.replace('`', chr(39))}`"
