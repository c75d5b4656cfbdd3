"""``python -m benchmarks.verdicts.figures``: how often values beside goodput are judged right in a gate of two builds.

A gate draws consecutive recorded values for each turn, from a random place of the recording, and judges them as a gate
of two builds does. So boots of one build differ as much as the recording does over time. The values of build B are
then made worse by a share. ``--record`` measures on the packaged virtual lab; it takes about 12 minutes and wants a
quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.figures import UNMEASURED
from pytest_pinet.judge.turns import LEAST_BOOTS, Boot, ChangeRules, judge_change, side
from pytest_pinet.judge.words import words_of
from pytest_pinet.model.figures import FIGURES, Better, Figure

FILE = Path(__file__).parent / "series" / "figures.json"
GATES = 1000
SEED = 40
FOUND = 0.95
# Values of a turn, as in the profile fast.
EACH = 2
# By how much build B is worse.
CHANGES = (0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)
# Each call records EACH values.
CALLS = 22
TESTS = f"""
import pytest
from pytest_pinet.errors import Inconclusive

pytestmark = pytest.mark.pinet(board="pi5", nic="macb", topology="pair", profile="fast")

@pytest.mark.parametrize("call", range({CALLS}))
@pytest.mark.parametrize("what", ["transactions", "connections", "packets", "latency"])
def test_record(link, gate, what, call):
    try:
        getattr(gate, what)(link, duration=1)
    except Inconclusive as reason:
        print(reason)
"""


def record() -> dict[str, Any]:
    """Measure on the virtual lab. Return the values of each kind in their order, and how they were measured."""
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_record.py").write_text(TESTS)
        argv = [sys.executable, "-m", "pytest", "-q", "test_record.py", "--pinet-lab=virtual", "--pinet-history=off"]
        subprocess.run([*argv, f"--rootdir={folder}"], cwd=folder, check=False, timeout=3600)
        results = json.loads((Path(folder) / ".pinet" / "latest" / "results.json").read_text())["results"]
    series: dict[str, list[float]] = {}
    for result in results:
        for name, one in (result.get("figures") or {}).items():
            series.setdefault(name, []).extend(one["values"])
    load = [round(before, 1), round(os.getloadavg()[0], 1)]
    return {"day": date.today().isoformat(), "load": load, "cpus": os.cpu_count(), "series": series}


def gate(figure: Figure, recorded: Sequence[float], worse_by: float, values: int, source: random.Random) -> Relation:
    """Run one gate of two builds to its end, beside so many other values. Build B is worse by this share."""
    rules = ChangeRules(figure.tolerance, UNMEASURED, values=values)
    boots: list[Boot] = []
    while True:
        which = side(len(boots))
        factor = 1.0 if which == "A" else 1 - worse_by if figure.better is Better.UP else 1 + worse_by
        first = source.randrange(len(recorded) - EACH + 1)
        own = tuple(figure.level(factor * value) for value in recorded[first : first + EACH])
        boots.append(Boot(which, len(boots), own))
        if len(boots) < LEAST_BOOTS:
            continue
        found = judge_change(boots, rules, words=words_of(figure))
        if found.decided or len(boots) >= rules.most_boots:
            return found.result


def count(figure: Figure, recorded: Sequence[float], worse_by: float, gates: int, values: int) -> Counter[Relation]:
    """Run many gates, and count their results."""
    source = random.Random(f"{SEED}/{figure.name}/{worse_by}")
    return Counter(gate(figure, recorded, worse_by, values, source) for _ in range(gates))


def counted(series: Mapping[str, Sequence[float]], gates: int = GATES) -> list[dict[str, Any]]:
    """Return what was counted for each value: see ``table``. ``least`` is None if no change is found often enough."""
    found = []
    for name, values in series.items():
        if name not in FIGURES:
            continue
        figure, ranked = FIGURES[name], sorted(values)
        # A call of gate.latency judges three quantiles at once.
        judged = 3 if name in ("p50", "p90", "p99") else 1
        same = count(figure, values, 0.0, gates, judged)
        least = next(
            (by for by in CHANGES if count(figure, values, by, gates, judged)[Relation.SLOWER] >= FOUND * gates), None
        )
        quarters = ranked[3 * len(ranked) // 4] - ranked[len(ranked) // 4]
        median = ranked[len(ranked) // 2]
        known = sum(same[one] for one in (Relation.SLOWER, Relation.SAME, Relation.FASTER))
        found.append({
            "value": name,
            "values": len(values),
            "median": figure.show(median),
            "spread": quarters / 1.349 / median if median else 0.0,
            "worse": same[Relation.SLOWER] / gates,
            "undecided": 1 - known / gates,
            "least": least,
        })  # fmt: skip
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as Markdown."""
    head = "value | recorded | median | differ by | unchanged: worse | undecided | found in 95 %"
    lines = [f"| {head} |", "|---" * 7 + "|"]
    for row in rows:
        least = "none of 70 % or less" if row["least"] is None else f"{100 * row['least']:.0f} % worse"
        lines.append(
            f"| `{row['value']}` | {row['values']} | {row['median']} | {100 * row['spread']:.0f} % "
            f"| {100 * row['worse']:.1f} % | {100 * row['undecided']:.0f} % | {least} |"
        )
    return "\n".join(lines)


def kept_table() -> str:
    """Return the table of what is kept."""
    kept = json.loads(FILE.read_text())
    loads = " and ".join(map(str, kept["load"]))
    how = (
        f"Recorded on {kept['day']} on the virtual lab, connections of 1 s, load {loads} of {kept['cpus']} processors:"
    )
    return f"{how}\n\n{table(kept['counted'])}"


def main() -> None:
    """Count, keep and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.verdicts.figures", description=__doc__)
    parser.add_argument("--gates", type=int, default=GATES, help="gates a cell (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help=f"measure the values again; write {FILE.name}")
    chosen = parser.parse_args()
    kept = record() if chosen.record else json.loads(FILE.read_text())
    # What was measured is kept before it is counted.
    for rows in ([], counted(kept["series"], chosen.gates)):
        FILE.write_text(json.dumps({**kept, "counted": rows}, indent=1) + "\n")
    print(kept_table())


if __name__ == "__main__":
    main()
