"""Two sets of runs: days and sessions that both share cancel, others differ as in the gate."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from pytest_pinet.judge.baseline import Baseline, RunPlace
from pytest_pinet.judge.days import compare_sets
from pytest_pinet.judge.difference import Relation
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance

THREE = Tolerance(Share(0.03))
DAY_SD, RUN_SD = 0.008, 0.003


def runs(source: random.Random, levels: dict[int, float], each: int, slower: float = 0.0) -> Baseline:
    """Return so many runs on each of these days, which are on these levels."""
    made = [
        (
            RunPlace(f"2026-11-{day:02}", str(day)),
            Bitrate(940e6 * (1 - slower) * math.exp(level + source.gauss(0, RUN_SD))),
        )
        for day, level in levels.items()
        for _ in range(each)
    ]
    return Baseline(Bitrate(940e6), tuple(run for _, run in made), places=tuple(place for place, _ in made))


def levels(source: random.Random, *days: int) -> dict[int, float]:
    return {day: source.gauss(0, DAY_SD) for day in days}


@pytest.mark.parametrize("slower", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("days", [(1, 1), (1, 3), (5, 1), (8, 2)])
def test_at_most_one_in_a_hundred_comparisons_of_other_days_is_wrong(days: tuple[int, int], slower: float) -> None:
    source = random.Random(f"{days}{slower}")
    found: Counter[Relation] = Counter()
    for _ in range(600):
        old = runs(source, levels(source, *range(1, 1 + days[0])), 6)
        new = runs(source, levels(source, *range(11, 11 + days[1])), 3, slower)
        found[compare_sets(old, new, THREE).result] += 1
    wrong = (Relation.SAME, Relation.FASTER) if slower == 0.05 else (Relation.SLOWER, Relation.FASTER)
    assert sum(found[one] for one in wrong) <= 6


@pytest.mark.parametrize(("slower", "result"), [(0.0, Relation.SAME), (0.05, Relation.SLOWER)])
def test_days_that_both_sets_share_cancel(slower: float, result: Relation) -> None:
    source = random.Random(7)
    found: Counter[Relation] = Counter()
    for _ in range(200):
        # Days that differ by 3 %.
        same = {day: source.gauss(0, 0.03) for day in (1, 2, 3)}
        found[compare_sets(runs(source, same, 3), runs(source, same, 3, slower), THREE).result] += 1
    assert found[result] >= 196


def test_runs_of_one_night_each_on_the_same_nights_still_have_noise() -> None:
    source = random.Random(8)
    same = levels(source, *range(1, 6))
    low, high = compare_sets(runs(source, same, 1), runs(source, same, 1), THREE).interval or (0.0, 0.0)
    assert high - low > 0.01


def test_the_reason_names_what_days_may_do_and_what_decides() -> None:
    source = random.Random(9)
    old, new = runs(source, {1: 0.0}, 6), runs(source, {2: -0.03}, 3)
    found = compare_sets(old, new, THREE)
    assert found.result is Relation.INCONCLUSIVE
    assert "tolerance 3%; 3 runs against 6; their days may differ by 3.3 %; runs of the same days decide" in found.why
    together = compare_sets(old, runs(source, {1: 0.0}, 3), THREE)
    assert "days" not in together.why
    assert together.result is Relation.SAME
