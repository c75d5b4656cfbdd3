"""A value below its limit with another explanation is invalid, not a failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_pinet.judge.circumstances import Circumstances, Excuse, excused
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import figures
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.limits import Limit, Metric, Origin, Scope, parse_arguments
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from tests.support import link_stand_in
from tests.support.link_stand_in import flow, judged, one_connection

PEER = "two:onboard"
BUSY = "the processors of two were 97 % busy with other work before the traffic"
TX, RX, BIDIR = Direction.TX, Direction.RX, Direction.BIDIR
FAST = PROFILES["fast"]


def least(mbps: float, way: Direction, metric: Metric = Metric.GOODPUT) -> Limit:
    return Limit(Bitrate.mbps(mbps), Origin.MARKER, "the test's", Scope(direction=way), metric)


def pair(tx: float, rx: float, *limits: Limit, **more: object) -> MeasurementJudgement:
    """Judge both directions at these Mbit/s, with enough connections for a verdict."""
    flows = (flow(payload=round(tx * 125_000)), replace(flow(1, 0, payload=round(rx * 125_000)), way=RX))
    circumstances = Circumstances(**more)  # type: ignore[arg-type]
    return figures(
        link_stand_in.facts(), Traffic(BIDIR), [one_connection(*flows)] * 6, GatePlan(limits, FAST), circumstances
    )


def test_a_peer_that_cannot_reach_the_limit_makes_the_result_invalid() -> None:
    found = pair(700, 900, least(900, TX), capacities={PEER: Bitrate.mbps(720)})
    assert (found.verdict, found.directions[TX].verdict) == (Verdict.INVALID, Verdict.INVALID)
    assert "two:onboard reaches only 720.0 Mbit/s over its own loopback" in found.reason
    assert "\n" not in found.reason


def test_a_peer_that_can_reach_the_limit_does_not_change_the_verdict() -> None:
    assert pair(700, 900, least(900, TX), capacities={PEER: Bitrate(9e9)}).verdict is Verdict.FAIL


def test_a_failure_without_a_busy_or_slow_end_stays() -> None:
    found = pair(700, 600, least(900, TX), least(650, RX), capacities={PEER: Bitrate.mbps(720)})
    assert (found.directions[TX].verdict, found.directions[RX].verdict) == (Verdict.INVALID, Verdict.FAIL)
    assert found.verdict is Verdict.FAIL
    assert found.reason.startswith("rx: ")


def test_the_limit_of_a_sum_is_shared_by_its_peers() -> None:
    link = link_stand_in.facts(("two:onboard", "one:onboard", "one:usb"), "incast:2")
    connections = [one_connection(*(replace(flow(end, 0, payload=50_000_000), way=RX) for end in (1, 2)))] * 6
    plan = GatePlan([least(900, RX, Metric.SUM)], FAST)

    def verdict(capacities: dict[str, Bitrate]) -> Verdict:
        return (
            figures(link, Traffic(RX), connections, plan, Circumstances(capacities=capacities)).directions[RX].verdict
        )

    assert verdict({}) is Verdict.FAIL
    assert verdict({"one:onboard": Bitrate.mbps(800), "one:usb": Bitrate.mbps(800)}) is Verdict.FAIL
    assert verdict({"one:onboard": Bitrate.mbps(800)}) is Verdict.INVALID


def test_other_work_on_an_end_makes_the_result_invalid() -> None:
    found = pair(700, 900, least(900, TX), busy=[Excuse(BUSY)])
    assert found.verdict is Verdict.INVALID
    assert "700.0 Mbit/s is below the limit 900.0 Mbit/s, but the processors of two were 97 % busy" in found.reason


@pytest.mark.parametrize(("goodput", "limit"), [(700e6, None), (930e6, 900e6)], ids=["no limit", "another rule missed"])
def test_a_failure_for_another_reason_than_the_rate_stays(goodput: float, limit: float | None) -> None:
    found = judged(goodput, limit, Verdict.FAIL)
    assert excused(found, Circumstances(busy=[Excuse(BUSY)]), {PEER: Bitrate(1e6)}) is found


def costly(metric: Metric, bound: object, *busy: Excuse) -> tuple[Verdict, str]:
    """Judge a limit on a cost that every connection misses: 5,000 retransmits of 83,000 segments, 3 % loss, 20 ms."""
    one = flow(payload=117_000_000, retransmits=5000, lost=(3, 100), rtt_s=0.02)
    limit = Limit(bound, Origin.MARKER, "the test's", metric=metric)  # type: ignore[arg-type]
    traffic = Traffic(TX, udp=metric is Metric.LOSS)
    connections = [one_connection(one, traffic=traffic, cpu=50.0)] * 6
    plan = GatePlan([limit, least(900, TX)], FAST)
    found = figures(link_stand_in.facts(), traffic, connections, plan, Circumstances(busy=busy))
    assert found.directions[TX].verdict is found.verdict
    return found.verdict, found.reason


COMPILER = Excuse("other programs took 150 % of a CPU of two (cc1plus (pid 812) 150 %) in 6 of 6 connections", "end it")


@pytest.mark.parametrize(
    ("metric", "limit", "missed"),
    [
        (Metric.RETRANSMITS, "1%", "retransmit rate 5.83% is above the limit 1%"),
        (Metric.LOSS, "1%", "loss 3% is above the limit 1%"),
        (Metric.LATENCY, "10 ms", "mean round-trip time 20 ms is above the limit 10 ms"),
    ],
)
def test_a_cost_that_other_work_raises_is_excused_on_a_busy_end(metric: Metric, limit: str, missed: str) -> None:
    bound = parse_arguments({str(metric): limit}, Origin.MARKER)[0].bound
    verdict, reason = costly(metric, bound)
    assert verdict is Verdict.FAIL
    assert reason.startswith(f"tx: {missed}; ")
    verdict, reason = costly(metric, bound, COMPILER)
    assert verdict is Verdict.INVALID
    assert reason.startswith(f"tx: {missed}, but other programs took 150 % of a CPU of two (cc1plus (pid 812) 150 %)")


def test_the_processor_time_of_the_traffic_tool_is_not_excused() -> None:
    bound = parse_arguments({"cpu": "10%"}, Origin.MARKER)[0].bound
    assert costly(Metric.CPU, bound)[0] is Verdict.FAIL
    assert costly(Metric.CPU, bound, COMPILER)[0] is Verdict.FAIL


def test_a_flow_with_too_little_of_its_share_is_excused_on_a_busy_end() -> None:
    link = link_stand_in.facts(("two:onboard", "one:onboard", "one:usb"), "incast:2")
    each = [replace(flow(end, 0, payload=rate), way=RX) for end, rate in ((1, 80_000_000), (2, 20_000_000))]
    plan = GatePlan([Limit(Share(0.9), Origin.MARKER, "the test's", metric=Metric.SHARE)], FAST)

    def found(*busy: Excuse) -> MeasurementJudgement:
        return figures(link, Traffic(RX), [one_connection(*each)] * 6, plan, Circumstances(busy=busy))

    assert found().verdict is Verdict.FAIL
    assert found(COMPILER).verdict is Verdict.INVALID
    assert "of its fair share, below the limit 90%" in found(COMPILER).reason
    assert "(cc1plus (pid 812) 150 %)" in found(COMPILER).reason


def test_a_ladder_that_lost_too_much_is_excused_on_a_busy_end() -> None:
    lossy = "every rate lost more than 1 % of its datagrams"
    found = pair(940, 940, lossy_ladder=lossy)
    assert (found.verdict, found.reason) == (Verdict.FAIL, f"tx: {lossy}")
    found = pair(940, 940, lossy_ladder=lossy, busy=[COMPILER])
    assert found.verdict is Verdict.INVALID
    assert found.reason.startswith(f"tx: {lossy}, but other programs took 150 % of a CPU of two")
