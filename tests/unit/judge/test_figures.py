"""Verdicts on figures: rates for each second, times, and shares, each against its limit."""

from __future__ import annotations

import random

import pytest

from pytest_pinet.judge.baseline import Baseline, Reference, RunPlace
from pytest_pinet.judge.figures import FigureRuling, judge_figure
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.figures import FIGURES, Better, Figure, Sample
from pytest_pinet.model.limits import Limit, Metric, Origin, parse_arguments
from pytest_pinet.model.metric_key import CombinationId, MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict

KEY = MetricKey(CombinationId("pi4b", "onboard", "pair"), Traffic(Direction.TX), Direction.TX)
RATE = FIGURES["transactions"]
# A value that is better low; a name with a limit is needed only for its parser.
TIME = Figure("latency", "s", Better.DOWN)
SHARE = Figure("loss", "share", Better.DOWN, least=1e-4)
SECONDS = 3.0


def samples(figure: Figure, *values: float) -> list[Sample]:
    return [Sample({figure.name: value}, "") for value in values]


def judged(figure: Figure, given: list[Sample], limit: str | None, **more: object) -> FigureRuling:
    own: list[Limit] = [] if limit is None else parse_arguments({figure.name: limit, **more}, Origin.CALL)
    return judge_figure(figure, given, SECONDS, KEY, GatePlan(own, PROFILES["standard"]))


def test_a_value_far_above_a_minimum_passes_at_once() -> None:
    found = judged(RATE, samples(RATE, 40_000), "8000/s")
    assert not found.wanted
    assert found.judgement.verdict is Verdict.PASS
    assert found.judgement.reason == "transactions 40000/s meets the limit 8000/s"


def test_a_value_near_the_limit_needs_more_connections_since_the_noise_is_not_known() -> None:
    assert judged(RATE, samples(RATE, 8800), "8000/s").wanted
    found = judged(RATE, samples(RATE, 8800, 8810, 8790, 8805, 8795, 8800, 8802), "8000/s")
    assert (found.wanted, found.judgement.verdict) == (False, Verdict.PASS)


def test_values_below_a_minimum_fail() -> None:
    found = judged(RATE, samples(RATE, 4000, 4010, 3990), "8000/s").judgement
    assert (found.verdict, found.state) == (Verdict.FAIL, "confirmed")
    assert found.value == 4000
    assert found.reason == "transactions 4000/s is below the limit 8000/s"
    assert found.stopped.startswith("below the limit in 3 of 3 connections (9 s): 50 % below the limit on average")
    assert found.interval is not None
    assert found.interval[0] < 4000 < found.interval[1] < 8000


def test_a_time_is_better_below_its_limit() -> None:
    assert judged(TIME, samples(TIME, 0.0001), "2 ms").judgement.verdict is Verdict.PASS
    found = judged(TIME, samples(TIME, 0.0042, 0.0040, 0.0038), "2 ms").judgement
    assert found.verdict is Verdict.FAIL
    assert found.reason == "mean round-trip time 4 ms is above the limit 2 ms"
    assert "above the limit in 3 of 3 connections (9 s): 100 % above the limit on average" in found.stopped
    assert found.interval is not None
    assert 0.002 < found.interval[0] < 0.004 < found.interval[1]


def test_values_that_vary_around_the_limit_give_no_verdict() -> None:
    noise = random.Random(7)
    values = [8000 * noise.lognormvariate(0, 0.4) for _ in range(20)]
    for count in range(1, 21):
        found = judged(RATE, samples(RATE, *values[:count]), "8000/s")
        if not found.wanted:
            break
    assert found.judgement.verdict is Verdict.INCONCLUSIVE
    assert found.judgement.state == "undecided"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.0,), None),
        ((0.0, 0.0), None),
        ((0.0, 0.0, 0.0), Verdict.PASS),
        ((0.02, 0.5), Verdict.FAIL),
        ((0.0, 0.02), None),
        ((0.0, 0.02, 0.0, 0.0, 0.0, 0.0), Verdict.MARGINAL),
        ((0.0, 0.02, 0.03, 0.02), Verdict.FAIL),
    ],
)
def test_a_share_is_judged_by_how_many_connections_exceed_its_limit(
    values: tuple[float, ...], verdict: Verdict | None
) -> None:
    found = judged(SHARE, samples(SHARE, *values), "1%")
    assert (None if found.wanted else found.judgement.verdict) == verdict


def test_a_connection_that_does_not_count_has_no_value_and_is_named() -> None:
    odd = Sample({RATE.name: 1.0}, "", excluded="the sender limits")
    found = judged(RATE, [odd, *samples(RATE, 40_000)], "8000/s").judgement
    assert (found.verdict, found.values) == (Verdict.MARGINAL, (40_000,))
    assert found.reason == "transactions 40000/s meets the limit 8000/s, but the sender limits"


def test_without_any_connection_that_counts_there_is_no_pass() -> None:
    odd = Sample({RATE.name: 90_000.0}, "", excluded="the sender limits")
    assert judged(RATE, [odd], "8000/s").wanted
    for written in ("8000/s", None):
        found = judged(RATE, [odd] * 20, written)
        assert not found.wanted
        assert found.judgement.verdict is Verdict.INCONCLUSIVE
        assert found.judgement.reason == "no connection gave a value of transactions: the sender limits"


def test_a_figure_that_the_tool_does_not_report_is_skipped_without_a_limit() -> None:
    other = [Sample({}, "")] * 20
    assert judged(RATE, other, None).judgement.verdict is Verdict.SKIPPED
    assert judged(RATE, other, "8000/s").judgement.verdict is Verdict.INCONCLUSIVE


