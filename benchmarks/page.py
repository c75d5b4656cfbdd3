"""``python -m benchmarks.page``: seconds and size of ``pinet report`` for 500 combinations in 1,000 runs.

The level of every tenth metric moved among the newest runs. The time is also shown as a ratio to a program that only
reads the same rows with sqlite3 and writes them as JSON, measured alternately in the same run.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.history import FIGURES, runs
from pytest_pinet.history.points import Point, StoredRun
from pytest_pinet.history.store import HistoryStore

RUNS, SHOWN = 1000, 200
MOST_S, MOST_MB = 2.0, 10.0
PLAIN = f"""
import json, sqlite3, sys
base = sqlite3.connect(sys.argv[1])
names = "time, run, goodput, verdict, reason, record"
newest = f"select {{names}} from pinet_points where series = ? order by time desc limit {SHOWN}"
keys = base.execute("select key from pinet_series").fetchall()
json.dump([base.execute(newest, key).fetchall() for key in keys], open(sys.argv[2], "w"))
"""


def make(path: Path, count: int) -> None:
    """Make the history. Every tenth metric is 5 % slower from the middle of the shown runs on."""
    store = HistoryStore.open(str(path), create=True)
    store.add_all(_moved(count))
    # As each run does at its end.
    store.find_changes({(figure.id, figure.lab) for figure in store.figures()})
    store.close()


def _moved(count: int) -> Iterator[tuple[StoredRun, list[Point]]]:
    for number, (run, points) in enumerate(runs(0, count)):
        if number >= count - SHOWN // 2:
            points[::10] = [replace(one, value=(one.value or 0) * 0.95) for one in points[::10]]
        yield run, points


def seconds(*command: str, cwd: Path) -> tuple[float, float]:
    """Return the seconds of a command, by the clock and of the processor."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    taken, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure both programs alternately, since the machine's speed drifts, and print the medians."""
    parser = argparse.ArgumentParser(prog="benchmarks.page", description=__doc__)
    parser.add_argument("--history", type=Path, help="kept for the next time (default: a temporary file)")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of the history")
    parser.add_argument("-n", type=int, default=5, help="pairs of measurements")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        history = (chosen.history or folder / "history.db").absolute()
        if not history.exists():
            make(history, chosen.runs)
        pinet = str(Path(sys.executable).parent / "pinet")
        ours, plain = [], []
        for _ in range(chosen.n):
            plain.append(seconds(sys.executable, "-c", PLAIN, str(history), os.devnull, cwd=folder))
            ours.append(seconds(pinet, "report", "--history", str(history), "-o", "page.html", cwd=folder))
        size = (folder / "page.html").stat().st_size / 1e6
    print(f"{FIGURES} combinations, {chosen.runs} runs; targets: {MOST_S:g} s, {MOST_MB:g} MB (loaded machine: ratio)")
    print("           seconds  of processor")
    for name, both in (("plain", plain), ("report", ours)):
        print(f"{name:9} {statistics.median(s for s, _ in both):8.2f}  {statistics.median(s for _, s in both):12.2f}")
    busy = statistics.median(own[1] / other[1] for own, other in zip(ours, plain, strict=True))
    good = statistics.median(s for _, s in ours) < MOST_S and size < MOST_MB
    print(f"ratio {busy:.1f}, page {size:.1f} MB  {'ok' if good else 'MISSED'}")


if __name__ == "__main__":
    main()
