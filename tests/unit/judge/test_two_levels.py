"""Links whose connections or days fall on two levels: recognised, judged by both levels and their shares, and shown."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

import pytest

from pytest_pinet.judge.baseline import ANY_TOLERANCE, Baseline, Reference, RunPlace
from pytest_pinet.judge.days import days_for_tolerance
from pytest_pinet.judge.gate import GatePlan, rule_on
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.two_levels import Unit, explanations, is_other_share, two_levels
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.judgement import DirectionJudgement
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import steady

HIGH = 940.0
Draw = Callable[[random.Random], float]


def baseline(days: Sequence[Sequence[float]]) -> Baseline:
    places = tuple(RunPlace(f"2026-11-{number + 1:02}") for number, day in enumerate(days) for _ in day)
    runs = [run for day in days for run in day]
    return Baseline(Bitrate.mbps(sum(runs) / len(runs)), tuple(Bitrate.mbps(run) for run in runs), places=places)


def of_boots(apart: float, source: random.Random, boots: int, runs: int, days: int = 8) -> Baseline:
    """Return a baseline of so many days, with so many boots on each, and so many runs in each boot."""
    of_boot = [level(apart)(source) for _ in range(days * boots)]
    runs_of = [Bitrate.mbps(one * source.gauss(1, 0.001)) for one in of_boot for _ in range(runs)]
    places = [
        RunPlace(f"2026-11-{1 + boot // boots:02}", str(boot)) for boot in range(days * boots) for _ in range(runs)
    ]
    return Baseline(Bitrate(fmean(run.bps for run in runs_of)), tuple(runs_of), places=tuple(places))


def of_connections(apart: float, source: random.Random, share: float = 0.5) -> Baseline:
    return baseline([[level(apart, share)(source) * source.gauss(1, 0.001) for _ in range(3)] for _ in range(8)])


def level(apart: float, share: float = 0.5) -> Draw:
    return lambda source: HIGH * (1 - apart * (source.random() < share))


def gate(own: Baseline, draw: Draw, source: random.Random, slower: float = 0.0) -> DirectionJudgement:
    connections: list[Connection] = []
    wanted: Fresh | None = Fresh.CONNECTION
    while wanted is not None:
        connections.append(steady(round(draw(source) * (1 - slower) * source.gauss(1, 0.001), 2), fresh=wanted))
        goodput = Bitrate(sum(connection.goodput.bps for connection in connections) / len(connections))
        oracle = Oracle(Bitrate.mbps(1e5), "none")
        plan = GatePlan([], PROFILES["standard"])
        ruling = rule_on(connections, goodput, goodput, oracle, ANY_TOLERANCE, plan, Reference(baseline=own))
        wanted = ruling.wanted
    return ruling.judgement


@pytest.mark.parametrize("apart", [0.05, 0.1])
def test_connections_on_two_levels_are_recognised(apart: float) -> None:
    found = two_levels(of_connections(apart, random.Random(1)))
    assert found is not None
    assert found.unit is Unit.CONNECTION
    assert found.gap == pytest.approx(-math.log(1 - apart), rel=0.05)
    assert found.count == 24


def test_no_more_days_are_missing_for_a_link_that_the_gate_judges() -> None:
    """Its connections fall on two levels, but its days are alike."""
    own = of_connections(0.1, random.Random(1))
    assert days_for_tolerance(own, Tolerance(Share(0.03))) == 0
    days = baseline([[HIGH * (0.95 if day % 2 else 1)] * 3 for day in range(8)])
    assert days_for_tolerance(days, Tolerance(Share(0.03))) is None


@pytest.mark.parametrize(("apart", "unit"), [(0.21, Unit.CONNECTION), (0.23, None)])
def test_rates_that_are_far_apart_are_no_two_levels(apart: float, unit: Unit | None) -> None:
    """The greatest distance is 0.25 in logarithms: 22 %."""
    found = two_levels(of_connections(apart, random.Random(1)))
    assert (None if found is None else found.unit) is unit


def test_a_level_of_a_single_boot_is_one_of_boots() -> None:
    """Its connections are too many for chance, so today's, too, are one draw of boots and not several."""
    own = baseline([[HIGH] * 3] * 7 + [[HIGH * 0.8] * 3])
    found = two_levels(own)
    assert found is not None
    assert (found.unit, found.lower, found.count, found.proven) == (Unit.DAY, 3, 24, False)
    assert gate(own, lambda _: HIGH * 0.8, random.Random(1)).verdict is Verdict.INCONCLUSIVE


def test_days_on_two_levels_are_recognised() -> None:
    found = two_levels(baseline([[HIGH * (0.95 if day % 3 else 1)] * 3 for day in range(8)]))
    assert found is not None
    assert (found.unit, found.lower, found.count) == (Unit.DAY, 5, 8)


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


def test_levels_that_only_the_run_shows_are_named_and_no_plain_pass() -> None:
    source = random.Random(7)
    own = baseline([[HIGH * source.gauss(1, 0.001) for _ in range(3)] for _ in range(8)])
    assert two_levels(own) is None
    found = [gate(own, level(0.1, share=0.3), source) for _ in range(60)]
    shown = [
        one for one in found if "connections on two levels, 846" in one.reason and " on the lower one" in one.reason
    ]
    assert len(shown) >= 5
    assert Verdict.PASS not in {one.verdict for one in shown}


def test_another_share_that_lowers_the_long_run_mean_beyond_the_tolerance_fails() -> None:
    source = random.Random(5)
    found = gate(of_connections(0.1, source), level(0.1, share=1.0), source)
    assert found.verdict is Verdict.FAIL


