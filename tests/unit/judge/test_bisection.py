"""The posterior over commits: merges, skips, layout, a lottery of boots, drift, priors."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from pytest_pinet.judge.bisection import CERTAIN, END_BOOTS, GOOD, GOOD_EVERY, Bisection

LINE = {f"c{number}": [f"c{number - 1}"] if number else [] for number in range(16)}
# c0 - a1 - a2 - m - z, and b1 - b2 from c0 to m.
MERGED = {"c0": [], "a1": ["c0"], "a2": ["a1"], "b1": ["c0"], "b2": ["b1"], "m": ["a2", "b2"], "z": ["m"]}
HAVE = {"a1": {"a1", "a2", "m", "z"}, "b2": {"b2", "m", "z"}, "m": {"m", "z"}, "c0": set(MERGED)}
DROP = math.log(0.98)


def search(found: Bisection, boot: Callable[[str], float], ends: int = 6) -> list[str]:
    """Boot until the search ends, and return what was booted after the ends."""
    for number in range(ends):
        end = found.bad if number.bit_count() % 2 else GOOD
        found.add(end, boot(end))
    booted = list[str]()
    while not found.is_certain and (commit := found.next()) is not None and len(booted) < 300:
        booted.append(commit)
        found.add(commit, boot(commit))
    return booted


def noisy(first_bad: set[str], noise: float = 0.005, seed: int = 1, lottery: float = 0.0) -> Callable[[str], float]:
    chance = random.Random(seed)

    def boot(commit: str) -> float:
        low = math.log(0.85) if chance.random() < lottery else 0.0
        return (DROP if commit in first_bad else 0.0) + chance.gauss(0, noise) + low

    return boot


def from_(name: str) -> set[str]:
    return {f"c{number}" for number in range(int(name[1:]), 16)}


@pytest.mark.parametrize("culprit", ["c0", "c7", "c15"])
def test_a_commit_of_a_line_is_found_with_few_boots(culprit: str) -> None:
    found = Bisection(LINE)
    booted = search(found, noisy(from_(culprit)))
    assert found.best()[0] == [culprit]
    assert len(booted) < 20
    assert "c15" not in booted


@pytest.mark.parametrize("culprit", HAVE)
def test_a_commit_of_a_history_with_merges_is_found(culprit: str) -> None:
    found = Bisection(MERGED)
    search(found, noisy(HAVE[culprit]))
    assert found.best()[0] == [culprit]


def test_values_without_noise_need_one_boot_a_commit() -> None:
    found = Bisection(LINE, layout=0.02)
    booted = search(found, lambda commit: math.log(350.0 if commit in from_("c6") else 300.0), ends=2)
    assert found.best()[0] == ["c6"]
    assert len(booted) == len(set(booted)) <= 6


def test_the_best_of_several_commits_that_cannot_be_told_apart_is_all_of_them() -> None:
    found = Bisection(LINE)
    for commit in ("c6", "c7"):
        found.skip(commit)
    booted = search(found, noisy(from_("c7")))
    assert found.best()[0] == ["c6", "c7", "c8"]
    assert found.is_certain
    assert not {"c6", "c7"} & set(booted)


def test_a_skipped_commit_keeps_its_mass() -> None:
    found = Bisection(LINE)
    boot = noisy(from_("c7"))
    for end in (GOOD, "c15") * 3:
        found.add(end, boot(end))
    before = found.mass()["c7"]
    found.skip("c7")
    assert found.mass()["c7"] == before > 0


def test_boots_of_one_commit_are_not_proof_of_more_than_its_layout() -> None:
    found = Bisection(LINE)
    boot = noisy(from_("c15"), noise=0.0005)
    for end in (GOOD, "c15") * 3:
        found.add(end, boot(end))
    # The layout of c3 alone costs as much as the culprit does.
    for _ in range(100):
        found.add("c3", boot("c15"))
    bad = sum(found.mass()[name] for name in ("c0", "c1", "c2", "c3"))
    assert 0.5 < bad < CERTAIN
    # Few boots of its descendants tell that.
    for name in ("c4", "c5", "c6", "c8", "c10"):
        found.add(name, boot(name))
        found.add(name, boot(name))
    assert sum(found.mass()[name] for name in ("c0", "c1", "c2", "c3")) < 0.5


def test_some_low_boots_do_not_lead_away() -> None:
    right = 0
    for seed in range(20):
        found = Bisection(LINE)
        search(found, noisy(from_("c9"), 0.005, seed, lottery=0.05))
        right += found.best()[0] == ["c9"]
    assert right >= 18


def test_a_drift_of_the_lab_is_removed() -> None:
    found, chance, number = Bisection(LINE), random.Random(1), 0

    def boot(commit: str) -> float:
        nonlocal number
        number += 1
        return (DROP if commit in from_("c4") else 0.0) + chance.gauss(0, 0.002) - 0.001 * number

    booted = search(found, boot, ends=12)
    assert found.best()[0] == ["c4"]
    assert GOOD in booted or len(booted) < GOOD_EVERY


def test_ends_that_do_not_differ_get_more_boots_and_then_nothing_is_chosen() -> None:
    found = Bisection(LINE)
    chance = random.Random(3)
    booted = list[str]()
    for end in (GOOD, "c15") * 3:
        found.add(end, chance.gauss(0, 0.01))
    while (commit := found.next()) is not None:
        booted.append(commit)
        found.add(commit, chance.gauss(0, 0.01))
    assert not found.differs
    assert not found.is_certain
    assert set(booted) == {GOOD, "c15"}
    assert len(booted) == END_BOOTS - 6


def test_a_weight_leads_to_the_commits_of_the_driver() -> None:
    found = Bisection(LINE, {"c2": 1000.0})
    boot = noisy(from_("c2"), noise=0.001)
    for end in (GOOD, "c15") * 3:
        found.add(end, boot(end))
    assert max(found.mass(), key=found.mass().__getitem__) == "c2"
    assert found.next() in ("c1", "c2")


def test_more_boots_are_left_for_more_noise() -> None:
    quiet, loud = Bisection(LINE), Bisection(LINE)
    for found, noise in ((quiet, 0.001), (loud, 0.01)):
        boot = noisy(from_("c9"), noise)
        for end in (GOOD, "c15") * 6:
            found.add(end, boot(end))
    assert 1 <= quiet.boots_left() < loud.boots_left()


def test_a_long_history_is_searched_in_seconds() -> None:
    line = {f"c{number}": [f"c{number - 1}"] if number else [] for number in range(5000)}
    found = Bisection(line, layout=0.02)
    booted = search(found, lambda commit: 1.0 if commit and int(commit[1:]) >= 3333 else 0.0, ends=2)
    assert found.best()[0] == ["c3333"]
    assert len(booted) < 30
