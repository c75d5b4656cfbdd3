"""The cost of traffic beside its rate: retransmits, loss, latency, processor time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_pinet.judge.extras import Extras, cpu_per_gbps, judge_extras, judged_extras, loss_rate, retransmit_rate
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.judgement import ExtraJudgement
from pytest_pinet.model.limits import EVERYWHERE, Bound, Limit, Metric, Origin, Scope, parse_arguments
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, CpuCost, Duration, Share
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict, worst
from tests.support import link_stand_in
from tests.support.link_stand_in import TX, flow, key, one_connection

GOOD: Extras = {Metric.RETRANSMITS: 0.0002, Metric.LOSS: 0.001, Metric.LATENCY: 0.0008, Metric.CPU: 22.0}


def limits(**written: object) -> list[Limit]:
    return parse_arguments(written, Origin.MARKER)


ALL = limits(cpu="40%", latency="5 ms", loss="0.5%", retransmits="0.1%")


def judged(
    measured: Extras, found: list[Limit], direction: Direction = Direction.TX, both_ways: bool = False
) -> list[ExtraJudgement]:
    return judge_extras(measured, found, key("pi4b", "onboard", direction, both_ways))


def test_each_limit_gives_a_judgement_with_its_metric_rule_and_source() -> None:
    found = judged(GOOD, ALL)
    assert [str(one.limit.metric) for one in found] == ["retransmits", "loss", "latency", "cpu"]
    assert [one.verdict for one in found] == [Verdict.PASS] * 4
    assert str(found[0].limit) == "at most 0.1% of segments retransmitted (retransmits='0.1%' of the marker)"
    assert found[2].reason == "mean round-trip time 0.8 ms meets the limit 5 ms"


def test_a_metric_without_a_limit_is_not_judged() -> None:
    assert judged({Metric.LOSS: 1.0}, []) == []
    assert [one.limit.metric for one in judged({Metric.LOSS: 1.0}, limits(cpu="40%", min="94%"))] == [Metric.CPU]


@pytest.mark.parametrize(
    ("word", "bad"),
    [
        ("retransmits", {Metric.RETRANSMITS: 0.67}),
        ("loss", {Metric.LOSS: 0.82}),
        ("latency", {Metric.LATENCY: 0.2}),
        ("cpu", {Metric.CPU: 106.0}),
    ],
)
def test_only_costs_above_their_limit_fail(word: str, bad: Extras) -> None:
    found = {str(one.limit.metric): one.verdict for one in judged(bad, ALL)}
    assert found.pop(word) is Verdict.FAIL
    assert set(found.values()) == {Verdict.SKIPPED}


def test_an_unknown_cost_is_skipped_and_zero_is_judged() -> None:
    found = judged({}, ALL)
    assert [one.reason for one in found] == [
        "retransmits not judged: the sender does not report them (UDP has none)",
        "loss not judged: the receiver does not report lost datagrams (TCP has none)",
        "latency not judged: the sender does not report its round-trip time (UDP has none)",
        "cpu not judged: the tool does not report the processor time of the device under test",
    ]
    for verdict in (Verdict.PASS, Verdict.MARGINAL, Verdict.FAIL):
        assert worst([verdict, *(one.verdict for one in found)]) is verdict
    assert judged({Metric.LOSS: 0.0}, limits(loss="0%"))[0].verdict is Verdict.PASS


def test_each_direction_has_its_own_limit() -> None:
    own = limits(loss={"tx": "0.1%", "rx": "5%", "bidir-rx": "20%"})
    lossy: Extras = {Metric.LOSS: 0.01}
    assert judged(lossy, own)[0].verdict is Verdict.FAIL
    assert judged(lossy, own, Direction.RX)[0].verdict is Verdict.PASS
    assert judged({Metric.LOSS: 0.1}, own, Direction.RX, both_ways=True)[0].verdict is Verdict.PASS


def test_the_most_specific_limit_of_a_cost_applies() -> None:
    general = limits(cpu="10%")
    call = parse_arguments({"cpu": "90%"}, Origin.CALL)
    (found,) = judged(GOOD, [*call, *general])
    assert found.verdict is Verdict.PASS
    assert str(found.limit) == "at most 90% of a core per Gbit/s (cpu='90%' of the call)"


def test_rates_are_relative_to_everything_sent() -> None:
    # 100 segments arrived, 25 of them at the second connection: 125 were sent.
    assert retransmit_rate(25, 144_800, 1448) == pytest.approx(0.2)
    assert retransmit_rate(0, 144_800, 1448) == 0
    assert loss_rate(82, 100) == 0.82
    # A Pi that uses 47 % of a core for 470 Mbit/s.
    assert cpu_per_gbps(47.0, Bitrate.mbps(470)) == pytest.approx(100)


def test_unknown_counts_give_unknown_rates() -> None:
    assert retransmit_rate(None, 144_800, 1448) is None
    assert retransmit_rate(5, None, 1448) is None
    assert retransmit_rate(0, 0, 1448) is None
    assert loss_rate(None, 100) is None
    assert loss_rate(0, None) is None
    assert loss_rate(0, 0) is None
    assert cpu_per_gbps(None, Bitrate.mbps(470)) is None
    assert cpu_per_gbps(99.0, Bitrate(0)) is None


STANDARD = PROFILES["standard"]


@pytest.fixture
def link() -> LinkFacts:
    return link_stand_in.facts()


def most(metric: Metric, bound: Bound, scope: Scope = EVERYWHERE) -> Limit:
    return Limit(bound, Origin.MARKER, "the test's", scope, metric)


Judged = tuple[tuple[ExtraJudgement, ...], bool]
RETRANSMITS = most(Metric.RETRANSMITS, Share(0.01))


def judged_connections(link: LinkFacts, connections: list[Connection], *limits: Limit, traffic: Traffic = TX) -> Judged:
    return judged_extras(
        link,
        MetricKey(link.combination, traffic, Direction.TX),
        connections,
        range(len(connections[0].flows)),
        limits,
        STANDARD,
    )


def retransmitting(*counts: int | None) -> list[Connection]:
    """Return connections of 1000 segments of 1448 bytes with these retransmits."""
    return [one_connection(flow(retransmits=count)) for count in counts]


def verdicts(found: Judged) -> tuple[list[str], bool]:
    return [one.verdict for one in found[0]], found[1]


def test_tries_without_a_limit_on_costs_are_not_judged(link: LinkFacts) -> None:
    elsewhere = most(Metric.RETRANSMITS, Share(0.01), Scope("cm4"))
    assert (
        judged_connections(link, retransmitting(500))
        == judged_connections(link, retransmitting(500), elsewhere)
        == ((), False)
    )


@pytest.mark.parametrize(
    ("counts", "verdict", "unsettled"),
    [
        ([0], "pass", False),
        ([10], "pass", False),
        ([50], "fail", True),
        ([50, 50], "fail", True),
        ([50, 50, 50], "fail", False),
        ([50, 0, 50], "fail", False),
        ([0, 50, 0], "marginal", False),
        ([None], "skipped", False),
        ([50, None, 50, 50], "fail", False),
    ],
)
def test_a_miss_in_one_connection_must_be_confirmed_by_others(
    link: LinkFacts, counts: list[int | None], verdict: str, unsettled: bool
) -> None:
    assert verdicts(judged_connections(link, retransmitting(*counts), RETRANSMITS)) == ([verdict], unsettled)


def test_a_judgement_names_the_difference_and_the_source_of_the_limit(link: LinkFacts) -> None:
    ((record,), _) = judged_connections(link, retransmitting(0, 250, 250), RETRANSMITS)
    assert record.limit.metric == "retransmits"
    assert "20%" in record.reason
    assert "1%" in record.limit.words


def test_excluded_tries_are_not_counted(link: LinkFacts) -> None:
    dropped = one_connection(flow(retransmits=900), excluded="link dropped for 2.1 s")
    assert verdicts(judged_connections(link, [dropped, *retransmitting(0)], RETRANSMITS)) == (["pass"], False)
    assert judged_connections(link, [dropped], RETRANSMITS) == ((), False)


def test_the_segment_size_is_the_mss_but_at_most_what_the_mtu_allows(link: LinkFacts) -> None:
    # 1448 kB are 1000 segments of 1448 bytes (1.5 % retransmitted), or 3000 segments of 482.7 (0.5 %).
    connections = retransmitting(15)
    assert verdicts(judged_connections(link, connections, RETRANSMITS))[0] == ["fail"]
    assert verdicts(judged_connections(link, connections, RETRANSMITS, traffic=replace(TX, mss=495)))[0] == ["pass"]
    assert verdicts(judged_connections(link, retransmitting(5), RETRANSMITS, traffic=replace(TX, mss=8960)))[0] == [
        "pass"
    ]


def test_loss_latency_and_processor_time_have_limits_too(link: LinkFacts) -> None:
    limits = (
        most(Metric.LOSS, Share(0.01)),
        most(Metric.LATENCY, Duration(0.002)),
        most(Metric.CPU, CpuCost(40.0)),
    )
    # 1448 kB in a second are 11.6 Mbit/s: 0.4 % of a core are 34.5 % per Gbit/s.
    good = one_connection(flow(lost=(5, 1000), rtt_s=0.001), cpu=0.4)
    assert verdicts(judged_connections(link, [good], *limits)) == (["pass"] * 3, False)
    bad = one_connection(flow(lost=(50, 1000), rtt_s=0.003), cpu=0.6)
    assert verdicts(judged_connections(link, [bad] * 3, *limits)) == (["fail"] * 3, False)


def test_a_cost_is_unknown_if_one_of_several_flows_does_not_report_it(link: LinkFacts) -> None:
    limits = (RETRANSMITS, most(Metric.LATENCY, Duration(0.002)), most(Metric.CPU, CpuCost(40.0)))
    both = one_connection(flow(retransmits=0, rtt_s=0.001), flow(1, 0, retransmits=0, rtt_s=0.001), cpu=0.4)
    # With several runs at once, processor time cannot be attributed to one of them.
    assert verdicts(judged_connections(link, [both], *limits)) == (["pass", "pass", "skipped"], False)
    one = one_connection(flow(retransmits=0, rtt_s=0.001), flow(1, 0))
    assert verdicts(judged_connections(link, [one], *limits)) == (["skipped"] * 3, False)
