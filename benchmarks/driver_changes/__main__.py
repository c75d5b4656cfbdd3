"""``python -m benchmarks.driver_changes``: lets all gates judge the changes.

Findings are kept in results.json, so that a run that was stopped continues. ``--ordinary`` runs the ordinary gate on
emulated boards in place of the exact gate. It takes minutes for each change and needs root.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict

from benchmarks.driver_changes.changes import CHANGES, Change
from benchmarks.driver_changes.judges import Finding, exact, exact_change, goodput, ordinary
from benchmarks.driver_changes.table import STORE, load
from pytest_pinet.errors import PinetError


def save(change: Change, own: Mapping[str, Finding]) -> None:
    """Add the findings of one change. Other processes may write findings at the same time."""
    findings = load()
    findings.setdefault(change.name, {}).update(own)
    text = {name: {gate: asdict(found) for gate, found in every.items()} for name, every in findings.items()}
    STORE.write_text(json.dumps(text, indent=1) + "\n")


def judge(change: Change, by_ordinary: bool) -> dict[str, Finding]:
    """Return what the exact gate and goodput alone say of a change, or what the ordinary gate says."""
    try:
        if by_ordinary:
            return {"ordinary": ordinary(change)}
        found = exact_change(change)
        return {"exact": exact(found), "goodput": goodput(found)}
    except PinetError as error:
        gates = ("ordinary",) if by_ordinary else ("exact", "goodput")
        return dict.fromkeys(gates, Finding("not possible", str(error)))


def main() -> None:
    """Judge the chosen changes. ``make docs`` writes the table of all."""
    parser = argparse.ArgumentParser(prog="benchmarks.driver_changes", description=__doc__)
    parser.add_argument("word", nargs="*", help="judge only changes whose name contains one of the words")
    parser.add_argument("--ordinary", action="store_true", help="run the ordinary gate on emulated boards")
    parser.add_argument("--again", action="store_true", help="judge the chosen changes again")
    options = parser.parse_args()
    gate = "ordinary" if options.ordinary else "exact"
    for change in CHANGES:
        if options.word and not any(word in change.name for word in options.word):
            continue
        if options.again or gate not in load().get(change.name, {}):
            start = time.monotonic()
            own = judge(change, options.ordinary)
            save(change, own)
            print(f"{change.name} ({time.monotonic() - start:.0f} s): {own}", file=sys.stderr, flush=True)
    print("run make docs to write the table of all findings", file=sys.stderr)


if __name__ == "__main__":
    main()
