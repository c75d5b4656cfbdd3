"""``python -m benchmarks.startup``: what a pytest run without pinet tests costs more with pinet and labgrid installed.

Each round runs pytest on one empty test in each way, in rotating order, because the machine's speed drifts. The medians
are compared with plain pytest of the same rounds. Processor time counts the child process alone, so that other load
of the machine matters less than for the elapsed time. On a busy machine, compare the least processor times: other work
only adds to them.
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
from collections.abc import Sequence
from pathlib import Path

PLAIN, ALONE = "plain pytest", "pinet alone"
# Other plugins of the developers' environment are left out.
OTHERS = ("-p", "no:hypothesispytest", "-p", "no:allure_pytest", "-p", "no:xdist", "-p", "no:cacheprovider")
WAYS = {
    PLAIN: ("-p", "no:pinet", "-p", "no:labgrid"),
    ALONE: ("-p", "no:labgrid"),
    "pinet and labgrid, as installed": (),
    "labgrid alone": ("-p", "no:pinet"),
}


def seconds(folder: Path, options: tuple[str, ...]) -> tuple[float, float]:
    """Run pytest once. Return the elapsed time and the processor time."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LG_ENV", "PINET_LAB")}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", *OTHERS, *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    elapsed = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(rounds: int, ways: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Return elapsed and processor time of each run, by its way."""
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_empty.py").write_text("def test_empty():\n    pass\n")
        (folder / "pytest.ini").write_text("[pytest]\n")
        for way in ways:
            # The first run writes byte code.
            seconds(folder, WAYS[way])
        for number in range(rounds):
            first = number % len(ways)
            for way in (*ways[first:], *ways[:first]):
                found[way].append(seconds(folder, WAYS[way]))
    return found


def main() -> None:
    """Print the medians of all ways."""
    parser = argparse.ArgumentParser(prog="benchmarks.startup", description=__doc__)
    parser.add_argument("-n", type=int, default=10, help="rounds")
    rounds = parser.parse_args().n
    found = measured(rounds, list(WAYS))
    print(f"{rounds} runs each, one empty test, in milliseconds; more: than plain pytest.")
    print(f"{'':34} {'elapsed':>10} {'more':>5}   {'processor':>9} {'more':>5}   {'least':>9} {'more':>5}")
    base = numbers(found[PLAIN])
    for way, runs in found.items():
        cells = [
            f"{seconds * 1000:9.0f} {(seconds - plain) * 1000:+6.0f}"
            for seconds, plain in zip(numbers(runs), base, strict=True)
        ]
        print(f"{way:34}  {'   '.join(cells)}", flush=True)


def numbers(runs: list[tuple[float, float]]) -> list[float]:
    """Return the medians of elapsed and of processor time, and the least processor time."""
    elapsed, processor = zip(*runs, strict=True)
    return [statistics.median(elapsed), statistics.median(processor), min(processor)]


if __name__ == "__main__":
    main()
