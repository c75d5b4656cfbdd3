"""The share of bad boots and flaps: when it is certain, how often it is wrong, and whether build B has more than A."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pytest_pinet.judge.shares import Events, ShareRule, barnard, judge_builds, wants_a
from pytest_pinet.model.verdict import Verdict

BOOTS = ShareRule.passing_after(33, 0.02)
# A lottery of one boot in seven, as reported for a Raspberry Pi 5.
LOTTERY = 1 / 7
RUNS = 600
# Barnard's test takes a few milliseconds.
FEW = 150


def boots(seed: int, bad: float) -> Verdict:
    """Boot until the share is certain."""
    rng, seen = random.Random(seed), Events()
    while (verdict := BOOTS.judge(seen)) is None:
        seen = Events(seen.count + 1, seen.bad + (rng.random() < bad))
    return verdict


def builds(seed: int, bad_a: float, bad_b: float) -> Verdict:
    """Boot two builds, B first, until the verdict is certain."""
    rng, a, b = random.Random(seed), Events(), Events()
    while (verdict := judge_builds(b, a, BOOTS)) is None:
        if wants_a(b, BOOTS):
            a = Events(a.count + 1, a.bad + (rng.random() < bad_a))
        else:
            b = Events(b.count + 1, b.bad + (rng.random() < bad_b))
    return verdict


def test_33_clean_boots_pass_and_32_do_not() -> None:
    assert BOOTS.judge(Events(33)) is Verdict.PASS
    assert BOOTS.judge(Events(32)) is None


@pytest.mark.parametrize(("clean", "allowed", "found"), [(33, 0.02, 0.147), (10, 0.02, 0.381), (5, 0.1, 0.641)])
def test_fewer_events_find_only_larger_shares(clean: int, allowed: float, found: float) -> None:
    rule = ShareRule.passing_after(clean, allowed)
    assert rule.found == pytest.approx(found, abs=0.001)
    assert rule.judge(Events(clean)) is Verdict.PASS
    assert rule.judge(Events(clean - 1)) is None


def test_three_bad_boots_in_a_row_fail_and_two_do_not() -> None:
    assert BOOTS.judge(Events(2, 2)) is None
    assert BOOTS.judge(Events(3, 3)) is Verdict.FAIL


def test_a_share_between_both_ends_is_inconclusive_after_99_boots() -> None:
    assert BOOTS.judge(Events(98, 7)) is None
    assert BOOTS.judge(Events(99, 7)) is Verdict.INCONCLUSIVE


def test_good_boards_pass_and_a_lottery_is_found() -> None:
    good = Counter(boots(seed, 0.02) for seed in range(RUNS))
    bad = Counter(boots(seed, LOTTERY) for seed in range(RUNS))
    # Nominal: 1 % each. Three standard errors of 600 runs are 1.2 %.
    assert good[Verdict.FAIL] <= 0.022 * RUNS
    assert bad[Verdict.FAIL] >= 0.95 * RUNS
    assert bad[Verdict.PASS] <= 0.022 * RUNS


@pytest.mark.parametrize("share", [0.0, 0.02, 0.07, LOTTERY])
def test_equal_builds_are_no_regression(share: float) -> None:
    found = Counter(builds(seed, share, share) for seed in range(FEW))
    assert found[Verdict.FAIL] <= 0.034 * FEW


def test_a_lottery_of_build_b_alone_is_a_regression() -> None:
    found = Counter(builds(seed, 0.0, LOTTERY) for seed in range(FEW))
    assert found[Verdict.FAIL] >= 0.95 * FEW


def test_a_fault_of_both_builds_is_inconclusive() -> None:
    assert judge_builds(Events(3, 3), Events(3, 3), BOOTS) is Verdict.INCONCLUSIVE


def test_build_a_is_booted_only_after_a_fail_of_b() -> None:
    assert not wants_a(Events(10, 2), BOOTS)
    assert wants_a(Events(3, 3), BOOTS)
    assert judge_builds(Events(3, 3), Events(10), BOOTS) is None
    assert judge_builds(Events(33), Events(), BOOTS) is Verdict.PASS


def test_barnards_test_is_that_of_the_literature() -> None:
    # Mehta and Senchaudhuri, "Conditional versus unconditional exact tests" (2003): 7 of 15 and 12 of 15, p = 0.0341.
    assert barnard(Events(15, 7), Events(15, 12)) == pytest.approx(0.0341, abs=0.0003)
    assert barnard(Events(15, 12), Events(15, 7)) > 0.5
    assert barnard(Events(), Events(3, 3)) == 1.0


def test_a_sentence_counts_the_bad_events() -> None:
    assert Events.of([False, True, False]).words("boots") == "1 of 3 boots was bad (33 %)"
    assert Events(40, 2).words("flaps") == "2 of 40 flaps were bad (5.0 %)"
