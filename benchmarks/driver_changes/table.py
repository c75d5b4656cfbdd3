"""The table of all changes, as docs/explanation/exact.md has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.driver_changes.changes import Change
from benchmarks.driver_changes.judges import ORDINARY_NICS, Finding

GATES = {"exact": "exact gate", "ordinary": "ordinary gate", "goodput": "goodput alone"}
NOT_RUN, NOT_POSSIBLE = Finding("not run"), Finding("not possible")


def table(changes: Sequence[Change], findings: Mapping[str, Mapping[str, Finding]]) -> Iterator[str]:
    """Yield the lines of a Markdown table of all changes that the exact gate has judged."""
    yield f"| change | NIC | {' | '.join(GATES.values())} | missed, because |"
    yield "|---|---|---|---|---|---|"
    for change in changes:
        own = findings.get(change.name, {})
        if "exact" not in own:
            continue
        by_ordinary = own.get("ordinary", NOT_RUN) if change.board in ORDINARY_NICS else NOT_POSSIBLE
        cells = [*map(_cell, (own["exact"], by_ordinary, own["goodput"])), _missed(change)]
        yield f"| {change.text} | {change.board} | {' | '.join(cells)} |"


def _missed(change: Change) -> str:
    """Return the reasons, each with the gates that have it."""
    gates: dict[str, list[str]] = {}
    for gate, why in change.missed.items():
        gates.setdefault(why, []).append(GATES[gate])
    return "; ".join(f"{' and '.join(names)}: {why}" for why, names in gates.items())


def _cell(found: Finding) -> str:
    word = f"**{found.outcome}**" if found.outcome in ("slower", "faster", "changed") else found.outcome
    return f"{word}: {found.why}" if found.why else word
