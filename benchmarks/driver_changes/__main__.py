"""``python -m benchmarks.driver_changes``: lets all gates judge the changes; writes the table into the documentation.

Findings are kept in results.json, so that a run that was stopped continues. ``--ordinary`` also runs the ordinary gate
on emulated boards, which takes minutes for each change and needs root.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.driver_changes.changes import CHANGES, Change
from benchmarks.driver_changes.judges import Finding, exact, exact_change, goodput, ordinary
from benchmarks.driver_changes.table import table
from pytest_pinet.errors import PinetError

STORE = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "exact.md"
BEGIN, END = "<!-- table of benchmarks/driver_changes -->\n", "<!-- end of the table -->\n"
Findings = dict[str, dict[str, Finding]]


def load() -> Findings:
    """Return the findings so far, by change and gate."""
    text = json.loads(STORE.read_text()) if STORE.exists() else {}
    return {name: {gate: Finding(**found) for gate, found in own.items()} for name, own in text.items()}


def save(findings: Findings) -> None:
    """Write all findings."""
    text = {name: {gate: asdict(found) for gate, found in own.items()} for name, own in findings.items()}
    STORE.write_text(json.dumps(text, indent=1) + "\n")


def judge(change: Change, own: dict[str, Finding], with_ordinary: bool) -> None:
    """Fill in what is missing of one change."""
    start = time.monotonic()
    if "exact" not in own:
        try:
            found = exact_change(change)
            own["exact"], own["goodput"] = exact(found), goodput(found)
        except PinetError as error:
            own["exact"] = own["goodput"] = Finding("error", str(error))
    if with_ordinary and "ordinary" not in own:
        try:
            own["ordinary"] = ordinary(change)
        except PinetError as error:
            own["ordinary"] = Finding("not possible", str(error))
    print(f"{change.name} ({time.monotonic() - start:.0f} s): {own['exact']}", file=sys.stderr, flush=True)


def main() -> None:
    """Judge the chosen changes and write the table of all."""
    parser = argparse.ArgumentParser(prog="benchmarks.driver_changes", description=__doc__)
    parser.add_argument("word", nargs="*", help="judge only changes whose name contains one of the words")
    parser.add_argument("--ordinary", action="store_true", help="also run the ordinary gate on emulated boards")
    parser.add_argument("--again", action="store_true", help="delete earlier findings of the chosen changes first")
    options = parser.parse_args()
    findings = load()
    for change in CHANGES:
        if options.word and not any(word in change.name for word in options.word):
            continue
        if options.again:
            findings.pop(change.name, None)
        judge(change, findings.setdefault(change.name, {}), options.ordinary)
        save(findings)
    write_page(findings)


def write_page(findings: Findings) -> None:
    """Write the table of all findings into the documentation."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    lines = "".join(f"{line}\n" for line in table(CHANGES, findings))
    PAGE.write_text(f"{before}{BEGIN}\n{lines}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
