"""Rates of rare events: the bounds, the error rates of both tests, and what counts as one event."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from pytest_pinet.judge.event_rate import (
    BOARDS,
    QUIET_S,
    Event,
    Exposure,
    judge_builds,
    judge_limit,
    merged,
    most_expected,
    sentence,
)
from pytest_pinet.model.verdict import Verdict

SEVERITY = ("reboot", "stall", "link drop")


@pytest.mark.parametrize(("events", "most"), [(0, 2.9957), (1, 4.7439), (3, 7.7537), (20, 29.0620)])
def test_the_bound_is_that_of_the_poisson_distribution(events: int, most: float) -> None:
    assert most_expected(events) == pytest.approx(most, abs=1e-4)


def test_no_event_is_said_with_what_it_proves_and_what_would_prove_more() -> None:
    said = sentence(Exposure(0, 40), "stall")
    assert said == "0 stalls in 40 h: below 75 per 1,000 h; to show < 1 per 1,000 h, watch 24 boards for 5 days"
    assert sentence(Exposure(1, 100), "link drop") == "1 link drop in 100 h: 10 per 1,000 h, below 47 per 1,000 h"
    assert sentence(Exposure(0, 3_100), "stall") == "0 stalls in 3,100 h: below 0.97 per 1,000 h"
    assert sentence(Exposure(0, 3_100), "stall", limit=0.5).endswith(f"watch {BOARDS} boards for 10 days")
    assert "no hour was watched" in sentence(Exposure(0, 0), "stall")


def test_without_an_event_a_limit_passes_after_the_hours_of_the_facts() -> None:
    for limit, hours in ((0.5, 4_600), (5.0, 460)):
        assert judge_limit(Exposure(0, hours), limit) is Verdict.PASS
        assert judge_limit(Exposure(0, 0.99 * hours), limit) is Verdict.INCONCLUSIVE


def test_twelve_events_of_b_and_none_of_a_are_certain() -> None:
    assert judge_builds(Exposure(0, 100), Exposure(12, 100)) is Verdict.FAIL
    assert judge_builds(Exposure(0, 100), Exposure(11, 100)) is Verdict.INCONCLUSIVE
    assert judge_builds(Exposure(7, 100), Exposure(0, 100)) is Verdict.PASS
    assert judge_builds(Exposure(0, 100), Exposure(0, 100)) is Verdict.INCONCLUSIVE
    # As many events in a third of the hours are three times the rate.
    assert judge_builds(Exposure(40, 300), Exposure(40, 100)) is Verdict.FAIL
    assert judge_builds(Exposure(0, 0), Exposure(50, 100)) is Verdict.INCONCLUSIVE


def test_the_comparison_of_builds_errs_in_at_most_one_of_a_hundred_after_35_events() -> None:
    for ratio, wrong, right in ((1.0, Verdict.FAIL, Verdict.PASS), (3.0, Verdict.PASS, Verdict.FAIL)):
        rng = random.Random(7)
        verdicts, events = [], []
        for _ in range(3_000):
            # Boards of very different rates, and both builds in turn on each of them for the same time.
            rates = [rng.gammavariate(0.25, 4.0) for _ in range(6)]
            verdict, count = _course(rng, rates, ratio)
            verdicts.append(verdict)
            events.append(count)
        assert verdicts.count(wrong) / len(verdicts) <= 0.01
        assert verdicts.count(right) / len(verdicts) >= 0.99
        assert 30 <= fmean(events) <= 38


def _course(rng: random.Random, rates: list[float], ratio: float) -> tuple[Verdict, int]:
    """Let events come, each on a board and in a build with the probability of its rate, until they decide."""
    a = b = 0
    while True:
        board = rng.choices(range(len(rates)), rates)[0]
        assert rates[board] > 0
        if rng.random() < ratio / (1 + ratio):
            b += 1
        else:
            a += 1
        verdict = judge_builds(Exposure(a, 100.0), Exposure(b, 100.0))
        if verdict is not Verdict.INCONCLUSIVE:
            return verdict, a + b


def test_the_comparison_with_a_limit_errs_in_at_most_one_of_a_hundred() -> None:
    for rate, right, hours in ((0.5, Verdict.PASS, 10_000), (1.5, Verdict.FAIL, 7_500)):
        rng = random.Random(11)
        found = [_watched(rng, rate) for _ in range(2_000)]
        assert sum(verdict is right for verdict, _ in found) / len(found) >= 0.99
        assert fmean(time for _, time in found) == pytest.approx(hours, rel=0.15)


def _watched(rng: random.Random, rate: float) -> tuple[Verdict, float]:
    """Watch hour by hour until a limit of 0.5 per 1,000 h is certainly kept or exceeded."""
    events, hours, step = 0, 0.0, 20.0
    following = rng.expovariate(rate / 1000)
    while True:
        hours += step
        while following <= hours:
            events += 1
            following += rng.expovariate(rate / 1000)
        verdict = judge_limit(Exposure(events, hours), 0.5)
        if verdict is not Verdict.INCONCLUSIVE:
            return verdict, hours


def test_a_burst_is_one_event_until_the_board_was_quiet_for_ten_minutes() -> None:
    burst = [Event(0, 30, "link drop"), Event(30 + QUIET_S, 700, "stall"), Event(40, 900, "link drop")]
    assert merged(burst, SEVERITY) == [Event(0, 900, "stall")]
    later = Event(901 + QUIET_S, 2_000, "link drop")
    assert merged([*burst, later], SEVERITY) == [Event(0, 900, "stall"), later]
    # One that goes on takes in all that follows.
    assert len(merged([Event(0, math.inf, "stall"), later], SEVERITY)) == 1
    assert merged([], SEVERITY) == []


def test_merged_bursts_keep_the_error_rate() -> None:
    rng, wrong, runs = random.Random(3), 0, 400
    for _ in range(runs):
        counts = [0, 0]
        verdict = Verdict.INCONCLUSIVE
        while verdict is Verdict.INCONCLUSIVE:
            at = rng.random() * 1e6
            burst = [Event(at + 60 * part, at + 60 * part + 5, "stall") for part in range(3)]
            counts[rng.random() < 0.5] += len(merged(burst, SEVERITY))
            verdict = judge_builds(Exposure(counts[0], 10), Exposure(counts[1], 10))
        wrong += verdict is Verdict.FAIL
    assert wrong / runs <= 0.02
