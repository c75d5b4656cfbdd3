from __future__ import annotations

import pytest

from pytest_pinet.judge.gate import judge
from pytest_pinet.judge.oracle import Oracle, PacketSizes, physical_limit
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.limits import Limit, Origin
from pytest_pinet.model.measurement import Flow, Sample
from pytest_pinet.model.quantities import Bitrate, Share, parse_minimum
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import SEVERITY, Verdict, worst

GIGABIT = physical_limit(1000, PacketSizes(1500, True), Bus.SOC)


def limit(minimum: str) -> Limit:
    return Limit(parse_minimum(minimum), Origin.LAB_FILE, "lab.yaml:9")


def test_at_or_above_the_limit_passes() -> None:
    judged = judge(Bitrate.mbps(941), GIGABIT, limit("900 Mbit/s"))
    assert judged.verdict is Verdict.PASS
    assert judged.reason == "941.0 Mbit/s meets the limit 900.0 Mbit/s (+4.6 %)"
    assert judge(Bitrate.mbps(900), GIGABIT, limit("900 Mbit/s")).verdict is Verdict.PASS


def test_below_the_limit_fails_with_value_limit_and_difference() -> None:
    judged = judge(Bitrate.mbps(847), GIGABIT, limit("900 Mbit/s"))
    assert judged.verdict is Verdict.FAIL
    assert judged.reason == "847.0 Mbit/s is below the limit 900.0 Mbit/s (-5.9 %)"
    assert str(judged.limit) == "900.0 Mbit/s (lab.yaml:9)"


def test_a_share_is_judged_against_the_physical_limit() -> None:
    judged = judge(Bitrate.mbps(880), GIGABIT, limit("94%"))
    assert judged.verdict is Verdict.FAIL
    assert judged.limit is not None
    assert judged.limit.number == pytest.approx(0.94 * 941.48e6, rel=1e-5)
    assert str(judged.limit) == "94% of 941.5 Mbit/s (lab.yaml:9)"


@pytest.mark.parametrize("minimum", ["94%", "1 Mbit/s", None])
def test_above_the_physical_limit_is_a_measurement_error_whatever_the_limit_says(minimum: str | None) -> None:
    judged = judge(Bitrate.mbps(949.3), GIGABIT, limit(minimum) if minimum else None)
    assert judged.verdict is Verdict.INVALID
    assert judged.reason == (
        "949.3 Mbit/s is above the physical limit 941.5 Mbit/s "
        "(1000 Mbit/s link, MTU 1500, TCP timestamps): a measurement error"
    )


def test_half_a_percent_above_the_physical_limit_is_tolerated() -> None:
    oracle = Oracle(Bitrate.mbps(1000), "a round number")
    assert judge(Bitrate.mbps(1004.9), oracle, None).verdict is Verdict.PASS
    assert judge(Bitrate.mbps(1005.1), oracle, None).verdict is Verdict.INVALID


def test_without_a_limit_any_value_passes_and_the_reason_says_so() -> None:
    judged = judge(Bitrate(0), GIGABIT, None)
    assert judged.verdict is Verdict.PASS
    assert judged.limit is None
    assert judged.reason == "no limit was set for this combination"


def test_nothing_received_fails_any_limit_but_zero() -> None:
    assert judge(Bitrate(0), GIGABIT, limit("1 bit/s")).verdict is Verdict.FAIL
    assert judge(Bitrate(0), GIGABIT, Limit(Share(0), Origin.MARKER, "marker")).verdict is Verdict.PASS


def test_the_worst_of_several_verdicts_counts() -> None:
    assert worst([Verdict.PASS, Verdict.FAIL, Verdict.INVALID]) is Verdict.FAIL
    assert worst([Verdict.PASS, Verdict.MARGINAL]) is Verdict.MARGINAL
    assert worst([]) is Verdict.SKIPPED
    assert sorted(SEVERITY) == sorted(Verdict)


def test_a_share_refers_to_the_sent_rate_if_it_is_below_the_link_rate() -> None:
    judged = judge(Bitrate.mbps(99.9), GIGABIT, limit("94%"), offered=Bitrate.mbps(100))
    assert judged.verdict is Verdict.PASS
    assert str(judged.limit) == "94% of 100.0 Mbit/s (lab.yaml:9)"
    assert judge(Bitrate.mbps(90), GIGABIT, limit("94%"), offered=Bitrate.mbps(100)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("minimum", "offered", "possible"),
    [
        ("945 Mbit/s", None, "the capacity of this link, 941.5 Mbit/s"),
        ("200 Mbit/s", Bitrate.mbps(100), "the 100.0 Mbit/s that were sent"),
    ],
)
def test_a_limit_that_can_never_be_met_is_invalid(minimum: str, offered: Bitrate | None, possible: str) -> None:
    judged = judge(Bitrate.mbps(99), GIGABIT, limit(minimum), offered)
    assert judged.verdict is Verdict.INVALID
    assert judged.reason == f"the limit {Bitrate.parse(minimum)} is above {possible}: it can never be met"


def test_data_held_back_by_a_loss_is_not_a_measurement_error() -> None:
    # 0.4 s without data, then all of it at once: 101 % of the wire in the counted time, 99 % since the start.
    flow = Flow(
        Direction.TX,
        (
            Sample(0.0, 0.5, 5_700_000, warmup=True),
            Sample(0.5, 0.5, 5_600_000, warmup=True),
            Sample(1.0, 0.5, 5_900_000),
            Sample(1.5, 0.5, 6_000_000),
        ),
    )
    oracle = Oracle(Bitrate.mbps(94.1), "100 Mbit/s link")
    assert flow.goodput.bps > oracle.goodput.bps * 1.005 > flow.since_start.bps
    judged = judge(flow.goodput, oracle, None, since_start=flow.since_start)
    assert judged.verdict is Verdict.PASS
    assert judge(flow.goodput, oracle, None).verdict is Verdict.INVALID
    assert judge(flow.goodput, oracle, None, since_start=Bitrate.mbps(95)).verdict is Verdict.INVALID