def test_without_a_limit_so_many_connections_are_made_as_a_verdict_needs() -> None:
    assert judged(RATE, samples(RATE, 1, 1), None).wanted
    found = judged(RATE, samples(RATE, 1, 3, 2), None)
    assert not found.wanted
    assert (found.judgement.verdict, found.judgement.value) == (Verdict.PASS, 2)
    assert found.judgement.reason == "no limit was set"


def test_a_value_within_the_band_is_marginal() -> None:
    found = judged(RATE, samples(RATE, *[8400, 8401, 8399, 8400] * 4), "8000/s", marginal="10%").judgement
    assert found.verdict is Verdict.MARGINAL
    assert found.reason.endswith("within the marginal band of 10%")


@pytest.mark.parametrize("written", ["8000", "8000/min", "-1/s", "0/s", "fast"])
def test_a_rate_without_its_unit_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"^transactions: .*a number for each second such as '8000/s'"):
        parse_arguments({"transactions": written}, Origin.CALL)


@pytest.mark.parametrize(
    ("written", "number", "shown"), [("8000/s", 8000, "8000/s"), ("1.5k/s", 1500, "1500/s"), ("2.5 / s", 2.5, "2.5/s")]
)
def test_a_rate_is_read_with_its_prefix(written: str, number: float, shown: str) -> None:
    (limit,) = parse_arguments({"transactions": written}, Origin.CALL)
    threshold = limit.threshold()
    assert threshold is not None
    assert (threshold.metric, threshold.number, threshold.words) == (Metric.TRANSACTIONS, number, shown)


def test_a_level_and_its_value_are_inverse_and_better_values_have_higher_levels() -> None:
    for figure, good, bad in ((RATE, 9000, 8000), (TIME, 0.001, 0.002), (SHARE, 0.0, 0.01)):
        assert figure.level(good) > figure.level(bad) > 0
        assert figure.of_level(figure.level(bad)) == pytest.approx(bad)
    assert [RATE.show(2.5e6), TIME.show(0.000085), SHARE.show(0.00123)] == ["2500000/s", "0.085 ms", "0.123%"]


def accepted(figure: Figure, value: float, days: int = 8) -> Reference:
    """Return a baseline of so many days, whose connections and days differ by 2 %."""
    chance = random.Random(7)
    runs, places = [], []
    for number in range(days):
        level = value * (1 + chance.gauss(0, 0.02))
        for _ in range(3):
            runs.append(Bitrate(figure.rate(level * (1 + chance.gauss(0, 0.02)))))
            places.append(RunPlace(f"2026-09-{number + 1:02}", f"boot{number}"))
    return Reference(baseline=Baseline(Bitrate(figure.rate(value)), tuple(runs), places=tuple(places)))


@pytest.mark.parametrize(("figure", "value", "worse"), [(RATE, 8000.0, 6000.0), (TIME, 0.0012, 0.0016)])
def test_a_value_without_a_limit_is_judged_by_its_baseline(figure: Figure, value: float, worse: float) -> None:
    plan, reference = GatePlan([], PROFILES["standard"]), accepted(figure, value)
    alike = [value * (1 + share) for share in (0.01, -0.01, 0.005, 0.0, -0.005, 0.01)]
    found = judge_figure(figure, samples(figure, *alike), SECONDS, KEY, plan, reference).judgement
    assert (found.verdict, found.limit is not None) == (Verdict.PASS, True)
    found = judge_figure(
        figure, samples(figure, *(one / value * worse for one in alike)), SECONDS, KEY, plan, reference
    ).judgement
    assert found.verdict is Verdict.FAIL
    side, shown = ("below", "8000/s") if figure is RATE else ("above", "1.2 ms")
    assert found.limit is not None
    assert found.limit.words == f"10% {side} the baseline {shown}"
    assert f" is {side} the limit " in found.reason
    assert f"; the baseline is {shown} (" in found.reason
    assert "; baseline of 8 days, assumes days differ by less than " in found.reason


@pytest.mark.parametrize(("figure", "value", "better"), [(RATE, 8000.0, 12000.0), (TIME, 0.0012, 0.0008)])
def test_a_value_far_better_than_its_baseline_is_improved(figure: Figure, value: float, better: float) -> None:
    given = samples(figure, *(better * (1 + share) for share in (0.01, -0.01, 0.005, 0.0, -0.005, 0.01)))
    plan = GatePlan([], PROFILES["standard"])
    found = judge_figure(figure, given, SECONDS, KEY, plan, accepted(figure, value)).judgement
    assert found.verdict is Verdict.IMPROVED
    assert found.reason.endswith(f"; better than the baseline {figure.show(value)}: see 'pinet accept'")
    found = judge_figure(figure, given, SECONDS, KEY, plan, accepted(figure, value, days=2)).judgement
    assert (found.verdict, found.reason.endswith("a baseline of 3 days can")) == (Verdict.PASS, True)


def test_an_absolute_limit_and_a_tolerance_of_the_call_come_before() -> None:
    given, reference = samples(RATE, *(5000 + at for at in range(6))), accepted(RATE, 8000)
    for limits, words in (
        ({"transactions": "4000/s"}, "4000/s"),
        ({"tolerance": "50%"}, "50% below the baseline 8000/s"),
    ):
        plan = GatePlan(parse_arguments(limits, Origin.CALL), PROFILES["standard"])
        found = judge_figure(RATE, given, SECONDS, KEY, plan, reference).judgement
        assert found.limit is not None
        assert (found.limit.words, found.verdict) == (words, Verdict.PASS)


def test_a_baseline_of_few_runs_does_not_judge() -> None:
    few = accepted(RATE, 8000, days=1)
    found = judge_figure(RATE, samples(RATE, 4000), SECONDS, KEY, GatePlan([], PROFILES["standard"]), few).judgement
    assert (found.verdict, found.limit) == (Verdict.PASS, None)
