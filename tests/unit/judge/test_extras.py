"""The cost of traffic beside its rate: retransmits, loss, latency, processor time."""

from __future__ import annotations

import pytest

from pytest_pinet.judge.extras import Extras, cpu_per_gbps, judge_extras, loss_rate, retransmit_rate
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.model.limit_parser import parse_arguments
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict, worst
from tests.support.link_stand_in import key

GOOD = Extras(retransmit_rate=0.0002, loss_rate=0.001, rtt_s=0.0008, cpu_percent_per_gbps=22.0)


def limits(**written: object) -> list[Limit]:
    return parse_arguments(written, Origin.MARKER)


ALL = limits(cpu="40%", latency="5 ms", loss="0.5%", retransmits="0.1%")


def judged(
    measured: Extras, found: list[Limit], direction: Direction = Direction.TX, both_ways: bool = False
) -> list[Judgement]:
    return judge_extras(measured, found, key("pi4b", "onboard", direction, both_ways))


def test_each_limit_gives_a_judgement_with_its_metric_rule_and_source() -> None:
    found = judged(GOOD, ALL)
    assert [str(one.metric) for one in found] == ["retransmits", "loss", "latency", "cpu"]
    assert [one.verdict for one in found] == [Verdict.PASS] * 4
    assert found[0].rule == "at most 0.1% of segments retransmitted (retransmits='0.1%' of the marker)"
    assert found[2].reason == "mean round-trip time 0.8 ms holds the limit 5 ms"
    assert all(one.limit is None for one in found)


def test_what_no_limit_speaks_of_is_not_judged() -> None:
    assert judged(Extras(loss_rate=1.0), []) == []
    assert [one.metric for one in judged(Extras(loss_rate=1.0), limits(cpu="40%", min="94%"))] == [Metric.CPU]


@pytest.mark.parametrize(
    ("word", "bad"),
    [
        ("retransmits", Extras(retransmit_rate=0.67)),
        ("loss", Extras(loss_rate=0.82)),
        ("latency", Extras(rtt_s=0.2)),
        ("cpu", Extras(cpu_percent_per_gbps=106.0)),
    ],
)
def test_only_what_is_too_much_fails(word: str, bad: Extras) -> None:
    found = {str(one.metric): one.verdict for one in judged(bad, ALL)}
    assert found.pop(word) is Verdict.FAIL
    assert set(found.values()) == {Verdict.SKIPPED}


def test_absent_is_not_zero_and_changes_no_verdict() -> None:
    found = judged(Extras(), ALL)
    assert [one.reason for one in found] == [
        "retransmits not judged: the sender does not tell them (UDP has none)",
        "loss not judged: the receiver does not tell lost datagrams (TCP has none)",
        "latency not judged: the sender does not tell its round-trip time (UDP has none)",
        "cpu not judged: the tool does not tell the processor time of the device under test",
    ]
    for verdict in (Verdict.PASS, Verdict.MARGINAL, Verdict.FAIL):
        assert worst([verdict, *(one.verdict for one in found)]) is verdict
    assert judged(Extras(loss_rate=0.0), limits(loss="0%"))[0].verdict is Verdict.PASS


def test_each_direction_has_its_own_limit() -> None:
    own = limits(loss={"tx": "0.1%", "rx": "5%", "bidir-rx": "20%"})
    lossy = Extras(loss_rate=0.01)
    assert judged(lossy, own)[0].verdict is Verdict.FAIL
    assert judged(lossy, own, Direction.RX)[0].verdict is Verdict.PASS
    assert judged(Extras(loss_rate=0.1), own, Direction.RX, both_ways=True)[0].verdict is Verdict.PASS


def test_the_most_specific_limit_holds() -> None:
    general = limits(cpu="10%")
    call = parse_arguments({"cpu": "90%"}, Origin.CALL)
    (found,) = judged(GOOD, [*call, *general])
    assert found.verdict is Verdict.PASS
    assert found.rule == "at most 90% of a core per Gbit/s (cpu='90%' of the call)"


def test_rates_are_parts_of_all_that_was_sent() -> None:
    # 100 segments arrived, 25 of them at the second attempt: 125 were sent.
    assert retransmit_rate(25, 144_800, 1448) == pytest.approx(0.2)
    assert retransmit_rate(0, 144_800, 1448) == 0
    assert loss_rate(82, 100) == 0.82
    # A Pi that uses 47 % of a core for 470 Mbit/s.
    assert cpu_per_gbps(47.0, Bitrate.mbps(470)) == pytest.approx(100)


def test_what_nobody_told_stays_unknown() -> None:
    assert retransmit_rate(None, 144_800, 1448) is None
    assert retransmit_rate(5, None, 1448) is None
    assert retransmit_rate(0, 0, 1448) is None
    assert loss_rate(None, 100) is None
    assert loss_rate(0, None) is None
    assert loss_rate(0, 0) is None
    assert cpu_per_gbps(None, Bitrate.mbps(470)) is None
    assert cpu_per_gbps(99.0, Bitrate(0)) is None
