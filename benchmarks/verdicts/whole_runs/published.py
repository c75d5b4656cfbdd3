"""The published counts of whole runs: a file, and the section of the page that is made from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

COUNTED = Path(__file__).parent / "counted.json"
CHANGES = (0, 1, 5, 10)
HEADS = ("link", "unchanged", "1 % slower", "5 % slower", "10 % slower")
JOBS = {"gate": "", "build": "gate of builds", "compare": "two states", "no limit": "no limit", "accept": "baseline"}
SECTION = """## Whole runs

{text}

{table}
"""
TEXT = """{missed} of {all} cases of whole runs have certainly more than 1 % wrong verdicts: all of their 95 % interval
(Wilson) is above 1 %. In these cases, the rate depends on what happened before: on the boot, its age, the link-up, the
number of the connection, the traffic before it, the temperature, or the source port. The product runs as a whole on a
simulated board (`python -m benchmarks.verdicts.whole_runs`, seed {seed}, {gates} gates a case). Baselines are made as
this page says. A place has the share of wrong verdicts in per cent, then the share of undecided gates; it has the worst
of several cases. **Bold** is certainly more than 1 %. Five gates share a baseline, so the true intervals are wider.
{apart} gates on a level that no run of the history had are left out ({endings}): no rule can tell such a day from a
slower build, and a quiet link that is slower shall fail after 9 s. The reason of the verdict names this doubt."""


def publish(found: Sequence[Mapping[str, Any]], order: Sequence[str]) -> None:
    """Keep these counts, in this order of the names of all cells. Earlier counts of other cells stay."""
    known = {one["name"]: one for one in _counted()} | {one["name"]: one for one in found}
    lines = ",\n ".join(json.dumps(known[name]) for name in order if name in known)
    COUNTED.write_text(f"[\n {lines}\n]\n")


def _counted() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(COUNTED.read_text()) if COUNTED.exists() else []
    return found


def section(width: int) -> str:
    """Return the section of the page; empty if nothing was counted."""
    found = _counted()
    if not found:
        return ""
    endings = sum((Counter(one["apart"]) for one in found), Counter[str]())
    text = TEXT.format(
        apart=endings.total(),
        endings=", ".join(f"{number} {ending}" for ending, number in endings.most_common()),
        missed=sum(one["missed"] for one in found),
        all=len(found),
        seed=" or ".join(sorted({str(one["seed"]) for one in found})),
        gates=min(one["gates"] + sum(one["apart"].values()) for one in found),
    )
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in found:
        rows.setdefault((one["kind"], one["how"]), []).append(one)
    lines = [line(HEADS), line(["---"] * len(HEADS))]
    for (kind, how), own in rows.items():
        name = ", ".join(filter(None, (kind, JOBS[how] if JOBS[how] not in kind else "")))
        lines.append(line([name, *(_place([one for one in own if one["slower"] == by]) for by in CHANGES)]))
    return SECTION.format(text=fill(text, width, break_on_hyphens=False), table="\n".join(lines))


def _place(own: Sequence[Mapping[str, Any]]) -> str:
    """Return ``0.2; 2``: the worst of these cases."""
    if not own:
        return ""
    worst = max(own, key=lambda one: one["wrong"] / max(one["gates"], 1))
    share = f"{100 * worst['wrong'] / max(worst['gates'], 1):.1f}"
    most = max(one["inconclusive"] for one in own)
    return f"{f'**{share}**' if any(one['missed'] for one in own) else share}; {most:g}"


def line(places: Iterable[str]) -> str:
    """Return a line of a table in Markdown."""
    return f"| {' | '.join(places)} |"
