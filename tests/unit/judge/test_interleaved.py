"""Two states measured alternately: drift and odd connections cancel. Results: slower, faster, same, inconclusive."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.level import level_bps, read
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.sequential import decide
from pytest_pinet.judge.spread import UNKNOWN, Noise
from pytest_pinet.judge.turns import MOST_PAIRS, Side, compare_connections, compare_in_turn, side
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import connection_of, steady, with_dips

QUIET = Noise(0.003, 10, 0.001)


def engine(rate: Callable[[Side, int], float], noise: Noise = UNKNOWN) -> Difference:
    """Measure alternately until the engine stops."""
    figures: list[float] = []
    while True:
        figures.append(rate(side(len(figures)), len(figures)))
        found = compare_in_turn(figures, noise=noise)
        if found.result is not Relation.GO_ON:
            return found
        assert len(figures) <= 2 * MOST_PAIRS


def test_the_order_is_a_b_b_a_b_a_a_b() -> None:
    assert "".join(side(index) for index in range(8)) == "ABBABAAB"


@pytest.mark.parametrize("noise", [UNKNOWN, QUIET], ids=["unknown", "quiet"])
@pytest.mark.parametrize(
    ("change", "result", "pairs"),
    [
        (0.0, Relation.SAME, 2),
        (-0.01, Relation.SAME, 4),
        (-0.05, Relation.SLOWER, 4),
        (-0.5, Relation.SLOWER, 4),
        (0.1, Relation.FASTER, 4),
    ],
)
def test_steady_states_decide_early(change: float, result: Relation, pairs: int, noise: Noise) -> None:
    found = engine(lambda which, _: 940 * (1 + change * (which is Side.B)), noise)
    assert found.result is result
    assert found.change == pytest.approx(change)
    assert found.count <= max(pairs, 4 if noise.assumed else 0)


@pytest.mark.parametrize(("change", "result"), [(0.0, Relation.SAME), (-0.05, Relation.SLOWER)])
@pytest.mark.parametrize("drift", [-0.004, 0.004], ids=["falling", "rising"])
def test_drift_that_misleads_a_stored_baseline_cancels_out(change: float, result: Relation, drift: float) -> None:
    values = random.Random(11)

    def rate(which: Side, index: int) -> float:
        return 940 * math.exp(drift * index + change * (which is Side.B) + values.gauss(0, 0.002))

    found = engine(rate, QUIET)
    assert found.result is result
    assert found.change == pytest.approx(math.expm1(change), abs=0.006)


def test_the_same_drift_misleads_the_unpaired_rule() -> None:
    # A and B are equal and measured ten times each. The lab loses 0.4 % with each measurement.
    rates = [940 * math.exp(-0.004 * index) for index in range(20)]
    limit = Bitrate.mbps(sum(rates[:10]) / 10 * 0.97)
    found = decide([steady(rate) for rate in rates[10:]], limit, QUIET, PROFILES["standard"])
    assert found.outcome is Verdict.FAIL


@pytest.mark.parametrize("count", [8, 10, 14])
def test_steady_drift_is_removed_exactly(count: int) -> None:
    figures = [1000 * math.exp(0.02 * index - 0.05 * (side(index) is Side.B)) for index in range(count)]
    found = compare_in_turn(figures, noise=QUIET)
    assert found.change == pytest.approx(math.expm1(-0.05))
    assert found.result is Relation.SLOWER


def test_hopeless_noise_ends_early_and_says_so() -> None:
    values = random.Random(4)
    found = engine(lambda _which, _index: 1e4 * math.exp(values.gauss(0, 0.4)))
    assert found.result is Relation.INCONCLUSIVE
    assert found.count < MOST_PAIRS / 2
    assert "noise" in found.why


def test_the_error_rate_holds_on_a_drifting_noisy_link() -> None:
    # Link model s3: 2 % between runs, 2 % between sessions, which both states share.
    values = random.Random(6)
    wrong = {0.0: 0, -0.01: 0, -0.05: 0}
    for change, bad in ((0.0, Relation.SLOWER), (-0.01, Relation.SLOWER), (-0.05, Relation.SAME)):
        for _ in range(300):
            session = values.gauss(0, 0.02)
            pace = values.gauss(0, 0.001)

            def rate(which: Side, index: int, at: float = session, pace: float = pace, by: float = change) -> float:
                return 940 * math.exp(at + pace * index + math.log1p(by) * (which is Side.B) + values.gauss(0, 0.02))

            wrong[change] += engine(rate).result is bad
    assert max(wrong.values()) <= 6, wrong


@pytest.mark.parametrize("noise", [UNKNOWN, QUIET], ids=["unknown", "quiet"])
@pytest.mark.parametrize(
    ("change", "bad"),
    [(0.0, Relation.SLOWER), (0.0, Relation.FASTER), (-0.05, Relation.SAME)],
)
def test_outliers_do_not_decide(change: float, bad: Relation, noise: Noise) -> None:
    # One connection in twenty loses 8 %, in either state. With a minimum of three pairs: slower 3.7 %, faster 8.5 %.
    values = random.Random(5)

    def rate(which: Side, _index: int) -> float:
        odd = 0.92 if values.random() < 0.05 else 1.0
        return 940 * odd * (1 + change * (which is Side.B)) * math.exp(values.gauss(0, 0.003))

    wrong = sum(engine(rate, noise).result is bad for _ in range(500))
    assert wrong <= 5


def in_turn(make: Callable[[Side, int], Connection], noise: Noise = QUIET) -> Difference:
    """Add connections alternately until the engine stops."""
    connections: list[Connection] = []
    while True:
        connections.append(make(side(len(connections)), len(connections)))
        found = compare_connections(connections, noise=noise)
        if found.result is not Relation.GO_ON:
            return found
        assert len(connections) <= 2 * MOST_PAIRS


STALLED = with_dips(940, [(1.0, 1.0, 0.0)])


@pytest.mark.parametrize("noise", [UNKNOWN, QUIET], ids=["unknown", "quiet"])
@pytest.mark.parametrize("index", [1, 2])
def test_one_stall_in_b_is_reported_but_does_not_make_it_slower(index: int, noise: Noise) -> None:
    found = in_turn(lambda _, at: STALLED if at == index else steady(940), noise)
    assert found.result is Relation.SAME
    assert found.change == pytest.approx(0, abs=0.001)
    assert found.disturbed == (0, 1)
    assert found.remarks == ("0 % of the rate for 1.0 s, 1.0 s after the start",)


def test_a_state_that_stalls_in_every_connection_is_slower() -> None:
    found = in_turn(lambda which, _: STALLED if which is Side.B else steady(940))
    assert found.result is Relation.SLOWER
    assert found.disturbed[0] == 0


def test_a_state_that_stalls_in_every_other_connection_is_not_the_same() -> None:
    found = in_turn(lambda which, at: STALLED if which is Side.B and at % 4 < 2 else steady(940))
    assert found.result in (Relation.SLOWER, Relation.INCONCLUSIVE)
    assert found.disturbed[1] > 0


def test_stalls_of_both_states_do_not_count_against_b() -> None:
    assert in_turn(lambda _, at: STALLED if at % 8 in (0, 1) else steady(940)).result is Relation.SAME


def test_a_connection_counts_with_its_level_or_not_at_all() -> None:
    assert level_bps(STALLED) == pytest.approx(940e6, rel=1e-3)
    assert [one is not None and one.disturbed for one in (read(STALLED), read(steady(940)))] == [True, False]
    killed = connection_of([940.0] * 30, excluded="the tool was killed")
    assert level_bps(killed) is None
    assert read(killed) is None
    assert compare_connections([*[steady(940)] * 4, killed, steady(940)], noise=QUIET).count == 2


def test_one_pair_does_not_decide() -> None:
    assert compare_in_turn([940, 100]).result is Relation.GO_ON
    assert compare_in_turn([]).result is Relation.GO_ON


@pytest.mark.parametrize("odd", [math.nan, math.inf, 0.0, -3.0])
def test_a_pair_without_a_value_is_ignored(odd: float) -> None:
    good = [940.0, 940.0, 940.0, 940.0]
    assert compare_in_turn([*good, odd, 940.0], noise=QUIET).count == 2
    assert compare_in_turn([odd] * 48).result is Relation.INCONCLUSIVE


@given(
    st.lists(st.floats(min_value=500, max_value=1500), min_size=4, max_size=48),
    st.floats(min_value=1e-3, max_value=1e6),
)
@settings(max_examples=100, deadline=None)
def test_the_unit_of_the_values_does_not_matter(figures: list[float], factor: float) -> None:
    one, other = compare_in_turn(figures), compare_in_turn([figure * factor for figure in figures])
    assert (other.result, other.count) == (one.result, one.count)
    assert other.change == pytest.approx(one.change, abs=1e-9)


@given(
    st.lists(st.floats(min_value=800, max_value=1000), min_size=6, max_size=48),
    st.floats(min_value=1.0, max_value=2.0),
)
@settings(max_examples=100, deadline=None)
def test_a_faster_candidate_never_gets_a_worse_result(figures: list[float], factor: float) -> None:
    rank = {
        Relation.SLOWER: 0,
        Relation.INCONCLUSIVE: 1,
        Relation.GO_ON: 1,
        Relation.SAME: 2,
        Relation.FASTER: 3,
    }
    better = [figure * (factor if side(index) is Side.B else 1) for index, figure in enumerate(figures)]
    assert rank[compare_in_turn(better).result] >= rank[compare_in_turn(figures).result]