def test_another_share_within_the_tolerance_is_marginal() -> None:
    source = random.Random(6)
    own = of_connections(0.02, source, share=0.3)
    levels = two_levels(own)
    assert levels is not None
    connections = [steady(HIGH * 0.98) if index else steady(HIGH) for index in range(14)]
    low = [math.log(connection.goodput.bps) for connection in connections]
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


@pytest.mark.parametrize(("boots", "runs", "proven"), [(3, 1, False), (2, 2, True)])
def test_boots_on_two_levels_are_recognised(boots: int, runs: int, proven: bool) -> None:
    found = two_levels(of_boots(0.1, random.Random(2), boots, runs))
    assert found is not None
    assert (found.unit, found.count, found.proven) == (Unit.BOOT, 8 * boots, proven)


def test_link_ups_on_two_levels_are_recognised() -> None:
    places = [RunPlace("2026-11-01", str(up // 4), str(up)) for up in range(24) for _ in range(2)]
    runs = [HIGH * (0.9 if up % 3 else 1) for up in range(24) for _ in range(2)]
    own = Baseline(Bitrate.mbps(870), tuple(Bitrate.mbps(run) for run in runs), places=tuple(places))
    found = two_levels(own)
    assert found is not None
    assert (found.unit, found.lower, found.count) == (Unit.LINK_UP, 16, 24)


@pytest.mark.parametrize(("boots", "runs"), [(3, 1), (2, 2)])
@pytest.mark.parametrize("slower", [0.0, 0.05])
def test_one_boot_on_a_level_is_one_draw(boots: int, runs: int, slower: float) -> None:
    """The boot's level was taken for a changed share: 42 % of unchanged boots failed, 35 % of slower ones passed."""
    source = random.Random(f"boots {boots} {slower}")
    found: Counter[Verdict] = Counter()
    for _ in range(100):
        own, rate = of_boots(0.1, source, boots, runs), level(0.1)(source)

        def of_boot(_: random.Random, rate: float = rate) -> float:
            return rate

        found[gate(own, of_boot, source, slower).verdict] += 1
    wrong = Verdict.PASS if slower else Verdict.FAIL
    assert found[wrong] + found[Verdict.MARGINAL] + found[Verdict.IMPROVED] <= 1
    assert found[Verdict.FAIL if slower else Verdict.PASS] >= 35


def test_an_undecided_boot_says_how_many_boots_decide() -> None:
    own = of_boots(0.1, random.Random(2), 2, 2)
    found = gate(own, lambda _: HIGH * 0.9, random.Random(1))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "boots on two levels, 84" in found.reason
    assert ": 1 of 1 on the lower one" in found.reason
    assert found.reason.endswith(
        "runs on 10 boots would show both levels, or compare both builds in one session ('pinet gate')"
    )


@pytest.mark.parametrize("slower", [0.0, 0.05])
def test_connections_on_both_levels_are_no_draw_of_a_boot(slower: float) -> None:
    """With one run in each boot, a baseline cannot tell levels of boots from levels of connections; the run can."""
    source = random.Random(f"either {slower}")
    right = 0
    for _ in range(40):
        found = gate(of_boots(0.1, source, 3, 1), level(0.1), source, slower)
        assert found.verdict is not (Verdict.PASS if slower else Verdict.FAIL)
        right += found.verdict is (Verdict.FAIL if slower else Verdict.PASS)
    assert right >= 36


def test_connections_that_scatter_over_both_levels_of_boots_show_neither() -> None:
    """Then the mean of the boot is judged, not each connection by the small spread of the means of boots."""
    own = of_boots(0.02, random.Random(2), 3, 1)
    levels = two_levels(own)
    assert levels is not None
    values = [math.log(HIGH * 1e6 * (1 - part)) for part in (0.0, 0.004, 0.009, 0.013, 0.02)]
    assert not levels.shows_both(values, explanations(values, levels, 0.01)[0])
    values = [math.log(HIGH * 1e6 * (1 - part)) for part in (0.0, 0.02, 0.0, 0.019, 0.001)]
    assert levels.shows_both(values, explanations(values, levels, 0.01)[0])
    proven = two_levels(of_boots(0.02, random.Random(2), 2, 2))
    assert proven is not None
    assert not proven.shows_both(values, explanations(values, proven, 0.01)[0])


@pytest.mark.parametrize(("days", "boots", "runs"), [(1, 2, 3), (1, 3, 2), (2, 3, 1)])
def test_few_boots_mislead_only_if_all_are_on_one_level(days: int, boots: int, runs: int) -> None:
    """Such a baseline equals that of a quiet link. One that shows both levels never accuses an unchanged build."""
    source = random.Random(f"few boots {days} {boots}")
    found: dict[bool, Counter[Verdict]] = {True: Counter(), False: Counter()}
    for _ in range(100):
        own, rate = of_boots(0.1, source, boots, runs, days), level(0.1)(source)
        rates = [run.bps for run in own.runs]

        def of_boot(_: random.Random, rate: float = rate) -> float:
            return rate

        found[max(rates) > 1.05 * min(rates)][gate(own, of_boot, source).verdict] += 1
    shown, hidden = found[True], found[False]
    assert shown.total() >= 40
    assert (shown[Verdict.FAIL], shown[Verdict.IMPROVED]) == (0, 0)
    # The last boot is on the other level in half of the cases: the higher one is not called an improvement, since one
    # or two days prove too little for that.
    assert hidden[Verdict.FAIL] > 0
    assert hidden[Verdict.IMPROVED] == 0
