"""``python -m benchmarks.evidence``: the cost of reading evidence at both ends, and its effect on goodput.

It runs on the virtual lab, over ssh, as measurements do. First it measures the time from the first reading until the
differences are there, for measurements of one and of many attempts. Then it compares goodput with and without evidence
in paired runs, in the order A B B A because the machine's speed drifts. It stops when the interval of the median lies
within the allowed change, or outside. The interval is checked every STEP pairs, so the confidence is somewhat below the
95 % of a single check.

The exit status is 1 if reading takes too long, or if goodput changes by more than is allowed. Needs root.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.observer import interval, paired, report
from pytest_pinet.config.labfile import load
from pytest_pinet.evidence.collecting import Collector, EndReader
from pytest_pinet.lab.access import LabAccess, visit
from pytest_pinet.lab.link.link import Link
from pytest_pinet.matrix.expansion import select_combinations
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.traffic import Direction, Traffic

LAB = Path(__file__).parents[1] / "lab" / "virtual.yaml"
# A combination with low load on this machine, and one with high load.
PAIRS = ("pi3b:onboard/pair", "pi4b:onboard/pair")
TARGET_S = 0.3
TARGET_CHANGE = 0.003
# Numbers of attempts that a measurement may have: unchanged, suspicious, undecided.
TRIES = (1, 2, 3, 6, 12)
ROUNDS = 10
# Pairs between two checks of the interval. An even number, for A B B A.
STEP = 12


def collector(link: Link) -> Collector:
    """Return the collector that a measurement would use."""
    return Collector([EndReader(end.shell, end.device, str(end.endpoint)) for end in link.ends])


def reading_s(link: Link, tries: int) -> float:
    """Return the seconds of all readings for a measurement of so many attempts, without traffic."""
    reader = collector(link)
    started = time.monotonic()
    for number in range(1, tries + 1):
        reader.before(number)
        reader.after(0.0)
    reader.rest(0.0)
    return time.monotonic() - started


def is_cheap(link: Link) -> bool:
    """Print the time of reading. Return whether it is within the target."""
    good = True
    for tries in TRIES:
        spent = sorted(reading_s(link, tries) for _ in range(ROUNDS))
        middle = statistics.median(spent)
        good &= middle <= TARGET_S
        print(
            f"{link.id}: reading both ends for a measurement of {tries} tries takes {middle * 1e3:.0f} ms (slowest of "
            f"{ROUNDS}: {spent[-1] * 1e3:.0f} ms), {middle / TARGET_S:.2f} of the {TARGET_S * 1e3:.0f} ms allowed",
            flush=True,
        )
    return good


def goodput(here: LabAccess, link: Link, seconds: float, reading: bool) -> float:
    """Return the goodput of one run in bit/s. Observers run in both cases."""
    # A fixed warm-up, so that both runs count the same time.
    traffic = Traffic(Direction.TX, duration_s=seconds, warmup_s=1.0)
    with here.measuring(link.combination), Runs(MeasureContext(link, here.tool), traffic.seconds) as runs:
        if not reading:
            runs.collector = Collector([])
        one = runs.again(traffic)
    return one.flows[0].flow.goodput.bps


def compare(here: LabAccess, link: Link, least: int, most: int, seconds: float) -> bool | None:
    """Print how reading changes goodput. Return whether this is allowed; None if ``most`` pairs do not decide."""

    def run(reading: bool) -> Callable[[], float]:
        return lambda: goodput(here, link, seconds, reading)

    ratios: list[float] = []
    while True:
        ratios += paired(run(False), run(True), least if not ratios else STEP)
        low, high = interval(ratios)
        within = max(abs(low), abs(high)) <= TARGET_CHANGE
        beyond = low > TARGET_CHANGE or high < -TARGET_CHANGE
        if within or beyond or len(ratios) >= most:
            break
    report(f"goodput with evidence, {link.id}", ratios)
    what = "is within" if within else "is beyond" if beyond else "may be within or beyond"
    print(f"{'':46} so the change {what} the {TARGET_CHANGE * 100:.1f} % allowed", flush=True)
    return True if within else False if beyond else None


def main() -> int:
    """Print all comparisons. Return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.evidence", description=__doc__)
    parser.add_argument("-n", type=int, default=24, help="pairs of each comparison at least (24)")
    parser.add_argument("--most", type=int, default=240, help="and at most, where fewer do not tell (240)")
    parser.add_argument("--lab", default=str(LAB), help="the lab file")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run, after its warm-up (2)")
    options = parser.parse_args()
    lab = load(options.lab)
    left: list[str] = []
    good = True
    with visit(lab, "bench", lambda text: print(text, file=sys.stderr), left.extend) as here:
        for combination in select_combinations(lab, list(PAIRS)):
            with here.open(combination) as link:
                good &= is_cheap(link)
                good &= compare(here, link, options.n, options.most, options.seconds) is not False
    for warning in left:
        print(warning, file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
