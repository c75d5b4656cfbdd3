"""Dips: found where they are; the rule states which dips are too rare to find."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_pinet.judge.baseline import Course, Step
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.level import blind_spots, find_dips, unseen_share
from pytest_pinet.judge.measurement import fitted
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.sequential import Against, Decision, decide
from pytest_pinet.judge.spread import Noise
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import connection_of, steady, with_dips

RATE = 930e6
FLAT = Course()


@given(
    st.integers(min_value=3, max_value=90),
    st.integers(min_value=5, max_value=15),
    st.floats(min_value=0.0, max_value=0.6),
)
@settings(max_examples=100, deadline=None)
def test_a_planted_dip_is_found_with_its_time_and_length(start: int, length: int, left: float) -> None:
    samples = with_dips(930, [(start / 10, length / 10, left)], seconds=11).samples
    (dip,) = find_dips(samples, RATE)
    assert dip.start_s == pytest.approx(start / 10, abs=0.11)
    assert dip.seconds == pytest.approx(length / 10, abs=0.11)
    assert dip.left == pytest.approx(left, abs=0.01)


def test_two_dips_are_reported_separately() -> None:
    dips = find_dips(with_dips(930, [(2.0, 1.0, 0.5), (7.0, 2.1, 0.0)], seconds=11).samples, RATE)
    assert [str(dip) for dip in dips] == [
        "50 % of the rate for 1.0 s, 2.0 s after the start",
        "0 % of the rate for 2.1 s, 7.0 s after the start",
    ]


@given(st.floats(min_value=1e-3, max_value=1e5), st.integers(min_value=0, max_value=60))
def test_a_steady_link_has_no_dips(mbps: float, count: int) -> None:
    samples = connection_of([mbps] * count).samples
    assert find_dips(samples, mbps * 1e6) == ()


def test_the_start_of_tcp_and_single_late_samples_are_not_dips() -> None:
    rates = [0.0, 300.0, 600.0] + [930.0] * 10 + [775.0, 994.0] + [930.0] * 10
    assert find_dips(connection_of(rates).samples, RATE) == ()


def test_a_link_that_is_rough_all_the_time_has_no_dips() -> None:
    values = random.Random(3)
    rates = [930 * max(0.05, values.gauss(1, 0.4)) for _ in range(110)]
    assert find_dips(connection_of(rates).samples, RATE) == ()


def test_half_second_samples_show_dips_too() -> None:
    (dip,) = find_dips(connection_of([930, 930, 465, 465, 930, 930], seconds=0.5, warmup=1).samples, RATE)
    assert (dip.start_s, dip.seconds) == (1.0, 1.0)


@pytest.mark.parametrize("level", [0.0, -1.0])
def test_without_a_level_there_are_no_dips(level: float) -> None:
    assert find_dips(steady(930).samples, level) == ()


def test_each_profile_names_the_faults_that_it_may_miss() -> None:
    said = "Profile standard may miss faults that are active less than 90 % of the time."
    assert blind_spots(PROFILES["standard"], 0.01) == said
    assert "Profile soak may miss faults that are active less than 19 % of" in blind_spots(PROFILES["soak"], 0.01)


def test_a_higher_error_rate_leaves_fewer_faults_that_are_missed_too_often() -> None:
    assert "less than 55 % of the time" in blind_spots(PROFILES["standard"], 0.2)


@given(st.integers(min_value=1, max_value=600), st.floats(min_value=1e-4, max_value=0.4))
def test_the_unseen_share_is_missed_exactly_at_the_error_rate(seconds: int, error_rate: float) -> None:
    assert (1 - unseen_share(seconds, error_rate)) ** seconds == pytest.approx(error_rate)


def with_standstills(*seconds: float, excluded: str = "") -> Connection:
    """A minute at 930 Mbit/s with stalls of these lengths, and the events that the reader of samples finds."""
    starts = [10.0 + 20.0 * at for at in range(len(seconds))]
    one = with_dips(930, [(start, length, 0.0) for start, length in zip(starts, seconds, strict=True)], seconds=60)
    (flow,) = one.flows
    found = replace(flow, flow=replace(flow.flow, events=find_events(one.samples)))
    return replace(one, flows=(found,), excluded=excluded)


def decided(*connections: Connection, course: Course = FLAT) -> Decision:
    profile = fitted(PROFILES["fast"], 61)
    return decide(connections, Bitrate(9.3e6), Noise(0.01, 20, 0.01), profile, against=Against(course=course))


def test_traffic_that_stands_still_twice_fails_though_its_rate_is_far_above_the_limit() -> None:
    found = decided(with_standstills(11.6, 6.4))
    assert found.outcome is Verdict.FAIL
    assert found.why == "the traffic stood still 2 times, for up to 11.6 s"
    assert decided(with_standstills(7.0), with_standstills(7.0)).outcome is Verdict.FAIL
    # Also if the connections of the baseline came after more traffic.
    early = replace(with_standstills(11.6, 6.4), number=1, traffic_before_s=0.0)
    assert decided(early, course=Course((Step(4, 9, 0.0),))).outcome is Verdict.FAIL


def test_one_standstill_gets_another_connection_although_a_connection_lasts_a_bit_longer_than_planned() -> None:
    found = decided(with_standstills(11.6))
    assert found.outcome is None
    assert decided(with_standstills(11.6), with_standstills()).outcome is Verdict.INCONCLUSIVE


def test_short_stalls_and_those_of_connections_that_do_not_count_are_no_standstills() -> None:
    assert decided(with_standstills(4.0, 4.0)).outcome is not Verdict.FAIL
    assert decided(with_standstills(9.0, 9.0, excluded="the link dropped")).outcome is not Verdict.FAIL


def test_a_dip_of_a_moment_in_a_minute_of_traffic_does_not_keep_a_link_from_passing() -> None:
    found = decided(with_standstills(0.3))
    assert found.outcome is Verdict.PASS
    assert found.flagged
    assert decided(with_standstills(1.5)).outcome is None
