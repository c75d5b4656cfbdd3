"""The table of all changes, as docs/explanation/exact.md has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.driver_changes.changes import Change
from benchmarks.driver_changes.judges import ORDINARY_NICS, Finding

NOT_RUN, NOT_POSSIBLE = Finding("not run"), Finding("not possible")


def table(changes: Sequence[Change], findings: Mapping[str, Mapping[str, Finding]]) -> Iterator[str]:
    """Yield the lines of a Markdown table of all changes that the exact gate has judged."""
    yield "| change | NIC | exact gate | ordinary gate | goodput alone |"
    yield "|---|---|---|---|---|"
    for change in changes:
        own = findings.get(change.name, {})
        if "exact" not in own:
            continue
        by_ordinary = own.get("ordinary", NOT_RUN) if change.board in ORDINARY_NICS else NOT_POSSIBLE
        cells = map(_cell, (own["exact"], by_ordinary, own["goodput"]))
        yield f"| {change.text} | {change.board} | {' | '.join(cells)} |"


def _cell(found: Finding) -> str:
    word = f"**{found.outcome}**" if found.outcome in ("slower", "faster", "changed") else found.outcome
    return f"{word}: {found.why}" if found.why else word
