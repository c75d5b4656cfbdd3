"""Each threshold compares one value with one limit, in one direction, and prints itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.judge.flows import judge_evenness
from pytest_pinet.judge.gate import judge
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.model.figures import FIGURES
from pytest_pinet.model.judgement import EvennessJudgement
from pytest_pinet.model.limits import MAXIMA, Limit, Metric, Origin, Threshold, parse_limit, parse_marginal
from pytest_pinet.model.quantities import Bitrate, Tolerance
from pytest_pinet.model.verdict import Verdict

MOST = Bitrate.mbps(941.5)
BASELINE = Bitrate.mbps(940)
# Drops of a link are counted over a whole measurement; see test_drops.py. For other values see test_figures.py.
RULED = [metric for metric in Metric if metric is not Metric.MAX_DROPS and metric not in FIGURES]


def limit(metric: Metric, value: object, marginal: str | None = None) -> Limit:
    band = None if marginal is None else parse_marginal(marginal)
    return parse_limit(metric, value, Origin.LAB_FILE, "lab.yaml:9", marginal=band)


def threshold(metric: Metric, value: object, marginal: str | None = None) -> Threshold:
    found = limit(metric, value, marginal).threshold(MOST, BASELINE)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("metric", "value", "text", "number"),
    [
        (Metric.GOODPUT, "690 Mbit/s", "690.0 Mbit/s", 690e6),
        (Metric.GOODPUT, "94%", "94% of 941.5 Mbit/s", 0.94 * 941.5e6),
        (Metric.SUM, "2 Gbit/s", "2.00 Gbit/s", 2e9),
        (Metric.TOLERANCE, "3%", "3% below the baseline 940.0 Mbit/s", 0.97 * 940e6),
        (Metric.SHARE, "90%", "90% of its fair share for each flow", 0.9),
        (Metric.FAIRNESS, 0.95, "Jain's index 0.95", 0.95),
        (Metric.RETRANSMITS, "0.1%", "at most 0.1% of segments retransmitted", 0.001),
        (Metric.LOSS, "0.5%", "at most 0.5% of datagrams lost", 0.005),
        (Metric.LATENCY, "5 ms", "at most 5 ms of mean round-trip time", 0.005),
        (Metric.CPU, "40%", "at most 40% of a core per Gbit/s", 40.0),
    ],
)
def test_a_threshold_prints_itself_with_its_values(metric: Metric, value: object, text: str, number: float) -> None:
    found = threshold(metric, value)
    assert str(found) == f"{text} (lab.yaml:9)"
    assert found.number == pytest.approx(number)


@pytest.mark.parametrize(
    ("metric", "value", "good", "bad", "sentence"),
    [
        (Metric.GOODPUT, "94%", 900e6, 880e6, "880.0 Mbit/s is below the limit 885.0 Mbit/s (-0.6 %)"),
        (
            Metric.TOLERANCE,
            "3%",
            912e6,
            911e6,
            "911.0 Mbit/s is below the limit 911.8 Mbit/s (-0.1 %); the baseline is 940.0 Mbit/s (-3.1 %)",
        ),
        (Metric.SHARE, "90%", 0.9, 0.5, "least share 50% is below the limit 90%"),
        (Metric.FAIRNESS, "95%", 1.0, 0.8, "Jain's index 0.800 is below the limit 0.950"),
        (Metric.RETRANSMITS, "0.1%", 0.001, 0.0035, "retransmit rate 0.35% is above the limit 0.1%"),
        (Metric.LOSS, "0.5%", 0.0, 0.82, "loss 82% is above the limit 0.5%"),
        (Metric.LATENCY, "5 ms", 0.0004, 1.2, "mean round-trip time 1.2 s is above the limit 5 ms"),
        (
            Metric.CPU,
            "40%",
            12.5,
            106.0,
            "processor time 106% of a core per Gbit/s is above the limit 40% of a core per Gbit/s",
        ),
    ],
)
def test_a_threshold_judges_one_value(metric: Metric, value: object, good: float, bad: float, sentence: str) -> None:
    found = threshold(metric, value)
    assert found.judge(good)[0] is Verdict.PASS
    assert found.judge(bad) == (Verdict.FAIL, sentence)


@pytest.mark.parametrize(("metric", "value"), [(m, "5 ms" if m is Metric.LATENCY else "10%") for m in RULED])
def test_the_limit_itself_and_any_better_value_pass(metric: Metric, value: str) -> None:
    found = threshold(metric, value)
    assert found.judge(found.number)[0] is Verdict.PASS
    far = 0.0 if metric in MAXIMA else found.number * 1e6
    assert found.judge(far)[0] is Verdict.PASS


@given(
    st.sampled_from(RULED),
    st.floats(0.001, 0.999),
    st.floats(0, 3),
    st.floats(0, 3),
    st.sampled_from([None, "2%", "50%"]),
)
def test_a_better_value_never_gets_a_worse_verdict(
    metric: Metric, bound: float, a: float, b: float, marginal: str | None
) -> None:
    text = f"{bound * 1000} ms" if metric is Metric.LATENCY else f"{bound * 100}%"
    found = threshold(metric, text, marginal)
    better, worse = (min(a, b), max(a, b)) if metric in MAXIMA else (max(a, b), min(a, b))
    order = [Verdict.PASS, Verdict.MARGINAL, Verdict.FAIL]
    verdicts = [found.judge(value * found.number)[0] for value in (better, worse)]
    assert order.index(verdicts[0]) <= order.index(verdicts[1])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("metric", RULED)
def test_a_value_that_is_not_finite_is_a_measurement_error(metric: Metric, value: float) -> None:
    verdict, reason = threshold(metric, "5 ms" if metric is Metric.LATENCY else "10%").judge(value)
    assert verdict is Verdict.INVALID
    assert reason.endswith(f"{value} is not a finite number: a measurement error")


def test_a_value_inside_the_band_above_a_minimum_is_marginal() -> None:
    found = threshold(Metric.GOODPUT, "900 Mbit/s", "2%")
    assert found.judge(900e6) == (
        Verdict.MARGINAL,
        "900.0 Mbit/s meets the limit 900.0 Mbit/s (+0.0 %), within the marginal band of 2%",
    )
    assert found.judge(917.9e6)[0] is Verdict.MARGINAL
    assert found.judge(918.1e6)[0] is Verdict.PASS
    assert found.judge(899.9e6)[0] is Verdict.FAIL


def test_the_band_of_a_maximum_lies_below_it() -> None:
    found = threshold(Metric.LOSS, "1%", "10%")
    verdicts = [found.judge(value)[0] for value in (0.0089, 0.0091, 0.01, 0.0101)]
    assert verdicts == [Verdict.PASS, Verdict.MARGINAL, Verdict.MARGINAL, Verdict.FAIL]


def test_a_limit_of_zero_has_no_band() -> None:
    found = threshold(Metric.LOSS, "0%", "10%")
    assert [found.judge(value)[0] for value in (0.0, 1e-9)] == [Verdict.PASS, Verdict.FAIL]


@pytest.mark.parametrize(
    ("tolerance", "baseline_mbps", "lowest_mbps"),
    [
        ("3%", 1000, 970),
        ({"relative": "3%", "absolute": "20 Mbit/s"}, 1000, 970),  # 20 of 1000 alone is no regression
        ("3% and 20 Mbit/s", 100, 80),  # 3 of 100 alone is none
        ("3% and 20 Mbit/s", 10, 0),
    ],
)
def test_a_regression_exceeds_both_parts_of_a_tolerance(
    tolerance: object, baseline_mbps: float, lowest_mbps: float
) -> None:
    read = Tolerance.parse(tolerance)
    assert read.lowest(Bitrate.mbps(baseline_mbps)).bps == pytest.approx(lowest_mbps * 1e6)


def test_a_tolerance_parses_its_own_text() -> None:
    for text in ("3%", "0.5% and 20.0 Mbit/s"):
        assert str(Tolerance.parse(text)) == text
        assert Tolerance.parse(str(Tolerance.parse(text))) == Tolerance.parse(text)


@pytest.mark.parametrize("value", [3, 0.03, None, True, "", " and 3 Mbit/s", "3% and", "3", "-1%", {"relative": None}])
def test_other_values_are_refused_as_tolerance(value: object) -> None:
    with pytest.raises(ValueError, match=r"tolerance|share"):
        Tolerance.parse(value)


def test_a_value_is_judged_against_its_baseline() -> None:
    oracle = Oracle(MOST, "1000 Mbit/s link")
    tolerance = limit(Metric.TOLERANCE, "3%", "1%")
    judged = judge(Bitrate.mbps(900), oracle, tolerance, baseline=BASELINE)
    assert judged.verdict is Verdict.FAIL
    assert judged.limit is not None
    assert (judged.limit.number, judged.limit.baseline) == (0.97 * 940e6, 940e6)
    assert str(judged.limit) == "3% below the baseline 940.0 Mbit/s (lab.yaml:9)"
    assert judge(Bitrate.mbps(913), oracle, tolerance, baseline=BASELINE).verdict is Verdict.MARGINAL
    assert judge(Bitrate.mbps(935), oracle, tolerance, baseline=BASELINE).verdict is Verdict.PASS


def test_a_tolerance_without_a_baseline_is_ignored() -> None:
    judged = judge(Bitrate.mbps(1), Oracle(MOST, "link"), limit(Metric.TOLERANCE, "3%"))
    assert (judged.verdict, judged.limit) == (Verdict.PASS, None)
    assert judged.reason == "no limit was set for this combination"


def test_a_baseline_above_the_physical_limit_makes_the_result_invalid() -> None:
    judged = judge(Bitrate.mbps(941), Oracle(MOST, "link"), limit(Metric.TOLERANCE, "3%"), baseline=Bitrate.mbps(2350))
    assert judged.verdict is Verdict.INVALID
    reason = "the limit 2.28 Gbit/s is above the capacity of this link, 941.5 Mbit/s: it can never be met"
    assert judged.reason == reason


def test_a_bound_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="a limit of min needs the physical limit"):
        limit(Metric.GOODPUT, "94%").threshold()
    with pytest.raises(TypeError, match="a limit of max_drops has no threshold 2"):
        limit(Metric.MAX_DROPS, 2).threshold()
    with pytest.raises(TypeError, match="a limit of loss has no minimum"):
        _ = limit(Metric.LOSS, "1%").minimum


def test_flows_inside_the_band_above_a_limit_are_marginal() -> None:
    limits = limit(Metric.SHARE, "90%", "2%"), limit(Metric.FAIRNESS, 0.99, "2%")

    def shared(least: float, *limits: Limit) -> EvennessJudgement:
        return judge_evenness([Bitrate(least), Bitrate(1.0)], [Bitrate(1.0)] * 2, ["a>c", "b>c"], *limits)

    judged = shared(0.91, *limits)
    assert judged.verdict is Verdict.MARGINAL
    assert judged.reason == (
        "a>c got 91 % of its fair share, within the marginal band of 2% above the limit 90%; "
        "Jain's index 0.998 is within the marginal band of 2% above the limit 0.99"
    )
    assert shared(0.89, *limits).verdict is Verdict.FAIL
    assert shared(0.99, limits[0]).verdict is Verdict.PASS
