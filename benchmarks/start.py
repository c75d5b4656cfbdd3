"""How long ``pinet COMMAND --help`` takes, next to the start of Python alone."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from pytest_pinet.cli import COMMANDS

ROUNDS = 5
MAIN = "from pytest_pinet.cli import main; main()"


def measured(rounds: int = ROUNDS) -> None:
    """Start each command alternately, since the machine's speed drifts, and print the medians."""
    calls: dict[str, Sequence[str]] = {"python": ["-c", "pass"]}
    calls |= {name: ["-c", MAIN, name, "--help"] for name in COMMANDS}
    seconds: Mapping[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, words in calls.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, timeout=60)
            seconds[name].append(time.perf_counter() - began)
    print(f"Median milliseconds of {rounds} starts: Python alone, and the help of each command")
    for name, times in seconds.items():
        print(f"{name:12} {statistics.median(times) * 1000:6.0f}")


if __name__ == "__main__":
    measured()
