"""``python -m benchmarks.makespan``: the duration of runs with several workers, relative to a lower bound."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.generated_labs import generate, lower_bound
from benchmarks.simulated_workers import simulate

ROOT = Path(__file__).parents[1]
SIZES = ((6, 2, 40), (6, 3, 40), (50, 4, 20), (50, 8, 40), (50, 16, 20), (1000, 64, 2), (1000, 128, 8), (1000, 250, 2))


def simulated() -> None:
    """Print makespan over lower bound on generated labs, and the scheduler's time per decision."""
    print("Simulated runs: makespan over lower bound, and the scheduler's own time for each decision.")
    print(f"{'nodes':>6} {'workers':>8} {'labs':>5} {'median':>7} {'worst':>7} {'mean ms':>8} {'worst ms':>9}")
    for nodes, workers, labs in SIZES:
        ratios, each_ms, worst_ms = [], [], []
        for seed in range(labs):
            jobs, actual = generate(nodes, seed)
            outcome = simulate(jobs, workers, actual)
            ratios.append(outcome.makespan_s / lower_bound(jobs, actual, workers)[0])
            each_ms.append(outcome.decision_s / outcome.decisions * 1e3)
            worst_ms.append(outcome.longest_decision_s * 1e3)
        figures = f"{median(ratios):7.3f} {max(ratios):7.3f} {median(each_ms):8.2f} {max(worst_ms):9.1f}"
        print(f"{nodes:6} {workers:8} {labs:5} {figures}")


def bound_of(results: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the seconds from the first measurement of a real run to its last, and the seconds of traffic.

    The seconds of traffic are a lower bound if one domain has all nodes, because only one test measures in it at a
    time.
    """
    begins = [datetime.fromisoformat(r["started"]).timestamp() for r in results]
    ends = [begin + r["seconds"] for begin, r in zip(begins, results, strict=True)]
    return max(ends) - min(begins), sum(r["traffic_seconds"] for r in results)


def measured(lab_file: str, workers: int, *options: str) -> tuple[float, float]:
    """Run the main job's tests on a lab with so many workers. Return makespan and lower bound (s)."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        tests = ROOT / "tests" / "gate" / "test_line_rate.py"
        argv = [sys.executable, "-m", "pytest", str(tests), f"--pinet-lab={lab_file}", "-q"]
        argv += ["-n", str(workers), f"--pinet-json={path}", f"--pinet-run-dir={folder}", *options]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=900, cwd=ROOT, check=False)
        if not path.exists():
            raise SystemExit(f"{' '.join(argv)} failed:\n{done.stdout}{done.stderr}")
        results = json.loads(path.read_text())["results"]
    return bound_of([result for result in results if result["traffic_seconds"] > 0])


def main() -> None:
    """Simulate runs. With --lab, also measure real ones."""
    parser = argparse.ArgumentParser(prog="benchmarks.makespan", description=__doc__)
    parser.add_argument("--lab", help="lab file to run the main job on, with two workers and with one")
    lab = parser.parse_args().lab
    simulated()
    if lab:
        print(f"\nthe main job on {lab}: seconds from the first measurement to the last, and seconds of traffic alone.")
        for workers in (2, 1):
            makespan_s, bound_s = measured(lab, workers)
            print(f"-n {workers}: {makespan_s:6.1f} s, traffic {bound_s:6.1f} s, ratio {makespan_s / bound_s:.2f}")


if __name__ == "__main__":
    main()
