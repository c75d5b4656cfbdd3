"""The cost of traffic beside its rate: per attempt, and judged over all attempts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_pinet.judge.attempts import Try
from pytest_pinet.judge.extras import judged_extras
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.judgement import ExtraJudgement
from pytest_pinet.model.limits import Bound, Limit, Metric, Origin
from pytest_pinet.model.link_facts import LinkFacts
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import CpuCost, Duration, Share
from pytest_pinet.model.traffic import Direction, Traffic
from tests.support import link_stand_in
from tests.support.link_stand_in import TX, flow, one_try

STANDARD = PROFILES["standard"]


@pytest.fixture
def link() -> LinkFacts:
    return link_stand_in.facts()


def most(metric: Metric, bound: Bound, **selectors: str) -> Limit:
    return Limit(bound, Origin.MARKER, "the test's", metric=metric, **selectors)  # type: ignore[arg-type]


Judged = tuple[tuple[ExtraJudgement, ...], bool]
RETRANSMITS = most(Metric.RETRANSMITS, Share(0.01))


def judged(link: LinkFacts, tries: list[Try], *limits: Limit, traffic: Traffic = TX) -> Judged:
    return judged_extras(
        link, MetricKey(link.combination, traffic, Direction.TX), tries, range(len(tries[0].flows)), limits, STANDARD
    )


def retransmitting(*counts: int | None) -> list[Try]:
    """Return attempts of 1000 segments of 1448 bytes with these retransmits."""
    return [one_try(flow(retransmits=count)) for count in counts]


def verdicts(found: Judged) -> tuple[list[str], bool]:
    return [one.verdict for one in found[0]], found[1]


def test_nothing_is_judged_that_no_limit_speaks_of(link: LinkFacts) -> None:
    elsewhere = most(Metric.RETRANSMITS, Share(0.01), board="cm4")
    assert judged(link, retransmitting(500)) == judged(link, retransmitting(500), elsewhere) == ((), False)


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
def test_what_one_try_misses_others_must_miss_too(
    link: LinkFacts, counts: list[int | None], verdict: str, unsettled: bool
) -> None:
    assert verdicts(judged(link, retransmitting(*counts), RETRANSMITS)) == ([verdict], unsettled)


def test_a_record_says_by_how_much_the_limit_was_missed_and_whose_it_is(link: LinkFacts) -> None:
    ((record,), _) = judged(link, retransmitting(0, 250, 250), RETRANSMITS)
    assert record.metric == "retransmits"
    assert "20%" in record.reason
    assert "1%" in record.rule


def test_excluded_tries_are_not_counted(link: LinkFacts) -> None:
    dropped = one_try(flow(retransmits=900), excluded="link dropped for 2.1 s")
    assert verdicts(judged(link, [dropped, *retransmitting(0)], RETRANSMITS)) == (["pass"], False)
    assert judged(link, [dropped], RETRANSMITS) == ((), False)


def test_the_size_of_a_segment_is_that_of_the_mss_and_never_more_than_the_mtu_allows(link: LinkFacts) -> None:
    # 1448 kB are 1000 segments of 1448 bytes (1.5 % retransmitted), or 3000 segments of 482.7 (0.5 %).
    tries = retransmitting(15)
    assert verdicts(judged(link, tries, RETRANSMITS))[0] == ["fail"]
    assert verdicts(judged(link, tries, RETRANSMITS, traffic=replace(TX, mss=495)))[0] == ["pass"]
    assert verdicts(judged(link, retransmitting(5), RETRANSMITS, traffic=replace(TX, mss=8960)))[0] == ["pass"]


def test_loss_latency_and_processor_time_have_limits_too(link: LinkFacts) -> None:
    limits = (
        most(Metric.LOSS, Share(0.01)),
        most(Metric.LATENCY, Duration(0.002)),
        most(Metric.CPU, CpuCost(40.0)),
    )
    # 1448 kB in a second are 11.6 Mbit/s: 0.4 % of a core are 34.5 % per Gbit/s.
    good = one_try(flow(lost=(5, 1000), rtt_s=0.001), cpu=0.4)
    assert verdicts(judged(link, [good], *limits)) == (["pass"] * 3, False)
    bad = one_try(flow(lost=(50, 1000), rtt_s=0.003), cpu=0.6)
    assert verdicts(judged(link, [bad] * 3, *limits)) == (["fail"] * 3, False)


def test_what_one_of_several_flows_does_not_know_nobody_knows(link: LinkFacts) -> None:
    limits = (RETRANSMITS, most(Metric.LATENCY, Duration(0.002)), most(Metric.CPU, CpuCost(40.0)))
    both = one_try(flow(retransmits=0, rtt_s=0.001), flow(1, 0, retransmits=0, rtt_s=0.001), cpu=0.4)
    # With several runs at once, processor time cannot be attributed to one of them.
    assert verdicts(judged(link, [both], *limits)) == (["pass", "pass", "skipped"], False)
    one = one_try(flow(retransmits=0, rtt_s=0.001), flow(1, 0))
    assert verdicts(judged(link, [one], *limits)) == (["skipped"] * 3, False)
