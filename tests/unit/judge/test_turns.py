"""The judge of two builds, simulated: its error rates, the changes that it finds, and the number of boots."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.spread import UNKNOWN, Noise
from pytest_pinet.judge.turns import (
    LEAST_BOOTS,
    MOST_BOOTS,
    Boot,
    ChangeRules,
    Side,
    connections_per_turn,
    judge_change,
    least_by_chance,
    side,
)

CALIBRATED = Noise(0.003, 20, 0.001, session_freedom=6)
LEAST_APART = least_by_chance(odd=0, error_rate=0.01)
RUNS = 300


def boots(
    seed: int, change: float, between: float, within: float, count: int = MOST_BOOTS, drift: float = 0.0, each: int = 3
) -> list[Boot]:
    """Return boots of a link.

    ``between`` and ``within`` are standard deviations, ``drift`` is the drift over eight boots.
    """
    dice = random.Random(seed)
    made = []
    for index in range(count):
        level = 1e9 * math.exp(dice.gauss(0, between) + drift * index / 8)
        level *= 1 + change if side(index) is Side.B else 1
        made.append(Boot(side(index), index, tuple(level * math.exp(dice.gauss(0, within)) for _ in range(each))))
    return made


def end(made: list[Boot], noise: Noise, tolerance: float = 0.01, figures: int = 1) -> tuple[Relation, int]:
    """Return the result, and after how many boots."""
    for count in range(1, len(made) + 1):
        found = judge_change(made[:count], ChangeRules(tolerance, noise, values=figures))
        if found.decided:
            return found.result, count
    raise AssertionError(f"no end after {len(made)} boots: {found.why}")


def simulated(
    change: float, between: float, within: float, noise: Noise = UNKNOWN, drift: float = 0.0, figures: int = 1
) -> tuple[Counter[Relation], float]:
    """Return the percentages of results in all runs, and the mean number of boots."""
    ends = [
        end(boots(seed, change, between, within, drift=drift), noise, figures=figures) for seed in range(RUNS)
    ]  # fmt: skip
    counts = Counter({result: 100 * number / RUNS for result, number in Counter(one for one, _ in ends).items()})
    return counts, sum(count for _, count in ends) / RUNS


NOISES = [(0.0005, 0.001), (0.001, 0.003), (0.003, 0.0055), (0.006, 0.006), (0.01, 0.005)]


@pytest.mark.parametrize(("between", "within"), NOISES)
@pytest.mark.parametrize("drift", [0.0, 0.01])
def test_an_unchanged_build_is_slower_in_at_most_one_of_a_hundred_runs(
    between: float, within: float, drift: float
) -> None:
    found, _ = simulated(0.0, between, within, drift=drift)
    assert found[Relation.SLOWER] <= 1
    assert found[Relation.FASTER] <= 1


@pytest.mark.parametrize(("between", "within"), NOISES)
def test_a_build_two_percent_slower_passes_at_most_as_often_as_the_error_rate(between: float, within: float) -> None:
    found, _ = simulated(-0.02, between, within)
    assert found[Relation.SAME] + found[Relation.FASTER] <= 1


@pytest.mark.parametrize(("between", "within"), NOISES[:3])
def test_two_percent_are_found_and_an_unchanged_build_passes_on_emulated_boots(between: float, within: float) -> None:
    found, boots_made = simulated(-0.02, between, within)
    assert found[Relation.SLOWER] >= 97
    assert boots_made <= LEAST_APART + 0.5
    found, boots_made = simulated(0.0, between, within)
    assert found[Relation.SAME] >= 97
    assert boots_made <= 9


def test_a_calibrated_link_needs_six_boots() -> None:
    for change, result in ((0.0, Relation.SAME), (-0.02, Relation.SLOWER), (0.03, Relation.FASTER)):
        found, boots_made = simulated(change, 0.001, 0.003, CALIBRATED)
        assert found[result] >= 99
        assert boots_made <= LEAST_BOOTS + 0.2


def test_boots_that_exceed_the_calibrated_noise_need_more_than_six_boots() -> None:
    # Recorded on a machine with twice the load that it can carry. The build is unchanged, and drift explains the
    # values.
    recorded = (("A", 224.37), ("B", 224.82), ("B", 224.78), ("A", 218.61), ("B", 221.0), ("A", 224.5))
    made = [Boot(Side(name), at, (level * 1e6,)) for at, (name, level) in enumerate(recorded)]
    emulated = Noise(0.0025, 4, 0.0011, session_freedom=4)
    assert judge_change(made, ChangeRules(noise=emulated)).result is Relation.GO_ON
    made[3], made[4] = Boot(Side.A, 3, (224.4e6,)), Boot(Side.B, 4, (224.7e6,))
    assert judge_change(made, ChangeRules(noise=emulated)).result is Relation.SAME


@pytest.mark.parametrize(("share", "low"), [(0.1, 0.15), (0.2, 0.10)])
def test_a_lottery_of_boots_is_no_slower_build(share: float, low: float) -> None:
    """With four boots, 4.5 and 6.3 % of such unchanged builds were slower."""
    dice = random.Random(f"{share}")
    ends: Counter[Relation] = Counter()
    for seed in range(RUNS):
        made = boots(seed, 0.0, 0.002, 0.003)
        drawn = [1 - low if dice.random() < share else 1.0 for _ in made]
        found = [Boot(b.side, b.at, tuple(one * by for one in b.levels)) for b, by in zip(made, drawn, strict=True)]
        ends[end(found, UNKNOWN)[0]] += 1
    assert ends[Relation.SLOWER] <= RUNS * 0.01
    assert ends[Relation.FASTER] <= RUNS * 0.01


def test_the_only_boot_of_b_that_is_like_a_is_no_outlier() -> None:
    levels = {Side.A: iter([940.0, 941.0, 940.5]), Side.B: iter([800.0, 801.0, 940.2])}
    made = [Boot(side(at), at, (next(levels[side(at)]) * 1e6,)) for at in range(6)]
    found = judge_change(made, ChangeRules())
    assert found.result is not Relation.SLOWER
    assert "outlier" not in found.why


def test_three_boots_of_each_build_remain_without_an_outlier() -> None:
    levels = {Side.A: iter([940.0, 941.0, 940.5, 940.7]), Side.B: iter([940.2, 800.0, 940.6, 940.4])}
    made = [Boot(side(at), at, (next(levels[side(at)]) * 1e6,)) for at in range(8)]
    found = judge_change(made[:6], ChangeRules(noise=CALIBRATED))
    assert (found.result, found.why) == (
        Relation.GO_ON, "too few turns to compare the builds: without an outlier, B has fewer than 3",
    )  # fmt: skip
    assert end(made, CALIBRATED) == (Relation.SAME, 8)


def test_an_obvious_difference_needs_six_boots_without_calibration() -> None:
    assert end(boots(1, -0.3, 0.003, 0.005), UNKNOWN) == (Relation.SLOWER, LEAST_BOOTS)


def test_boots_that_differ_more_than_the_tolerance_end_undecided_early() -> None:
    found, boots_made = simulated(0.0, 0.03, 0.01)
    assert found[Relation.INCONCLUSIVE] >= 80
    assert boots_made < MOST_BOOTS - 4


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("jump", [0.02, 0.03])
def test_boots_of_two_kinds_are_not_a_change(part: float, jump: float) -> None:
    """Virtio NICs of emulated boards receive 644 or 657 Mbit/s from boot to boot, and nothing in between."""
    dice = random.Random(11)
    runs = 2 * RUNS
    counts = Counter(end(two_kinds(dice, part, jump), UNKNOWN)[0] for _ in range(runs))
    assert counts[Relation.SLOWER] <= runs * 0.01
    assert counts[Relation.FASTER] <= runs * 0.01


@pytest.mark.parametrize("part", [0.3, 0.5])
@pytest.mark.parametrize("jump", [0.02, 0.03])
def test_boots_of_two_kinds_do_not_hide_a_slower_build(part: float, jump: float) -> None:
    """All boots of A on the lower level and all of B on the higher one look unchanged. Few boots often fall so."""
    dice = random.Random(12)
    runs = 2 * RUNS
    counts = Counter(end(two_kinds(dice, part, jump, slower=0.02), UNKNOWN)[0] for _ in range(runs))
    assert counts[Relation.SAME] + counts[Relation.FASTER] <= runs * 0.01


def test_odd_boots_ask_for_more_boots() -> None:
    assert [least_by_chance(odd, 0.01) for odd in (0, 1, 2)] == [9, 13, 16]
    assert [least_by_chance(odd, 0.01, ways=1) for odd in (0, 1, 2)] == [8, 12, 15]


def test_with_a_wide_tolerance_an_unchanged_build_passes_after_six_boots() -> None:
    assert end(boots(1, 0.0, 0.0005, 0.001), UNKNOWN, tolerance=0.03) == (Relation.SAME, 6)
    assert end(boots(1, 0.0, 0.0005, 0.001), UNKNOWN) == (Relation.SAME, 8)


def test_an_unchanged_build_with_too_few_boots_names_the_required_number() -> None:
    found = judge_change(boots(1, 0.0, 0.0005, 0.001, 7), ChangeRules(most_boots=7))
    assert found.result is Relation.INCONCLUSIVE
    assert found.why.endswith("a certain result needs 8 turns (--boots) or `pinet calibrate --boots`")


def test_with_too_few_boots_the_message_names_the_required_number() -> None:
    made = boots(1, -0.02, 0.0005, 0.001, 8)
    found = judge_change(made, ChangeRules(most_boots=8))
    assert found.result is Relation.INCONCLUSIVE
    assert found.why.endswith(f"needs {LEAST_APART} turns (--boots) or `pinet calibrate --boots`")
    assert judge_change(made, ChangeRules(most_boots=9)).result is Relation.GO_ON
    assert judge_change(made, ChangeRules(noise=CALIBRATED, most_boots=8)).result is Relation.SLOWER
    assert "--pinet-boots" not in judge_change(boots(1, 0.0, 0.03, 0.01, 8), ChangeRules(most_boots=8)).why


# Recorded goodput (Mbit/s) of an unchanged emulated board that sends four streams while other work uses the processors,
# one boot each. The durations were still in the peer's time; today they are in the board's own time.
RECORDED = (648.5, 645.5, 654.8, 626.9, 633.2, 617.8)


@pytest.mark.parametrize("change", [0.0, -0.005])
def test_a_difference_smaller_than_the_recorded_noise_is_inconclusive(change: float) -> None:
    dice = random.Random(3)
    counts: Counter[Relation] = Counter()
    for _ in range(RUNS):
        levels = [dice.choice(RECORDED) * (1 + change if side(index) is Side.B else 1) for index in range(MOST_BOOTS)]
        counts[end([Boot(side(index), index, (level,)) for index, level in enumerate(levels)], UNKNOWN)[0]] += 1
    assert counts[Relation.INCONCLUSIVE] >= 0.85 * RUNS
    assert counts[Relation.SLOWER] <= 0.015 * RUNS
    assert counts[Relation.FASTER] <= 0.015 * RUNS


def two_kinds(dice: random.Random, part: float, jump: float, slower: float = 0.0) -> list[Boot]:
    """Return boots of which a share ``part`` is faster by ``jump``, and each boot of B is slower by ``slower``."""
    levels = [644e6 * (1 + jump * (dice.random() < part)) * math.exp(dice.gauss(0, 0.0005)) for _ in range(MOST_BOOTS)]
    return [
        Boot(side(index), index, (level * (1 - slower * (side(index) is Side.B)),))
        for index, level in enumerate(levels)
    ]


def test_the_error_rate_holds_for_many_values_together() -> None:
    wrong = 0
    for run in range(60):
        ends = [end(boots(run * 12 + n, 0.0, 0.006, 0.006), UNKNOWN, figures=12)[0] for n in range(12)]
        wrong += Relation.SLOWER in ends
    assert wrong <= 1


def test_one_outlier_in_six_boots_does_not_decide() -> None:
    made = boots(5, 0.0, 0.001, 0.002)
    made[2] = Boot(made[2].side, made[2].at, tuple(level * 0.9 for level in made[2].levels))
    result, count = end(made, UNKNOWN)
    assert result is Relation.SAME
    assert count >= 7, "an odd boot of B takes four of B"
    assert "an outlier of B was left out" in judge_change(made[:count], ChangeRules()).why


def test_a_build_with_outliers_in_half_of_its_boots_does_not_pass() -> None:
    made = boots(6, 0.0, 0.001, 0.002)
    for index, boot in enumerate(made):
        if boot.side is Side.B and index % 2:
            made[index] = Boot(boot.side, boot.at, tuple(level * 0.9 for level in boot.levels))
    assert end(made, UNKNOWN)[0] in (Relation.SLOWER, Relation.INCONCLUSIVE)


def test_boots_without_a_value_are_ignored() -> None:
    made = boots(7, -0.05, 0.001, 0.002)
    made[1] = Boot(made[1].side, made[1].at, ())
    made[4] = Boot(made[4].side, made[4].at, (0.0, math.nan))
    assert end(made, UNKNOWN)[0] is Relation.SLOWER


def test_the_change_is_reported_without_drift_and_with_its_interval() -> None:
    found = judge_change(boots(8, -0.05, 0.0005, 0.001, 8, drift=0.04), ChangeRules())
    assert found.change == pytest.approx(-0.05, abs=0.003)
    assert found.interval is not None
    low, high = found.interval
    assert low < -0.05 < high


def test_an_impossible_tolerance_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the tolerance 0 is not between 0 and 0\.5"):
        judge_change([], ChangeRules(0))


def test_longer_boots_get_more_connections() -> None:
    assert connections_per_turn(UNKNOWN, boot_s=30, connection_s=40) == 2
    assert connections_per_turn(UNKNOWN, boot_s=30, connection_s=4) == 5
    assert connections_per_turn(UNKNOWN, boot_s=0.5, connection_s=4) == 1
    assert connections_per_turn(Noise(0.003, 9, 0.0), boot_s=30, connection_s=4) == 6
