"""What a baseline of one or of many days says about today."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from pytest_pinet.judge.baseline import ANY_TOLERANCE, Baseline, Reference, RunPlace
from pytest_pinet.judge.days import PRIOR_SD, day_spread, days_for_tolerance, missing_days
from pytest_pinet.judge.gate import GatePlan, rule_on
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.spread import UNKNOWN, Noise
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.judgement import DirectionJudgement
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import steady

PLAN = GatePlan([], PROFILES["standard"], link_ups=False)
THREE = Tolerance(Share(0.03))


def baseline(days: Sequence[Sequence[float]], known: bool = True) -> Baseline:
    """Return a baseline with these runs (Mbit/s) of each day."""
    runs = tuple(Bitrate.mbps(run) for day in days for run in day)
    places = tuple(RunPlace(f"2026-11-{number + 1:02}") for number, day in enumerate(days) for _ in day)
    figure = math.exp(sum(math.log(sum(day) / len(day)) for day in days) / len(days))
    return Baseline(Bitrate.mbps(figure), runs, places=places if known else ())


def gate(own: Baseline, mbps: float, limit: Limit = ANY_TOLERANCE, noise: Noise = UNKNOWN) -> DirectionJudgement:
    """Judge a link without any noise of its own."""
    connections: list[Connection] = []
    while True:
        connections.append(steady(mbps))
        goodput, oracle = Bitrate.mbps(mbps), Oracle(Bitrate.mbps(1e5), "none")
        ruling = rule_on(connections, goodput, goodput, oracle, limit, PLAN, Reference(noise, own))
        if ruling.wanted is None:
            return ruling.judgement


ONE_DAY = baseline([[940, 941, 940, 939, 940]])
EIGHT_ALIKE = baseline([[940, 941, 939]] * 8)


def test_the_spread_of_the_baseline_changes_the_verdict() -> None:
    apart = baseline([[940 * (1 + 0.025 * (-1) ** day)] * 3 for day in range(8)])
    assert gate(EIGHT_ALIKE, 940 * 0.95).verdict is Verdict.FAIL
    assert gate(apart, 940 * 0.95).verdict is Verdict.INCONCLUSIVE


def test_one_day_is_enough_for_a_quiet_link() -> None:
    assert gate(ONE_DAY, 940).verdict is Verdict.PASS
    assert gate(ONE_DAY, 940 * 0.95).verdict is Verdict.FAIL


def test_a_verdict_says_what_it_assumes_about_days() -> None:
    assert gate(ONE_DAY, 940).reason.endswith("; baseline of 1 day, assumes days differ by less than 3.5 %")
    assert "baseline of 8 days, assumes days differ by less than 1" in gate(EIGHT_ALIKE, 940 * 0.95).reason
    twelve = gate(baseline([[940, 941, 939]] * 12), 940)
    assert "baseline of 12 days, which allow a difference of 1" in twelve.reason


def test_runs_of_unknown_days_count_as_one_day() -> None:
    flat = baseline([[940, 941, 939]] * 8, known=False)
    reason = gate(flat, 940).reason
    assert "baseline of unknown days (counts as 1 day; accept a new one with 'pinet accept'), assumes" in reason


def test_a_margin_below_the_known_noise_is_inconclusive_with_what_would_decide() -> None:
    close = gate(ONE_DAY, 940 * 0.975)
    assert close.verdict is Verdict.INCONCLUSIVE
    assert close.reason.endswith(
        "a baseline of 5 more days would decide, or compare both builds in one session ('pinet gate')"
    )
    rough = gate(baseline([[940 * math.exp(0.02 * step)] * 2 for step in (-2, -1, 0, 1, 2)]), 940 * 0.96)
    assert rough.verdict is Verdict.INCONCLUSIVE
    assert rough.reason.endswith(
        "more days would not decide this, so compare both builds in one session ('pinet gate')"
    )


def test_a_better_link_is_improved_only_if_several_days_were_seen() -> None:
    few, more = (baseline([[940, 941, 939]] * days) for days in (2, 3))
    assert gate(few, 940 * 1.1).verdict is Verdict.PASS
    cannot = "cannot tell a better link from a better day, a baseline of 3 days can"
    assert f"; a baseline of 2 days {cannot}" in gate(few, 940 * 1.1).reason
    unknown = baseline([[940, 941, 939]] * 3, known=False)
    assert f"; runs of unknown days {cannot}" in gate(unknown, 940 * 1.1).reason
    assert gate(more, 940 * 1.1).verdict is Verdict.IMPROVED


def test_a_limit_that_does_not_come_from_the_baseline_does_not_depend_on_its_days() -> None:
    found = gate(ONE_DAY, 940, Limit(Bitrate.mbps(911), Origin.LAB_FILE, "lab.yaml:3"))
    assert found.verdict is Verdict.PASS
    assert "baseline of" not in found.reason


def test_a_smaller_tolerance_needs_better_knowledge() -> None:
    narrow = Limit(Tolerance(Share(0.01)), Origin.LAB_FILE, "lab.yaml:3", metric=Metric.TOLERANCE)
    assert gate(ONE_DAY, 940, narrow).verdict is Verdict.INCONCLUSIVE
    assert days_for_tolerance(ONE_DAY, Tolerance(Share(0.01))) is None
    assert days_for_tolerance(ONE_DAY, Tolerance(Share(0.025))) in range(1, 10)
    assert days_for_tolerance(ONE_DAY, THREE) == 0


def test_few_days_rest_on_the_prior_and_many_on_themselves() -> None:
    assert math.sqrt(day_spread(ONE_DAY).days) == pytest.approx(PRIOR_SD)
    few, many = (day_spread(baseline([[940, 940]] * count)) for count in (2, 30))
    assert math.sqrt(few.days) > 0.9 * PRIOR_SD
    assert math.sqrt(many.days) < 0.5 * PRIOR_SD
    unlike = day_spread(baseline([[940 * math.exp(0.03 * (-1) ** day)] * 3 for day in range(8)]))
    assert math.sqrt(unlike.days) == pytest.approx(0.03 * math.sqrt(8 / 7), rel=0.05)


def test_runs_that_differ_within_a_day_do_not_look_like_unlike_days() -> None:
    source = random.Random(3)
    noisy = [[940 * math.exp(source.gauss(0, 0.02)) for _ in range(4)] for _ in range(10)]
    assert math.sqrt(day_spread(baseline(noisy)).days) < 0.011


def test_boots_that_differ_on_one_day_count_for_the_boot_of_today() -> None:
    values = [(boot, 940 * math.exp(0.015 * (-1) ** boot)) for boot in range(6) for _ in range(2)]
    places = tuple(RunPlace("2026-11-01", str(boot)) for boot, _ in values)
    runs = tuple(Bitrate.mbps(value) for _, value in values)
    boots = day_spread(Baseline(Bitrate.mbps(940), runs, places=places))
    assert math.sqrt(boots.sessions) == pytest.approx(0.015 * math.sqrt(6 / 5), rel=0.05)
    assert boots.variance > day_spread(ONE_DAY).variance


def test_what_a_calibration_measured_is_not_counted_twice() -> None:
    """A baseline of eight days contains the differences between boots that a calibration measured."""
    apart = baseline([[940 * math.exp(0.02 * (-1) ** day)] * 2 for day in range(8)])
    boots = Noise(0.003, 20, 0.02, session_freedom=7)
    assert day_spread(apart, boots).variance < 1.3 * day_spread(apart).variance


def test_more_days_never_need_more_margin() -> None:
    spread = day_spread(ONE_DAY)
    bounds = [spread.after(days).bound(0.01) for days in range(1, 20)]
    assert bounds == sorted(bounds, reverse=True)
    assert missing_days(spread, 0.03, 0.01) == 0
    assert missing_days(spread, 0.0001, 0.01) is None
    quiet, noisy = (missing_days(spread, 0.012, 0.01, of_mean=sd) for sd in (0.0, 0.01))
    assert quiet is not None
    # What connections differ by stays, however many days there are.
    assert noisy is None or noisy > quiet


@pytest.mark.parametrize(
    ("days", "apart", "change", "most"),
    [
        (1, 0.008, 0.0, 0.01),
        (1, 0.008, -0.05, 0.01),
        (8, 0.02, -0.05, 0.02),
        (1, 0.02, -0.05, 0.13),
    ],
)
def test_days_that_differ_make_few_wrong_verdicts(days: int, apart: float, change: float, most: float) -> None:
    source = random.Random(f"{days}/{apart}/{change}")
    wrong = Verdict.FAIL if change > -0.03 else Verdict.PASS
    found = 0
    gates = 150
    for _ in range(gates):
        levels = [940 * math.exp(source.gauss(0, apart)) for _ in range(days)]
        own = baseline([[level * math.exp(source.gauss(0, 0.001)) for _ in range(3)] for level in levels])
        found += gate(own, round(940 * (1 + change) * math.exp(source.gauss(0, apart)), 1)).verdict is wrong
    assert found / gates <= most
