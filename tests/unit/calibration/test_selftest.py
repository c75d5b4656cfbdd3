"""The steps of a self-test, and its counts of the gate's verdicts."""

from __future__ import annotations

from collections import Counter

import pytest

from pytest_pinet.calibration.selftest import (
    Count,
    Mark,
    SelftestCase,
    SelftestOutcome,
    SelftestPlan,
    count,
    mark,
    sentence,
    shaped,
    table,
)
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict

TX, RX = Direction.TX, Direction.RX
BOTH = [TX, RX]
BASELINES = {TX: Bitrate(100e6), RX: Bitrate(200e6)}
PLAN = SelftestPlan((0.03, 0.05, 0.10), 4, PROFILES["standard"], seed=7)


def gate(
    reduction: float, verdict: Verdict, seconds: float = 3.0, way: Direction = TX, real: float | None = None
) -> SelftestOutcome:
    goodput = Bitrate(BASELINES[way].bps * (1 - (reduction if real is None else real)))
    return SelftestOutcome(SelftestCase(way, reduction), verdict, goodput, seconds, seconds + 0.4, "")


def counted(*outcomes: SelftestOutcome, tolerance: float = 0.03) -> list[Count]:
    return count(outcomes, BASELINES, tolerance)


def test_every_reduction_is_tested_equally_often_in_each_direction() -> None:
    cases = Counter(PLAN.order(BOTH))
    assert cases == {SelftestCase(way, reduction): 2 for way in BOTH for reduction in (0.0, 0.03, 0.05, 0.10)}


def test_the_order_is_random_and_the_seed_repeats_it() -> None:
    again = SelftestPlan(PLAN.reductions, 4, PLAN.profile, seed=7)
    other = SelftestPlan(PLAN.reductions, 4, PLAN.profile, seed=8)
    assert PLAN.order(BOTH) == again.order(BOTH)
    assert PLAN.order(BOTH) != other.order(BOTH)
    assert PLAN.order(BOTH) != sorted(PLAN.order(BOTH), key=lambda case: case.reduction)


def test_the_default_takes_about_three_minutes() -> None:
    assert 150 < SelftestPlan((0.03, 0.05, 0.10), 2, PROFILES["standard"], 1).seconds(2, 0.03) < 210


@pytest.mark.parametrize(
    ("reduction", "verdict", "expected"),
    [
        (0.0, Verdict.PASS, Mark.RIGHT),
        (0.0, Verdict.MARGINAL, Mark.RIGHT),
        (0.0, Verdict.FAIL, Mark.WRONG),
        (0.01, Verdict.FAIL, Mark.WRONG),
        (0.05, Verdict.FAIL, Mark.RIGHT),
        (0.05, Verdict.PASS, Mark.WRONG),
        (0.05, Verdict.MARGINAL, Mark.WRONG),
        (0.05, Verdict.INCONCLUSIVE, Mark.INCONCLUSIVE),
        (0.05, Verdict.INVALID, Mark.INVALID),
        (0.03, Verdict.PASS, Mark.RIGHT),
        (0.03, Verdict.FAIL, Mark.RIGHT),
        (0.03, Verdict.INCONCLUSIVE, Mark.INCONCLUSIVE),
    ],
)
def test_a_verdict_is_rated_by_the_known_reduction(reduction: float, verdict: Verdict, expected: Mark) -> None:
    assert mark(gate(reduction, verdict), 0.03) is expected


def test_counts_have_the_median_and_the_ninetieth_percentile() -> None:
    (found,) = counted(*(gate(0.05, Verdict.FAIL, float(n)) for n in range(1, 11)))
    assert (found.gates, found.median_s, found.most_s) == (10, 5.5, 9.0)
    assert found.measured == pytest.approx(0.05)


def test_each_direction_is_compared_with_its_own_baseline() -> None:
    (found,) = counted(gate(0.1, Verdict.FAIL), gate(0.1, Verdict.FAIL, way=RX))
    assert found.measured == pytest.approx(0.1)
    assert not found.shaper_erred


def test_the_table_fits_80_columns_and_shows_a_wrong_verdict() -> None:
    lines = table(counted(gate(0.0, Verdict.FAIL, 9.0), gate(0.0, Verdict.PASS), gate(0.1, Verdict.FAIL, 9.0)))
    lines += table(counted(gate(0.03, Verdict.PASS, 1000.0)))
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1] == "    at the limit: 1 passed"
    assert lines[1].split()[:6] == ["0", "%", "2", "1", "1", "0"]
    assert lines[2].split()[:6] == ["10", "%", "1", "1", "0", "0"]


def test_the_sentence_says_what_is_detected_after_which_time() -> None:
    counts = counted(
        gate(0.0, Verdict.PASS, 3.0),
        gate(0.03, Verdict.PASS, 30.0),
        gate(0.05, Verdict.FAIL, 9.0),
        gate(0.05, Verdict.PASS, 12.0),
    )
    assert sentence("pi4b:onboard/pair", 0.03, counts) == (
        "pi4b:onboard/pair, limit 3 % below the baseline: an unchanged link passes after 3 s of traffic (90 %: 3 s); "
        "a link 5 % slower is detected only in 1 of 2 gates, after 10 s of traffic (90 %: 12 s); "
        "a link 3 % slower is at the limit: 1 of 1 passed"
    )


def test_a_link_at_a_tenth_of_its_rate_is_slowed_further() -> None:
    path = Path(1000, "full", 1500, True)
    full, tenth = (shaped({TX: Bitrate(900e6)}, 0.1, path, scale) for scale in (1.0, 0.1))
    assert full.tx.bps == pytest.approx(810e6 * 1514 / 1448)
    assert tenth.tx.bps == pytest.approx(full.tx.bps / 10)
    assert full.rx == tenth.rx == Bitrate(1e9)


def test_a_shaper_that_missed_its_rate_proves_nothing() -> None:
    (found,) = counted(gate(0.10, Verdict.PASS, real=0.02))
    assert found.shaper_erred
    assert "the shaper slowed the link by 2 % instead of 10 %" in sentence("x", 0.03, [found])


def test_an_invalid_gate_is_not_counted_as_a_verdict() -> None:
    none, ten = counted(
        gate(0.0, Verdict.PASS),
        gate(0.0, Verdict.INVALID, 0.0, real=1.0),
        gate(0.1, Verdict.INVALID, 0.0, real=1.0),
    )
    assert (none.gates, none.judged, none.median_s) == (2, 1, 3.0)
    assert none.measured == pytest.approx(0.0)
    assert (ten.judged, ten.measured, ten.shaper_erred) == (0, None, False)
    assert table([none, ten])[2] == "    1 invalid"
    assert sentence("x", 0.03, [none, ten]) == (
        "x, limit 3 % below the baseline: an unchanged link passes after 3 s of traffic (90 %: 3 s); "
        "no gate on a link 10 % slower was valid"
    )
