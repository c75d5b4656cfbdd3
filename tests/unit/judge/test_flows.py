"""Fair rates, Jain's index, and their limits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.judge.flows import jain, judge_evenness, max_min_shares
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.verdict import Verdict


def test_senders_share_the_receiver_equally() -> None:
    senders = {f"s{i}": 941.0 for i in range(5)}
    flows = [[name, "receiver"] for name in senders]
    assert max_min_shares({**senders, "receiver": 94.0}, flows) == pytest.approx([18.8] * 5)


def test_the_others_get_the_capacity_that_a_slow_sender_does_not_use() -> None:
    capacities = {"slow": 10.0, "fast": 100.0, "receiver": 100.0}
    shares = max_min_shares(capacities, [["slow", "receiver"], ["fast", "receiver"]])
    assert shares == pytest.approx([10.0, 90.0])


def test_a_single_flow_gets_its_smallest_resource() -> None:
    assert max_min_shares({"a": 5.0, "b": 3.0, "c": 9.0}, [["a", "b", "c"]]) == [3.0]


@given(
    st.lists(st.floats(1, 1e10), min_size=2, max_size=6).flatmap(
        lambda capacities: st.tuples(
            st.just(capacities),
            st.lists(
                st.lists(st.integers(0, len(capacities) - 1), min_size=1, max_size=3, unique=True),
                min_size=1,
                max_size=8,
            ),
        )
    )
)
def test_fair_rates_fill_a_resource_of_each_flow_and_overfill_none(case: tuple[list[float], list[list[int]]]) -> None:
    capacities, flows = case
    rates = max_min_shares(dict(enumerate(capacities)), flows)
    load = [sum(r for r, used in zip(rates, flows, strict=True) if i in used) for i in range(len(capacities))]
    assert all(used <= capacity * (1 + 1e-6) for used, capacity in zip(load, capacities, strict=True))
    for rate, used in zip(rates, flows, strict=True):
        # Max-min: each flow uses a full resource in which no other flow gets more.
        assert any(
            load[i] >= capacities[i] * (1 - 1e-6)
            and all(other <= rate * (1 + 1e-6) for other, names in zip(rates, flows, strict=True) if i in names)
            for i in used
        )


@given(st.lists(st.floats(0.001, 1e9), min_size=1, max_size=20))
def test_jains_index_lies_between_one_nth_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9


def test_jain_of_known_shares() -> None:
    assert jain([1, 1, 1, 1]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([3, 1]) == pytest.approx(0.8)
    assert jain([0, 0]) == 0


def limit(metric: Metric, minimum: float) -> Limit:
    return Limit(Share(minimum), Origin.MARKER, f"{metric}={minimum}", metric=metric)


def test_the_flow_with_the_least_share_is_named() -> None:
    limits = limit(Metric.SHARE, 0.9), limit(Metric.FAIRNESS, 0.95)
    judgement = judge_evenness([Bitrate(5.0), Bitrate(15.0)], [Bitrate(10.0)] * 2, ["a>c", "b>c"], *limits)
    assert (judgement.verdict, judgement.least_flow) == (Verdict.FAIL, "a>c")
    assert judgement.reason == (
        "a>c got 50 % of its fair share, below the limit 90%; Jain's index 0.800 is below the limit 0.95"
    )


def test_even_flows_pass_and_the_reason_gives_their_evenness() -> None:
    goodputs, fair = [Bitrate(9.9), Bitrate(10.0)], [Bitrate(10.0)] * 2
    judgement = judge_evenness(goodputs, fair, ["a>c", "b>c"], limit(Metric.SHARE, 0.9), None)
    assert judgement.verdict is Verdict.PASS
    assert judgement.reason == "a>c got 99 % of its fair share, Jain's index 1.000"
    assert math.isclose(judgement.least_share, 0.99)
