"""``python -m benchmarks.exact_spread [NIC...]``: how far boots of an unchanged kernel differ on exact boards.

The same kernel boots with other words on its command line, which have no meaning, and with a driver that was built
again from the same source. The largest differences of two boots, for each window, are what ``judge/exact_spread.py``
has as tolerances. A boot is kept in the cache of exact gates, as that of any gate.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_pinet.builds.load import load_build
from pytest_pinet.exact.lab_boards import exact_boards
from pytest_pinet.exact.measure import ExactBench, stock_build
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact import ExactLimits, judge_exact
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import ExactBoot
from tests.support.driver_builds import patched_module

WORDS = 4


def builds(driver: str, folder: Path, words: int) -> Iterator[Build | None]:
    """Yield the stock kernel, the driver that was built again, and the kernel with ``words`` other command lines."""
    yield None
    yield load_build(str(patched_module(None, folder, driver)))
    for length in range(1, words + 1):
        file = folder / f"word{length}.yaml"
        file.write_text(f"name: word {length}\ncmdline: pinet.same={'x' * length}\n")
        yield load_build(str(file))


def boots(nic: str, words: int) -> list[ExactBoot]:
    """Return what each of the builds measures on the board of this name."""
    bench, stock = ExactBench(exact_boards()[nic]), stock_build(print)
    with TemporaryDirectory() as name:
        return [
            bench.measured(bench.payload(stock, build), print).boot
            for build in builds(bench.board.nic.driver, Path(name), words)
        ]


def table(found: list[ExactBoot]) -> Iterator[str]:
    """Yield a line for each window: the largest differences, in the same rhythm and in another one; false verdicts."""
    limits = ExactLimits()
    changes = [change for pair in permutations(found, 2) for change in judge_exact(*pair, limits).windows]
    for name in dict.fromkeys(change.a.name for change in changes):
        own = [change for change in changes if change.a.name == name]
        parts = []
        for same in (True, False):
            of_rhythm = [change for change in own if (change.rhythm is None) == same]
            sums = [abs(one.change_of_sum / one.sum_a) for one in of_rhythm if one.change_of_sum and one.sum_a]
            goodput = [abs(one.change) for one in of_rhythm]
            parts.append(f"{max(sums, default=0):.4f} {max(goodput, default=0):.4f} of {len(of_rhythm)}")
        false = sum(change.result in (Relation.SLOWER, Relation.FASTER) for change in own)
        yield f"  {name:15} {parts[0]:22}  other rhythm: {parts[1]:22}  false: {false}"


def main() -> None:
    """Print the table of each NIC."""
    parser = argparse.ArgumentParser(prog="benchmarks.exact_spread", description=__doc__)
    parser.add_argument("nics", nargs="*", metavar="NIC", default=["e1000e", "macb", "virtio-net", "igb"])
    parser.add_argument("--words", type=int, default=WORDS, help="boots with another command line")
    chosen = parser.parse_args()
    for nic in chosen.nics:
        found = boots(nic, chosen.words)
        print(f"{nic}: {len(found)} boots; instructions and goodput, shares")
        print("\n".join(table(found)), flush=True)


if __name__ == "__main__":
    main()
