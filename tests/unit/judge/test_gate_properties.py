"""Connections after the end of a ruling must not change it; a better link must not make it worse."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.gate import GatePlan, Ruling, rule_on
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.sequential import decide
from pytest_pinet.judge.spread import UNKNOWN, Noise
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.limits import Limit, Origin
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import connection_of, steady

STANDARD = PROFILES["standard"]
MINIMUM = Bitrate.mbps(900)
LIMIT = Limit(MINIMUM, Origin.MARKER, "the test's limit")
FAST = Oracle(Bitrate.mbps(1e6), "a link that carries anything")
QUIET = Noise(connections=0.003, freedom=10, sessions=0.001)
# The worst verdict first.
RANK = {Verdict.FAIL: 0, Verdict.INCONCLUSIVE: 1, Verdict.MARGINAL: 2, Verdict.PASS: 3}


def ruled(connections: Sequence[Connection], noise: Noise = UNKNOWN, fresh_link: bool = False) -> Ruling:
    counted = [one for one in connections if not one.excluded]
    seconds = sum(one.seconds for one in counted)
    goodput = Bitrate(sum(one.goodput.bps * one.seconds for one in counted) / seconds if counted else 0.0)
    return rule_on(
        connections, goodput, goodput, FAST, LIMIT, GatePlan([], STANDARD, link_ups=fresh_link), Reference(noise)
    )


def to_the_end(level: float, noise_mbps: float, seed: int, scale: float = 1.0) -> tuple[list[Connection], Ruling]:
    """Add connections around ``level`` Mbit/s, each with its own deviation, until the gate needs no more."""
    values = random.Random(seed)
    connections: list[Connection] = []
    wanted: Fresh | None = Fresh.CONNECTION
    while wanted is not None:
        own = (level + values.gauss(0, noise_mbps)) * scale
        connections.append(connection_of([own + values.gauss(0, 2) for _ in range(30)], fresh=wanted))
        ruling = ruled(connections, fresh_link=True)
        wanted = ruling.wanted
    return connections, ruling


@given(
    st.floats(min_value=860, max_value=940),
    st.sampled_from([0.0, 5.0, 30.0]),
    st.integers(min_value=0, max_value=2**16),
    st.lists(st.floats(min_value=0, max_value=9000), max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_connections_after_the_end_change_neither_verdict_nor_why(
    level: float, noise_mbps: float, seed: int, later: list[float]
) -> None:
    connections, ended = to_the_end(level, noise_mbps, seed)
    more = ruled([*connections, *[steady(rate) for rate in later]], fresh_link=True)
    assert more.wanted is None
    assert (more.judgement.stopped, more.judgement.interval) == (ended.judgement.stopped, ended.judgement.interval)
    if ended.judgement.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        assert (more.judgement.verdict, more.judgement.state) == (ended.judgement.verdict, ended.judgement.state)
    else:
        assert more.judgement.verdict in (Verdict.PASS, Verdict.MARGINAL)


def test_the_bare_rule_would_change_its_verdict() -> None:
    # The case that the property above is about.
    connections = [steady(850)] * 3 + [steady(2000)] * 17
    assert decide(connections[:3], MINIMUM, UNKNOWN, STANDARD).outcome is Verdict.FAIL
    assert decide(connections, MINIMUM, UNKNOWN, STANDARD).outcome is not Verdict.FAIL
    assert ruled(connections).judgement.verdict is Verdict.FAIL


@given(
    st.floats(min_value=850, max_value=950),
    st.sampled_from([0.0, 5.0, 30.0]),
    st.integers(min_value=0, max_value=2**16),
    st.floats(min_value=1.0, max_value=1.3),
)
@settings(max_examples=60, deadline=None)
def test_a_better_link_never_gets_a_worse_verdict(level: float, noise_mbps: float, seed: int, scale: float) -> None:
    _, one = to_the_end(level, noise_mbps, seed)
    _, better = to_the_end(level, noise_mbps, seed, scale)
    if one.judgement.verdict is Verdict.PASS:
        assert better.judgement.verdict is Verdict.PASS
    if better.judgement.verdict is Verdict.FAIL:
        assert one.judgement.verdict is Verdict.FAIL


@pytest.mark.parametrize("noise", [UNKNOWN, QUIET], ids=["unknown", "quiet"])
@given(
    st.lists(st.floats(min_value=800, max_value=1000), min_size=1, max_size=6), st.floats(min_value=1, max_value=1.3)
)
@settings(max_examples=80, deadline=None)
def test_the_same_connections_on_a_better_link_never_get_a_worse_verdict(
    noise: Noise, rates: list[float], scale: float
) -> None:
    one = ruled([steady(rate) for rate in rates], noise)
    better = ruled([steady(rate * scale) for rate in rates], noise)
    if one.wanted is None and better.wanted is None:
        assert RANK[better.judgement.verdict] >= RANK[one.judgement.verdict]


def test_a_first_connection_below_the_limit_that_repetitions_clear_is_marginal() -> None:
    connections = [steady(880)]
    while (ruling := ruled(connections)).wanted is not None:
        connections.append(steady(938))
    assert (ruling.judgement.verdict, ruling.judgement.state) == (Verdict.MARGINAL, "cleared")


def test_an_connection_without_a_value_does_not_change_the_value() -> None:
    connections = [steady(930), replace(steady(0), excluded="the tool was killed")]
    assert ruled(connections).judgement.stopped == ruled(connections[:1]).judgement.stopped
