"""``python -m benchmarks.bisection``: how often and with how many boots ``pinet bisect`` finds a commit, simulated.

A history of 64 commits, one of which loses 2 % of goodput. The search is the one of ``pinet bisect`` on a lab: six
boots of both ends, then single boots of what it chooses. It knows neither the levels nor the noise; the boots that tell
it are counted. Writes ``bisection.json``, of which ``python -m tools.site`` makes the table of the docs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_pinet.judge.bisection import GOOD, Bisection
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.turns import LEAST_BOOTS, Boot, ChangeRules, Side, judge_change, side

STORE = Path(__file__).with_name("bisection.json")
COMMITS, DROP = 64, 0.02
# A lottery of boots: some are low by this.
LOW = 0.15
# The search was developed with seeds below 5,000,000.
FIRST_SEED, BISECTIONS = 5_000_000, 1_000
# A search gives up.
MOST_BOOTS = 400
_NORMAL = 1.96
# A gate of the culprit against its parent that denies the culprit.
_DENIED = (Relation.SAME, Relation.FASTER)


@dataclass(frozen=True)
class Cell:
    """One kind of lab: noise of a boot, share of low boots, noise of a commit's layout.

    ``best`` are the boots of the best other method that does not know the levels.
    """

    noise: float
    lottery: float = 0.0
    layout: float = 0.0
    best: str = ""

    @property
    def key(self) -> str:
        return f"{self.noise} {self.lottery} {self.layout}"


CELLS = (
    Cell(0.005, best="98.2 % with 17"),
    Cell(0.010, best="97.2 % with 44"),
    Cell(0.015, best="97.0 % with 91"),
    Cell(0.005, lottery=0.04, best="99.8 % with 21 (levels known)"),
    Cell(0.010, lottery=0.04, best="94 % with 34 (levels known)"),
)


@dataclass(frozen=True)
class Found:
    """How one search ended: ``right``, ``wrong`` or ``undecided``; its boots, and the boots of the gate at its end."""

    outcome: str
    boots: int
    confirming: int = 0


def bisect(cell: Cell, seed: int) -> Found:
    """Search one commit."""
    chance = random.Random(seed)
    names = [f"commit {number}" for number in range(COMMITS)]
    first_bad = chance.randrange(COMMITS)
    offsets = {name: chance.gauss(0, cell.layout) for name in (GOOD, *names)}

    def boot(name: str) -> float:
        is_bad = name != GOOD and names.index(name) >= first_bad
        value = offsets[name] + chance.gauss(0, cell.noise) + (math.log1p(-DROP) if is_bad else 0.0)
        return value + (math.log1p(-LOW) if chance.random() < cell.lottery else 0.0)

    found = Bisection({name: names[at - 1 : at] if at else [] for at, name in enumerate(names)})
    boots = 0
    for boots in range(1, LEAST_BOOTS + 1):
        end = GOOD if side(boots - 1) is Side.A else found.bad
        found.add(end, boot(end))
    gates, gated = 0, dict[str, Relation]()
    while True:
        if found.is_certain:
            (culprit,), _ = found.best()
            at = names.index(culprit)
            if culprit in gated:
                known = "right" if at == first_bad else "wrong"
                return Found("undecided" if gated[culprit] in _DENIED else known, boots, gates)
            both = {Side.A: names[at - 1] if at else GOOD, Side.B: culprit}
            turns: list[Boot] = []
            gated[culprit] = Relation.GO_ON
            while gated[culprit] is Relation.GO_ON:
                of = side(len(turns))
                turns.append(Boot(of, len(turns), (math.exp(boot(both[of])),)))
                gated[culprit] = judge_change(turns, ChangeRules()).result
            gates += len(turns)
            if gated[culprit] is Relation.SLOWER:
                return Found("right" if at == first_bad else "wrong", boots, gates)
            for turn in turns:
                found.add(both[turn.side], math.log(turn.levels[0]))
            continue
        name = found.next()
        if name is None or boots >= MOST_BOOTS:
            return Found("undecided", boots, gates)
        found.add(name, boot(name))
        boots += 1


def interval(right: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson)."""
    share, square = right / of, _NORMAL**2 / of
    half = _NORMAL * math.sqrt(share * (1 - share) / of + square / (4 * of))
    return (share + square / 2 - half) / (1 + square), (share + square / 2 + half) / (1 + square)


def table() -> Iterator[str]:
    """Yield the lines of a Markdown table of what the file holds."""
    kept = json.loads(STORE.read_text())
    head = (
        "noise of a boot",
        "boots 15 % low",
        "layout",
        "right (95 %)",
        "undecided",
        "boots",
        "to confirm",
        "best other",
    )
    yield f"| {' | '.join(head)} |"
    yield "|---|---|---|---|---|---|---|---|"
    for cell in CELLS:
        found = [Found(*one) for one in kept["cells"][cell.key]]
        right = sum(one.outcome == "right" for one in found)
        low, high = interval(right, len(found))
        undecided = sum(one.outcome == "undecided" for one in found) / len(found)
        boots = sum(one.boots for one in found) / len(found)
        ended = [one.confirming for one in found if one.confirming]
        shares = f"| {cell.noise:.1%} | {cell.lottery:.0%} | {cell.layout:.1%} "
        yield (
            f"{shares}| {right / len(found):.1%} ({low:.1%} to {high:.1%}) | {undecided:.1%} | {boots:.1f} "
            f"| {sum(ended) / len(ended):.1f} | {cell.best} |"
        )


def main() -> None:
    """Count all cells, and write the file."""
    parser = argparse.ArgumentParser(prog="benchmarks.bisection", description=__doc__)
    parser.add_argument("--bisections", type=int, default=BISECTIONS, help="searches of each cell")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="seed of the first search")
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.bisections)
    kept = {}
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for cell in CELLS:
            found = list(processes.map(partial(bisect, cell), seeds, chunksize=5))
            kept[cell.key] = [[one.outcome, one.boots, one.confirming] for one in found]
            right = sum(one.outcome == "right" for one in found)
            print(
                f"{cell.key}: {right} of {len(found)} right, {sum(one.boots for one in found) / len(found):.1f} boots",
                flush=True,
            )
    STORE.write_text(json.dumps({"first": chosen.first, "cells": kept}) + "\n")


if __name__ == "__main__":
    main()
