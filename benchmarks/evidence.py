"""``python -m benchmarks.evidence``: what reading evidence at both ends costs, and whether it changes the goodput.

On the virtual lab, over ssh, as measurements do it. First the time from asking both ends to having their differences,
of each try and of a measurement of two. Then paired runs of the same traffic, with and without, in the order A B B A,
since these machines drift. Needs root.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.observer import paired, report
from pytest_pinet.choosing import chosen
from pytest_pinet.config.labfile import load
from pytest_pinet.evidence.collecting import Collector, EndReader
from pytest_pinet.lab.link import Link
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.runs import observed, run_once
from pytest_pinet.visiting import Visit, visit

LAB = Path(__file__).parents[1] / "lab" / "virtual.yaml"
# One that costs the machine little, and one that costs it much.
PAIRS = ("pi3b:onboard/pair", "pi4b:onboard/pair")
TARGET_S = 0.3
TARGET_CHANGE = 0.003
TRIES = 2


def collector(link: Link) -> Collector:
    """As a measurement has it."""
    return Collector([EndReader(end.shell, end.device, str(end.endpoint)) for end in link.ends])


def reading_s(link: Link, rounds: int) -> list[float]:
    """Seconds of both readings of one try, without traffic."""
    reader = collector(link)
    found = []
    for number in range(rounds):
        started = time.monotonic()
        reader.before(number)
        reader.after(0.0)
        found.append(time.monotonic() - started)
    return found


def goodput(here: Visit, link: Link, seconds: float, reading: bool) -> float:
    """One run, in bit/s; observers watch it either way."""
    # A fixed warm-up, so that both count the same time.
    traffic = Traffic(Direction.TX, duration_s=seconds, warmup_s=1.0)
    with here.measuring(link.combination), observed(link, traffic.seconds) as observers:
        one = run_once(link, traffic, here.tool, observers=observers, collector=collector(link) if reading else None)
    return one.flows[0].flow.goodput.bps


def compare(here: Visit, link: Link, pairs: int, seconds: float) -> None:
    """Print the costs of one pair of nodes."""

    def run(reading: bool) -> Callable[[], float]:
        return lambda: goodput(here, link, seconds, reading)

    spent = sorted(reading_s(link, 20))
    middle = statistics.median(spent)
    print(
        f"{link.id}: reading both ends before and after a try takes {middle * 1e3:.0f} ms "
        f"(slowest of {len(spent)}: {spent[-1] * 1e3:.0f} ms); of a measurement of {TRIES} tries "
        f"{TRIES * middle * 1e3:.0f} ms, {TRIES * middle / TARGET_S:.2f} of the {TARGET_S * 1e3:.0f} ms allowed",
        flush=True,
    )
    ratios = paired(run(False), run(True), pairs)
    report(f"goodput with evidence, {link.id}", ratios)
    median = abs(math.expm1(statistics.median(ratios)))
    print(f"{'':46} {median / TARGET_CHANGE:.2f} of the {TARGET_CHANGE * 100:.1f} % allowed", flush=True)


def main() -> None:
    """Print all comparisons."""
    parser = argparse.ArgumentParser(prog="benchmarks.evidence", description=__doc__)
    parser.add_argument("-n", type=int, default=12, help="pairs of each comparison")
    parser.add_argument("--lab", default=str(LAB), help="the lab file")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run, after its warm-up")
    options = parser.parse_args()
    lab = load(options.lab)
    left: list[str] = []
    with visit(lab, "bench", lambda text: print(text, file=sys.stderr), left.extend) as here:
        for combination in chosen(lab, list(PAIRS)):
            with here.link(combination) as link:
                compare(here, link, options.n, options.seconds)
    for warning in left:
        print(warning, file=sys.stderr)


if __name__ == "__main__":
    main()
