"""The way of one figure: confirmed stays confirmed, cleared is told apart from passed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_data import attempt_of, steady, with_dips

from pytest_pinet.judge.course import Course, State
from pytest_pinet.judge.noise import UNKNOWN
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.sequential import Outcome, decide
from pytest_pinet.model.quantities import Bitrate

LIMIT = Bitrate.mbps(900)


def course() -> Course:
    return Course(LIMIT, UNKNOWN, PROFILES["standard"])


def test_a_course_begins_open_and_passes() -> None:
    one = course()
    assert (one.state, one.decision.outcome) == (State.OPEN, Outcome.GO_ON)
    assert one.feed(steady(930)).outcome is Outcome.PASS
    assert one.state is State.PASSED


def test_a_first_attempt_below_the_limit_that_repeats_clear_is_told_apart() -> None:
    one = course()
    one.feed(steady(880))
    while one.state is State.OPEN:
        one.feed(steady(938))
    assert one.state is State.CLEARED


def test_a_pass_with_a_dip_is_cleared_not_passed() -> None:
    one = course()
    one.feed(with_dips(930, [(1.0, 1.0, 0.5)]))
    while one.state is State.OPEN:
        one.feed(steady(930))
    assert one.state is State.CLEARED


def test_noise_leaves_a_course_undecided() -> None:
    one = course()
    for index in range(20):
        if one.state is State.OPEN:
            one.feed(steady(905 * (0.96, 1.04, 0.99, 1.02)[index % 4]))
    assert one.state is State.UNDECIDED


def test_a_course_decides_as_the_rule_does_and_keeps_all_attempts() -> None:
    one = course()
    attempts = [steady(901), replace(steady(0), excluded="the tool was killed"), steady(903)]
    for count, attempt in enumerate(attempts, 1):
        assert one.feed(attempt) == decide(attempts[:count], LIMIT, UNKNOWN, PROFILES["standard"])
    assert one.attempts == attempts


@given(st.integers(min_value=0, max_value=2**16), st.lists(st.floats(min_value=0, max_value=9000), max_size=30))
@settings(max_examples=80, deadline=None)
def test_no_attempt_turns_a_confirmed_regression_into_anything_else(seed: int, later: list[float]) -> None:
    values = random.Random(seed)
    one = course()
    while one.state is State.OPEN:
        one.feed(attempt_of([850 + values.gauss(0, 2) for _ in range(30)]))
    assert one.state is State.CONFIRMED
    why = one.decision.why
    for rate in later:
        one.feed(steady(rate))
        assert one.state is State.CONFIRMED
        assert one.decision.why == why


def test_without_the_latch_later_attempts_would_clear_it() -> None:
    # What the property above is about: the bare rule does change its mind.
    attempts = [steady(850)] * 3 + [steady(2000)] * 17
    assert decide(attempts[:3], LIMIT, UNKNOWN, PROFILES["standard"]).outcome is Outcome.FAIL
    assert decide(attempts, LIMIT, UNKNOWN, PROFILES["standard"]).outcome is not Outcome.FAIL


def test_a_bad_limit_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="finite rate above 0"):
        Course(Bitrate(0.0), UNKNOWN, PROFILES["standard"])
