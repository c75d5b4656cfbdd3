"""``python -m benchmarks.level_changes``: false alarms of the search for level changes, and how late it finds a loss.

Each series grows by one run after another, as in a lab, and is searched after each run. A report names all changes that
the search finds then. So a jump or a drift that the report before did not name is a new report, also if an earlier
report named it.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator, Sequence
from itertools import count, islice, product

from pytest_pinet.history.drift import course
from pytest_pinet.history.levels import LEAST_RUNS, LevelShift

RUNS, LOSS, LOSS_AFTER, LONGEST = 100, 0.05, 60, 20
ALIKE = (0.0, 0.5, 0.7, 0.8)
NOISE = (0.01, 0.005, 0.02)
# The constants of the rule were found with series of another random generator.
FIRST_SEED = 30_000
# The quantile of the normal distribution for an interval of 95 %.
_NORMAL = 1.96


def series(
    seed: int,
    length: int = 180,
    noise: float = 0.01,
    alike: float = 0.0,
    dips: float = 0.0,
    steps: Sequence[tuple[int, float]] = (),
    ramp: tuple[int, int, float] | None = None,
) -> list[float]:
    """Return logarithms of goodput.

    ``alike`` is the correlation of neighbours; a share ``dips`` of runs loses 5 to 40 %.
    """
    chance = random.Random(seed)
    day = chance.gauss(0, 1)
    values = []
    for index in range(length):
        day = alike * day + math.sqrt(1 - alike * alike) * chance.gauss(0, 1)
        value = noise * day + math.fsum(size for at, size in steps if index >= at)
        if chance.random() < dips:
            value -= chance.uniform(0.05, 0.4)
        if ramp is not None:
            begin, end, size = ramp
            value += size * min(max((index - begin) / (end - begin), 0.0), 1.0)
        values.append(value)
    return values


def new_reports(logs: Sequence[float]) -> tuple[int, int]:
    """Return how many jumps and how many drifts are new in the report after each run, added up."""
    jumps, drifts = 0, 0
    before = course(())
    for length in range(1, len(logs) + 1):
        now = course(logs[:length])
        jumps += sum(not any(_is_same(one, other) for other in before.shifts) for one in now.shifts)
        drifts += now.drift is not None and before.drift is None
        before = now
    return jumps, drifts


def _is_same(one: LevelShift, other: LevelShift) -> bool:
    near = abs(one.at - other.at) <= LEAST_RUNS
    return near or (one.first <= other.last and other.first <= one.last)


def delay(seed: int, noise: float, alike: float) -> int | None:
    """Return after how many runs a loss is reported as a jump, within 3 runs of its place. None: not within 20 runs."""
    step = LOSS_AFTER, math.log1p(-LOSS)
    logs = series(seed, LOSS_AFTER + LONGEST, noise, alike, steps=[step])
    for runs in range(1, LONGEST + 1):
        if any(abs(one.at - LOSS_AFTER) <= LEAST_RUNS for one in course(logs[: LOSS_AFTER + runs]).shifts):
            return runs
    return None


def interval(counts: Sequence[int]) -> tuple[float, float]:
    """Return the 95 % interval of the mean number of reports of a series.

    Reports of one series come together, so their sum varies more than a Poisson number: it is the sum of fewer,
    independent groups. The scaled Poisson distribution (Bohm and Zech 2014) counts groups of the size that the sum of
    squares shows. Byar's approximation (Breslow and Day 1987) gives the limits of the number of groups.
    """
    total = sum(counts)
    size = math.fsum(one * one for one in counts) / total if total else 1.0
    groups = total / size

    def limit(number: float, sign: int) -> float:
        root = 1 - 1 / (9 * number) + sign * _NORMAL / (3 * math.sqrt(number))
        return size * number * max(root, 0.0) ** 3 / len(counts)

    return (limit(groups, -1) if total else 0.0), limit(groups + 1, 1)


def per_thousand_runs(counts: Sequence[int]) -> str:
    """Return the rate of new reports in 1,000 runs, with its interval."""
    rate, low, high = (1000 / RUNS * mean for mean in (sum(counts) / len(counts), *interval(counts)))
    return f"{rate:.2f} ({low:.2f} to {high:.2f})"


def rows(first: int, number: int) -> Iterator[str]:
    """Yield a line for each noise and correlation. No two kinds share a seed."""
    seeds = count(first)
    for noise, alike in product(NOISE, ALIKE):
        found = [new_reports(series(seed, RUNS, noise, alike)) for seed in islice(seeds, number)]
        both = [sum(one) for one in found]
        cells = [f"{noise:.1%}", f"{alike:g}", per_thousand_runs(both)]
        cells += [f"{sum(jumps for jumps, _ in found)}, {sum(drifts for _, drifts in found)}"]
        cells += [f"{sum(map(bool, both))}"]
        delays = [delay(seed, noise, alike) or LONGEST + 1 for seed in islice(seeds, number)]
        cells += [f"{sum(one <= 4 for one in delays) / number:.1%}", f"{sorted(delays)[number // 2]}"]
        yield " | ".join(cells)


def main() -> None:
    """Count, and print a table."""
    parser = argparse.ArgumentParser(prog="benchmarks.level_changes", description=__doc__)
    parser.add_argument("--series", type=int, default=200, help="series of each kind")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="seed of the first series")
    chosen = parser.parse_args()
    print(f"{chosen.series} series of {RUNS} runs of each kind; loss of {LOSS:.0%} after {LOSS_AFTER} runs")
    print("noise | correlation | new reports in 1,000 runs (95 %) | jumps, drifts | series with a report", end="")
    print(" | loss found within 4 runs | median delay")
    for row in rows(chosen.first, chosen.series):
        print(row, flush=True)


if __name__ == "__main__":
    main()
