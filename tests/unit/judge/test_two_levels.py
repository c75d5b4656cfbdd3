"""Links whose connections or days fall on two levels: recognised, judged by both levels and their shares, and shown."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from pytest_pinet.judge.baseline import ANY_TOLERANCE, Baseline, RunPlace
from pytest_pinet.judge.gate import rule_on
from pytest_pinet.judge.noise import UNKNOWN
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.two_levels import explanations, is_other_share, two_levels
from pytest_pinet.model.attempt import Attempt, Fresh
from pytest_pinet.model.judgement import DirectionJudgement
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_attempts import steady

HIGH = 940.0
Draw = Callable[[random.Random], float]


def baseline(days: Sequence[Sequence[float]]) -> Baseline:
    places = tuple(RunPlace(f"2026-11-{number + 1:02}") for number, day in enumerate(days) for _ in day)
    runs = [run for day in days for run in day]
    return Baseline(Bitrate.mbps(sum(runs) / len(runs)), tuple(Bitrate.mbps(run) for run in runs), places=places)


def of_connections(apart: float, source: random.Random, share: float = 0.5) -> Baseline:
    return baseline([[level(apart, share)(source) * source.gauss(1, 0.001) for _ in range(3)] for _ in range(8)])


def level(apart: float, share: float = 0.5) -> Draw:
    return lambda source: HIGH * (1 - apart * (source.random() < share))


def gate(own: Baseline, draw: Draw, source: random.Random, slower: float = 0.0) -> DirectionJudgement:
    attempts: list[Attempt] = []
    wanted: Fresh | None = Fresh.CONNECTION
    while wanted is not None:
        attempts.append(steady(round(draw(source) * (1 - slower) * source.gauss(1, 0.001), 2), fresh=wanted))
        goodput = Bitrate(sum(attempt.goodput.bps for attempt in attempts) / len(attempts))
        oracle = Oracle(Bitrate.mbps(1e5), "none")
        ruling = rule_on(
            attempts, goodput, goodput, oracle, ANY_TOLERANCE, UNKNOWN, PROFILES["standard"], None, True, own
        )
        wanted = ruling.wanted
    return ruling.judgement


@pytest.mark.parametrize("apart", [0.05, 0.1])
def test_connections_on_two_levels_are_recognised(apart: float) -> None:
    found = two_levels(of_connections(apart, random.Random(1)))
    assert found is not None
    assert not found.of_days
    assert found.gap == pytest.approx(-math.log(1 - apart), rel=0.05)
    assert found.count == 24


def test_days_on_two_levels_are_recognised() -> None:
    found = two_levels(baseline([[HIGH * (0.95 if day % 3 else 1)] * 3 for day in range(8)]))
    assert found is not None
    assert (found.of_days, found.lower, found.count) == (True, 5, 8)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("sd", [0.001, 0.01, 0.05])
def test_noise_is_not_two_levels(sd: float, seed: int) -> None:
    source = random.Random(seed)
    assert two_levels(baseline([[HIGH * source.gauss(1, sd) for _ in range(3)] for _ in range(8)])) is None


@pytest.mark.parametrize("apart", [0.05, 0.1])
def test_a_link_with_two_levels_is_judged_right(apart: float) -> None:
    source = random.Random(f"levels {apart}")
    for _ in range(20):
        own = of_connections(apart, source)
        if two_levels(own) is None:
            continue
        assert gate(own, level(apart), source).verdict in (Verdict.PASS, Verdict.MARGINAL)
        assert gate(own, level(apart), source, slower=0.05).verdict is Verdict.FAIL


def test_a_verdict_shows_the_levels_and_their_shares() -> None:
    source = random.Random(4)
    found = gate(of_connections(0.1, source), level(0.1), source, slower=0.05)
    assert "connections on two levels, 80" in found.reason
    assert "of 24 in the baseline" in found.reason


def test_another_share_that_lowers_the_long_run_mean_beyond_the_tolerance_fails() -> None:
    source = random.Random(5)
    found = gate(of_connections(0.1, source), level(0.1, share=1.0), source)
    assert found.verdict is Verdict.FAIL


def test_another_share_within_the_tolerance_is_marginal() -> None:
    source = random.Random(6)
    own = of_connections(0.02, source, share=0.3)
    levels = two_levels(own)
    assert levels is not None
    attempts = [steady(HIGH * 0.98) if index else steady(HIGH) for index in range(14)]
    low = [math.log(attempt.goodput.bps) for attempt in attempts]
    best = explanations(low, levels, 0.01)[0]
    assert abs(best.shift) < 0.003
    assert -0.03 < best.change < -0.008
    assert is_other_share(13, 14, levels, 0.01)
    assert not is_other_share(5, 14, levels, 0.01)


def test_a_gate_of_another_share_within_the_tolerance_is_marginal() -> None:
    source = random.Random(4)
    found = gate(of_connections(0.04, source, share=0.1), level(0.04, share=0.6), source)
    assert (found.verdict, found.state) == (Verdict.MARGINAL, "")
    assert "11 of 14 on the lower one, 3 of 24 in the baseline" in found.reason


def test_days_on_two_levels_leave_only_the_ambiguous_day_open() -> None:
    own = baseline([[HIGH * (0.95 if day % 2 else 1)] * 3 for day in range(8)])
    source = random.Random(7)
    assert gate(own, lambda _: HIGH, source).verdict is Verdict.PASS
    open_day = gate(own, lambda _: HIGH * 0.95, source)
    assert open_day.verdict is Verdict.INCONCLUSIVE
    assert "an unchanged link on its lower level explains the values as well as a slower one" in open_day.reason
    assert gate(own, lambda _: HIGH * 0.95, source, slower=0.05).verdict is Verdict.FAIL
