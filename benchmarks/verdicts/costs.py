"""``python -m benchmarks.verdicts.costs``: how often the cost of a Gbit is judged right in a gate of two builds.

A gate draws a boot with its connections for each turn, and judges the three costs as a gate does: after each turn,
beside one goodput, until all are decided, or 9 turns were made. Of a dearer build, one of the three costs is higher.
The boards are models. On emulated boards (Debian 6.1, e1000e, paced UDP), interrupts per Gbit differed by 0.4 % between
connections of a boot, and four boots were of two kinds, 56 % apart.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.judge.costs import COST_NOISE, COST_TOLERANCE, COST_TURNS, JUDGED, judge_cost
from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.spread import Noise, nested
from pytest_pinet.judge.turns import LEAST_BOOTS, Boot, ChangeRules, side

GATES = 1000
SEED = 40
ERROR_RATE = 0.01
# One goodput and the three costs.
VALUES = 1 + len(JUDGED)
# A calibration serves this many gates: boots, connections in each.
PER_CALIBRATION, CALIBRATION_BOOTS, CALIBRATION_EACH = 20, 6, 4
CONNECTIONS = 2
CHANGES = (0.0, 0.20)

# The costs of one boot: by key, one for each connection.
Costs = Mapping[str, Sequence[float]]
DrawBoot = Callable[[int, random.Random], Costs]


def model(of_connections: float, of_boots: float, kinds: float = 0.0) -> DrawBoot:
    """Return a function that draws boots with these relative standard deviations.

    Half of the boots are ``kinds`` dearer: another processor takes their interrupts.
    """

    def draw(connections: int, source: random.Random) -> Costs:
        found = {}
        lottery = source.choice((1.0, 1.0 + kinds))
        for key in JUDGED:
            level = 100 * lottery * source.lognormvariate(0, of_boots)
            found[key] = [level * source.lognormvariate(0, of_connections) for _ in range(connections)]
        return found

    return draw


BOARDS: dict[str, DrawBoot] = {
    "model: 2 % between connections, 1 % between boots": model(0.02, 0.01),
    "model: 5 %, 2 %": model(0.05, 0.02),
    "model: 8 %, 4 %": model(0.08, 0.04),
    "model: 2 %, 1 %, half of the boots 20 % dearer": model(0.02, 0.01, 0.20),
}


@dataclass(frozen=True)
class Cell:
    """The results of many gates: the share (0 to 1) with a dearer cost, with an undecided one, and the turns."""

    board: str
    calibrated: bool
    dearer_by: float
    gates: int
    dearer: float
    undecided: float
    median_turns: int
    most_turns: int


def calibrated(draw: DrawBoot, source: random.Random) -> dict[str, Noise]:
    """Return the noise that ``pinet calibrate --boots`` would find."""
    boots = [draw(CALIBRATION_EACH, source) for _ in range(CALIBRATION_BOOTS)]
    found = {}
    for key in JUDGED:
        parts = nested(_logs([[boot[key]] for boot in boots]))
        of_boots = parts.boots.at_most if parts.boots is not None else 0.0
        freedom = parts.connections.freedom
        found[key] = Noise(parts.connections.sd, freedom, of_boots, session_freedom=CALIBRATION_BOOTS - 1)
    return found


def _logs(boots: Sequence[Sequence[Sequence[float]]]) -> list[list[list[float]]]:
    return [[[math.log(value) for value in up] for up in boot] for boot in boots]


def gate(
    draw: DrawBoot, dearer_by: float, noises: Mapping[str, Noise], source: random.Random
) -> tuple[set[Relation], int]:
    """Run one gate. Return the results of the costs, and the turns until the last was decided."""
    changed = source.choice(list(JUDGED))
    boots: dict[str, list[Boot]] = {key: [] for key in JUDGED}
    found: dict[str, Difference] = {}
    rules = {
        key: ChangeRules(COST_TOLERANCE, noises.get(key, COST_NOISE), ERROR_RATE, VALUES, COST_TURNS) for key in JUDGED
    }
    for turn in range(COST_TURNS):
        costs = draw(CONNECTIONS, source)
        for key, values in costs.items():
            factor = 1 + dearer_by if key == changed and side(turn) == "B" else 1.0
            boots[key].append(Boot(side(turn), turn, tuple(factor * value for value in values)))
        if turn + 1 < LEAST_BOOTS:
            continue
        found = {
            key: found[key] if key in found and found[key].decided else judge_cost(boots[key], key, rules[key])
            for key in JUDGED
        }
        if any(one.result is Relation.SLOWER for one in found.values()) or all(one.decided for one in found.values()):
            return {one.result for one in found.values()}, turn + 1
    return {one.result for one in found.values()}, COST_TURNS


def cell(board: str, known: bool, dearer_by: float, gates: int, seed: int) -> Cell:
    """Run many gates of one board and change."""
    source = random.Random(f"{seed}/{board}/{known}/{dearer_by}")
    draw = BOARDS[board]
    noises: dict[str, Noise] = {}
    ends: Counter[str] = Counter()
    turns = []
    for number in range(gates):
        if known and number % PER_CALIBRATION == 0:
            noises = calibrated(draw, source)
        results, count = gate(draw, dearer_by, noises, source)
        dearer = Relation.SLOWER in results
        ends["dearer"] += dearer
        ends["undecided"] += not dearer and bool({Relation.INCONCLUSIVE, Relation.GO_ON} & results)
        turns.append(count)
    turns.sort()
    of_dearer, of_undecided = (round(ends[name] / gates, 4) for name in ("dearer", "undecided"))
    return Cell(board, known, dearer_by, gates, of_dearer, of_undecided, turns[gates // 2], turns[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.verdicts.costs", description=__doc__)
    parser.add_argument("--gates", type=int, default=GATES, help="gates a cell (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args()
    for board in BOARDS:
        for known in (True, False):
            for by in CHANGES:
                one = cell(board, known, by, chosen.gates, chosen.seed)
                print(
                    f"{one.board}; {'calibrated' if known else 'not calibrated'}; {by * 100:+.0f} %: "
                    f"dearer {one.dearer * 100:.2f} %, undecided {one.undecided * 100:.2f} %, "
                    f"turns {one.median_turns} (at most {one.most_turns})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
