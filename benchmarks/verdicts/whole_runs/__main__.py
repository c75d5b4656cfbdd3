"""``python -m benchmarks.verdicts.whole_runs``: counts wrong verdicts of whole runs, row by row.

Examples: ``--list``; ``--row 1 --row 9 --gates 300``; ``--only "boot in five" --seed 7``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.verdicts.whole_runs.published import COUNTED, line, publish
from benchmarks.verdicts.whole_runs.rows import ALLOWED, Cell, Count, cells, count
from pytest_pinet.model.verdict import Verdict

GATES, SEED = 600, 39
HEADS = ("row", "cell", "gates", "wrong", "% (95 %)", "missed", "inconclusive %", "median", "unseen level: apart")


def main() -> None:
    """Count the chosen cells, and print a table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.verdicts.whole_runs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--gates", type=int, default=GATES, help="gates a cell (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    parser.add_argument("--row", action="append", help="only these rows, such as 1 or 'own 3'")
    parser.add_argument("--only", default="", help="only cells whose name contains this text")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the counts to this file")
    parser.add_argument("--publish", action="store_true", help=f"also keep the counts in {COUNTED.name}, for the page")
    parser.add_argument("--words", action="store_true", help="print a message of each ending")
    parser.add_argument("--list", action="store_true", help="print the cells, and count nothing")
    chosen = parser.parse_args()
    wanted = [one for one in cells() if (not chosen.row or one.row in chosen.row) and chosen.only in one.name]
    if not wanted:
        parser.error("no such cell; see --list")
    if chosen.list:
        print("\n".join(f"{one.row:>6}  {one.name}" for one in wanted))
        return
    missed = f"missed: the whole 95 % interval (Wilson) is above {ALLOWED:g} %"
    print(f"seed {chosen.seed}, {chosen.gates} gates a cell; {missed}\n")
    print(line(HEADS), line(["---"] * len(HEADS)), sep="\n", flush=True)
    found: list[Count] = []
    for one, seconds in _counted(wanted, chosen.gates, chosen.seed, chosen.processes):
        found.append(one)
        print(line(row(one)), f" <!-- {seconds:.0f} s -->", sep="", flush=True)
        if chosen.words:
            print("\n".join(f"    {ending}: {why}" for ending, why in one.words.items()))
        if chosen.json:
            chosen.json.write_text(json.dumps([as_json(each) for each in found], indent=1) + "\n")
    print(f"\n{sum(one.missed for one in found)} of {len(found)} cells are missed")
    if chosen.publish:
        publish([as_json(one) for one in found], [one.name for one in cells()])
        print(f"kept in {COUNTED}; write the page with: python -m benchmarks.verdicts --page")


def _counted(wanted: Sequence[Cell], gates: int, seed: int, processes: int) -> Iterator[tuple[Count, float]]:
    """Yield each cell and its seconds of processor time."""
    call = partial(_timed, gates=gates, seed=seed)
    if processes == 1:
        return map(call, wanted)
    return ProcessPoolExecutor(processes).map(call, wanted)


def _timed(cell: Cell, gates: int, seed: int) -> tuple[Count, float]:
    began = time.process_time()
    return count(cell, gates, seed), time.process_time() - began


def row(one: Count) -> list[str]:
    """Return the places of a line of the table."""
    low, high = one.interval
    share = 100 * one.wrong / max(one.gates, 1)
    apart = ", ".join(f"{number} {ending}" for ending, number in sorted(one.apart.items()))
    return [
        one.cell.row,
        one.cell.name,
        str(one.gates),
        str(one.wrong),
        f"{share:.1f} ({low:.1f} to {high:.1f})",
        "**yes**" if one.missed else "",
        f"{one.percent(Verdict.INCONCLUSIVE):.1f}",
        f"{one.median:g}",
        apart,
    ]


def as_json(one: Count) -> dict[str, object]:
    """Return a count for a file."""
    low, high = one.interval
    return {
        "name": one.cell.name,
        **asdict(one.cell),
        "seed": one.seed,
        "gates": one.gates,
        "wrong": one.wrong,
        "interval": [round(low, 2), round(high, 2)],
        "missed": one.missed,
        "inconclusive": round(one.percent(Verdict.INCONCLUSIVE), 1),
        "median": round(one.median, 1),
        "endings": one.endings,
        "apart": one.apart,
    }


if __name__ == "__main__":
    main()
