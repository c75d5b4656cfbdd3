"""``python -m benchmarks``: the plugin's time besides traffic, as ratios to plain labgrid in the same run."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks import makespan, start
from pytest_pinet.config import labfile
from pytest_pinet.virtual.launcher import launcher

LAB = Path(__file__).parents[1] / "lab" / "virtual.yaml"
PAIR = ("pi4b-1", "cm4-1")


def laps(module: str, *arguments: str) -> dict[str, float]:
    """Run one side in its own process and return the laps from its last line of output."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Run both sides alternately, since the machine's speed drifts, and print the medians."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("-n", type=int, default=5, help="pairs of runs")
    rounds = parser.parse_args().n
    use = launcher().use(labfile.load(str(LAB)), str(os.getpid()), lambda: None)
    os.environ.update(use.environment)
    ours: list[dict[str, float]] = []
    plain: list[dict[str, float]] = []
    try:
        for number in range(rounds):
            for turn in (number, number + 1):
                if turn % 2:
                    ours.append(laps("benchmarks.with_pinet", str(LAB), "pi4b"))
                else:
                    plain.append(laps("benchmarks.plain_labgrid", *PAIR))
    finally:
        use.leave()
    print(f"Median seconds of {rounds} runs each, in turn. With pinet a link includes the wiring of the switch ports,")
    print("read back and undone, for which labgrid has nothing.")
    print(f"{'step':28} {'plain labgrid':>14} {'pinet':>8} {'ratio':>7}")
    for step in ours[0]:
        theirs = statistics.median(run[step] for run in plain)
        own = statistics.median(run[step] for run in ours)
        print(f"{step:28} {theirs:14.2f} {own:8.2f} {theirs / own:6.1f}x")
    print()
    makespan.simulated()
    print()
    start.measured()


if __name__ == "__main__":
    main()
