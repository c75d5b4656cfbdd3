"""The table of all changes, as docs/explanation/exact.md has it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.driver_changes.changes import Change
from benchmarks.driver_changes.judges import ORDINARY_NICS, Finding

STORE = Path(__file__).parent / "results.json"
# The gates of the table. Findings have goodput alone, too.
GATES = {"exact": "exact gate", "ordinary": "ordinary gate"}
NOT_RUN, NOT_POSSIBLE = Finding("not run"), Finding("not possible")
Findings = dict[str, dict[str, Finding]]


def load() -> Findings:
    """Return the findings so far, by change and gate."""
    text = json.loads(STORE.read_text()) if STORE.exists() else {}
    return {name: {gate: Finding(**found) for gate, found in own.items()} for name, own in text.items()}


def table(changes: Sequence[Change], findings: Mapping[str, Mapping[str, Finding]]) -> Iterator[str]:
    """Yield the lines of a Markdown table of all changes that the exact gate has judged."""
    yield f"| change | NIC | {' | '.join(GATES.values())} | missed, because |"
    yield "|---|---|---|---|---|"
    for change in changes:
        own = findings.get(change.name, {})
        if "exact" not in own:
            continue
        by_ordinary = own.get("ordinary", NOT_RUN) if change.board in ORDINARY_NICS else NOT_POSSIBLE
        cells = [_cell(own["exact"]), _cell(by_ordinary), _missed(change)]
        yield f"| {change.text} | {change.board} | {' | '.join(cells)} |"


def _missed(change: Change) -> str:
    """Return the reasons, each with the gates that have it."""
    gates: dict[str, list[str]] = {}
    for gate, why in change.missed.items():
        if gate in GATES:
            gates.setdefault(why, []).append(GATES[gate])
    return "; ".join(f"{' and '.join(names)}: {why}" for why, names in gates.items())


def _cell(found: Finding) -> str:
    word = f"**{found.outcome}**" if found.outcome in ("slower", "faster", "changed") else found.outcome
    return f"{word}: {found.why}" if found.why else word
