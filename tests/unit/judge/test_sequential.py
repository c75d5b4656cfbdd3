"""The sequential rule: when it stops, with which decision, and which changes must not affect it."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.sequential import Decision, decide
from pytest_pinet.judge.spread import UNKNOWN, Noise, Spread
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.measurement import Event, EventKind, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import connection_of, single, steady, with_dips, with_samples

STANDARD, SOAK = PROFILES["standard"], PROFILES["soak"]
LIMIT = Bitrate.mbps(900)
QUIET = Noise(connections=0.003, freedom=10, sessions=0.001)


def course(make: Callable[[int], Connection], noise: Noise = UNKNOWN, profile: str = "standard") -> Decision:
    """Add connections until the rule stops."""
    connections: list[Connection] = []
    while True:
        connections.append(make(len(connections)))
        decision = decide(connections, LIMIT, noise, PROFILES[profile])
        if decision.outcome is not None:
            return decision
        assert len(connections) < 50, "the rule never stops"


@pytest.mark.parametrize("noise", [UNKNOWN, QUIET], ids=["unknown", "quiet"])
@pytest.mark.parametrize(
    ("relative", "outcome", "seconds"),
    [
        (0.031, Verdict.PASS, 3),
        (-0.021, Verdict.FAIL, 9),
        (-0.5, Verdict.FAIL, 9),
        (5.0, Verdict.PASS, 3),
        (-1.0, Verdict.FAIL, 9),
    ],
)
def test_a_clear_value_decides_with_the_fewest_connections(
    relative: float, outcome: Verdict, seconds: float, noise: Noise
) -> None:
    decision = course(lambda _: steady(900 * (1 + relative)), noise)
    assert decision.outcome is outcome
    assert decision.seconds == pytest.approx(seconds)


@pytest.mark.parametrize("noise", [UNKNOWN, QUIET], ids=["unknown", "quiet"])
@pytest.mark.parametrize(("relative", "outcome"), [(-0.005, Verdict.FAIL), (0.005, Verdict.PASS)])
def test_values_half_a_percent_from_the_limit_are_decided(relative: float, outcome: Verdict, noise: Noise) -> None:
    decision = course(lambda _: steady(900 * (1 + relative)), noise)
    assert decision.outcome is outcome
    assert decision.seconds <= (30 if noise.assumed else 12)


def test_a_pass_explains_itself() -> None:
    decision = decide([steady(929)], LIMIT, QUIET, STANDARD)
    assert decision.why == "certain after 1 connection (3 s): 3.2 % above the limit, noise 0.30 %"
    assert decision.ratio == pytest.approx(929 / 900)
    assert decision.ratio is not None
    assert decision.interval is not None
    low, high = decision.interval
    assert 1.02 < low < decision.ratio < high < 1.05


def test_a_fail_explains_itself() -> None:
    decision = decide([steady(880)] * 3, LIMIT, QUIET, STANDARD)
    assert decision.why.startswith("below the limit in 3 of 3 connections (9 s): 2.2 % below the limit on average")


def test_noise_larger_than_the_margin_is_undecided_and_names_the_smallest_margin() -> None:
    decision = course(lambda index: steady(905 * (0.96, 1.04, 0.99, 1.02)[index % 4]))
    assert decision.outcome is Verdict.INCONCLUSIVE
    assert "between connections is too much for the margin" in decision.why
    assert decision.carries is not None
    assert decision.carries > 0.03
    assert f"the smallest margin that this noise allows is {decision.carries * 100:.0f} %" in decision.why


def test_known_noise_that_is_too_large_ends_the_test_before_the_budget() -> None:
    drifting = Noise(connections=0.005, freedom=10, sessions=0.03)
    decision = course(lambda _: steady(910), drifting)
    assert decision.outcome is Verdict.INCONCLUSIVE
    assert decision.seconds == pytest.approx(9)


def test_a_suspect_is_confirmed_on_a_fresh_link_up() -> None:
    slow = steady(850)
    assert decide([slow], LIMIT, UNKNOWN, STANDARD).next_fresh is Fresh.CONNECTION
    assert decide([slow] * 2, LIMIT, UNKNOWN, STANDARD).next_fresh is Fresh.LINK
    assert decide([slow] * 3, LIMIT, UNKNOWN, STANDARD).outcome is Verdict.FAIL
    waiting = decide([slow] * 3, LIMIT, UNKNOWN, STANDARD, fresh_link=True)
    assert (waiting.outcome, waiting.next_fresh) == (None, Fresh.LINK)
    outlasted = [slow, slow, replace(slow, fresh=Fresh.LINK)]
    assert decide(outlasted, LIMIT, UNKNOWN, STANDARD, fresh_link=True).outcome is Verdict.FAIL


def test_all_connections_since_a_fresh_link_up_confirm_a_regression_on_a_rough_link() -> None:
    """The first one may lie above the limit by chance."""
    low = [steady(860 + 5 * (index % 3)) for index in range(8)]
    rough = [*low[:2], steady(905, fresh=Fresh.LINK), *low[2:]]
    assert decide(rough, LIMIT, UNKNOWN, STANDARD, fresh_link=True).outcome is Verdict.FAIL
    cured = [*low, steady(905, fresh=Fresh.LINK), steady(902)]
    assert decide(cured, LIMIT, UNKNOWN, STANDARD, fresh_link=True).outcome is not Verdict.FAIL


def test_the_last_look_guards_against_no_further_looks() -> None:
    spread = Spread(0.02, 0.027**2, 0.008**2, 20, 30, 9)
    assert 0 < spread.needed_at_last(0.01) < 0.85 * spread.needed(0.01)
    assert Spread(0.02, 0.003**2, 0.0, 20, 30, 9).needed_at_last(0.01) == 0


def test_a_regression_that_disappears_on_a_fresh_link_up_is_not_confirmed() -> None:
    cured = [steady(850), steady(850), steady(930, fresh=Fresh.LINK)]
    assert decide(cured, LIMIT, UNKNOWN, STANDARD, fresh_link=True).outcome is None


def test_a_rough_link_without_history_is_assumed_to_vary_between_days() -> None:
    rough = [steady(925 * factor) for factor in (0.98, 1.02) * 4]
    known = Noise(0.02, 10, 0.003)
    assert decide(rough, LIMIT, known, STANDARD).outcome is Verdict.PASS
    assert decide(rough, LIMIT, UNKNOWN, STANDARD).outcome is not Verdict.PASS


def test_a_rough_link_far_above_its_limit_passes_when_its_connections_took_longer_than_planned() -> None:
    values = random.Random(3)

    def make(_: int) -> Connection:
        mbps = [5 * LIMIT.bps / 1e6 * (1 + values.gauss(0, 0.05)) for _ in range(33)]
        return single(tuple(Sample(n / 10, 0.1, round(rate * 1e5 / 8)) for n, rate in enumerate(mbps)))

    decision = course(make, profile="fast")
    assert (decision.outcome, decision.connections) == (Verdict.PASS, 7)


def test_one_outlier_is_not_variation_between_days() -> None:
    decision = course(lambda index: steady(870 if index == 1 else 915))
    assert (decision.outcome, decision.below) == (Verdict.PASS, 1)
    assert decision.seconds <= 30


def test_three_bad_connections_of_five_are_not_enough_for_a_regression() -> None:
    mixed = [steady(864)] * 3 + [steady(904)] * 2
    assert decide(mixed, LIMIT, Noise(0.02, 50, 0.0), STANDARD).outcome is None
    assert decide([*mixed, steady(864)], LIMIT, Noise(0.02, 50, 0.0), STANDARD).outcome is Verdict.FAIL


def test_excluded_connections_give_no_value_but_use_budget() -> None:
    broken = replace(steady(100), excluded="the link was lost")
    decision = decide([broken, steady(930)], LIMIT, UNKNOWN, STANDARD)
    assert (decision.outcome, decision.connections) == (Verdict.PASS, 1)
    assert decision.seconds == pytest.approx(6)
    assert "the link was lost" in decision.flagged
    assert decide([broken] * 20, LIMIT, UNKNOWN, STANDARD).outcome is Verdict.INCONCLUSIVE


def test_the_budget_limits_whole_excluded_connections_and_their_number_limits_those_that_end_at_once() -> None:
    whole = replace(steady(450), excluded="other programs took 90 % of a CPU")
    at_once = with_samples(whole, ())
    mixed = [*[whole] * 8, steady(450), steady(450)]
    decision = decide(mixed, LIMIT, UNKNOWN, STANDARD)
    assert (decision.outcome, decision.connections) == (None, 2)
    assert decide([*mixed, steady(450)], LIMIT, UNKNOWN, STANDARD).outcome is Verdict.FAIL
    spent = decide([*[whole] * 18, steady(450), steady(450)], LIMIT, UNKNOWN, STANDARD)
    assert spent.outcome is Verdict.INCONCLUSIVE
    obstacle = "too few connections gave a value, and there is no time for more"
    assert spent.why == f"undecided after 2 connections, 60 s of traffic: {obstacle}"
    assert decide([at_once] * 5, LIMIT, UNKNOWN, STANDARD).outcome is None
    assert decide([at_once] * 6, LIMIT, UNKNOWN, STANDARD).outcome is Verdict.INCONCLUSIVE


def test_a_dropped_link_is_never_averaged_into_a_value() -> None:
    down = Event(EventKind.LINK_DOWN, 1.0, 2.1, "link dropped for 2.1 s at 14:03:07, sw1/p5")
    dropped = replace(with_dips(930, [(0.9, 2.1, 0.0)]), link_events=(down,))
    decision = decide([dropped, steady(930)], LIMIT, QUIET, STANDARD)
    assert decision.outcome is Verdict.PASS
    assert decision.ratio == pytest.approx(930 / 900)
    assert decision.flagged == (down.text,)


def test_a_dip_is_flagged_and_needs_two_steady_connections_to_be_passed() -> None:
    dipped = with_dips(930, [(1.0, 1.0, 0.5)])
    assert decide([dipped, steady(930)], LIMIT, QUIET, STANDARD).outcome is None
    decision = decide([dipped, steady(930), steady(930)], LIMIT, QUIET, STANDARD)
    assert decision.outcome is Verdict.PASS
    assert decision.flagged == ("50 % of the rate for 1.0 s, 1.0 s after the start",)
    assert decision.why.endswith("1 of 3 connections had disturbances")


def test_a_long_stall_is_reported_and_not_taken_for_a_slow_link() -> None:
    stalled = with_dips(930, [(1.0, 2.0, 0.0)])
    decision = decide([stalled, steady(930), steady(930)], LIMIT, UNKNOWN, STANDARD)
    assert decision.outcome is Verdict.PASS
    assert decision.flagged == ("0 % of the rate for 2.0 s, 1.0 s after the start",)
    assert decide([stalled] * 3, LIMIT, UNKNOWN, STANDARD).outcome is Verdict.FAIL


def test_a_stall_of_all_counted_samples_keeps_the_level_before_it() -> None:
    died = connection_of([930.0] * 10 + [0.0] * 20, warmup=10)
    decision = decide([died, steady(930), steady(930)], LIMIT, UNKNOWN, STANDARD)
    assert (decision.outcome, decision.below, len(decision.flagged)) == (Verdict.PASS, 1, 1)
    assert decide([died] * 3, LIMIT, UNKNOWN, STANDARD).outcome is Verdict.FAIL


@pytest.mark.parametrize(
    ("low", "events"),
    [(9, ()), (12, (Event(EventKind.SLOW_START, 0.0, 1.2, "slow start"),))],
    ids=["within the cap", "beyond it"],
)
def test_a_slow_start_neither_changes_the_value_nor_flags_it(low: int, events: tuple[Event, ...]) -> None:
    slow = connection_of([930 / 2] * low + [930] * (30 - low), warmup=min(low, 10), events=events)
    limit = Bitrate.mbps(850)
    decision = decide([slow] * 3, limit, QUIET, STANDARD)
    assert (decision.outcome, decision.disturbed, len(decision.flagged)) == (Verdict.PASS, 0, 0)
    assert ("slow starts of up to 1.0 s do not count" in decision.why) is bool(events)
    assert decide([slow], limit, QUIET, STANDARD).outcome is Verdict.PASS


def test_a_dip_after_a_slow_start_disturbs() -> None:
    rates = [930 / 2] * 12 + [930] * 8 + [0] * 7 + [930] * 3
    event = Event(EventKind.SLOW_START, 0.0, 1.2, "slow start")
    found = decide([connection_of(rates, warmup=10, events=(event,))], LIMIT, QUIET, STANDARD)
    assert (found.outcome, found.disturbed) == (None, 1)


def test_a_link_that_stalls_in_every_connection_fails() -> None:
    decision = course(lambda _: with_dips(930, [(1.0, 0.6, 0.0)]), QUIET)
    assert decision.outcome is Verdict.FAIL
    assert decision.disturbed == decision.connections


def test_the_soak_profile_finds_a_dip_that_half_of_the_short_gates_miss() -> None:
    late = with_dips(930, [(7.0, 1.0, 0.5)], seconds=11.0)
    decision = decide([steady(930, 11.0), late], LIMIT, QUIET, SOAK)
    assert decision.outcome is not Verdict.PASS
    assert decision.flagged


@pytest.mark.parametrize("limit", [0.0, -1.0, math.inf, math.nan])
def test_a_limit_that_is_not_a_positive_rate_is_refused(limit: float) -> None:
    with pytest.raises(ValueError, match="expected a finite rate above 0"):
        decide([steady(930)], Bitrate(limit), UNKNOWN, STANDARD)


@pytest.mark.parametrize("rate", [0.0, 0.5, -0.1, math.nan])
def test_an_impossible_error_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"expected more than 0 and less than 0\.5"):
        decide([steady(930)], LIMIT, UNKNOWN, STANDARD, error_rate=rate)


ODD = [
    Sample(0.0, math.nan, 1000),
    Sample(0.0, math.inf, 1000),
    Sample(0.0, -1.0, 1000),
    Sample(0.0, 1.0, -1),
    Sample(0.0, 1e-300, 10**18),
    Sample(0.0, 1.0, 10**400),
    Sample(0.0, 0.0, 5),
]


@pytest.mark.parametrize("sample", ODD, ids=repr)
def test_an_impossible_sample_gives_no_value(sample: Sample) -> None:
    odd = single((*steady(930).samples, sample))
    decision = decide([odd], LIMIT, UNKNOWN, STANDARD)
    assert (decision.outcome, decision.ratio) == (None, None)
    assert decision.flagged
    assert decide([odd, steady(930)], LIMIT, QUIET, STANDARD).ratio == pytest.approx(930 / 900)


@pytest.mark.parametrize("samples", [(), (Sample(0.0, 1.0, 10**8, warmup=True),)], ids=["empty", "warm-up only"])
def test_without_a_counted_sample_there_is_no_value(samples: tuple[Sample, ...]) -> None:
    connections = [single(samples)]
    assert decide(connections, LIMIT, UNKNOWN, STANDARD).outcome is None
    assert decide(connections * 10, LIMIT, UNKNOWN, STANDARD).outcome is Verdict.INCONCLUSIVE


def test_one_sample_is_enough_for_a_value() -> None:
    connection = single((Sample(0.0, 3.0, round(930e6 / 8 * 3)),))
    assert decide([connection], LIMIT, QUIET, STANDARD).outcome is Verdict.PASS


def test_zero_goodput_fails_and_a_huge_rate_passes() -> None:
    assert decide([steady(0)] * 3, LIMIT, UNKNOWN, STANDARD).outcome is Verdict.FAIL
    assert decide([steady(9e8)], LIMIT, UNKNOWN, STANDARD).outcome is Verdict.PASS


levels = st.floats(min_value=800, max_value=1000)
sizes = st.floats(min_value=0, max_value=0.05)
seeds = st.integers(min_value=0, max_value=2**16)


@st.composite
def connections(draw: st.DrawFn, least: int = 1) -> list[Connection]:
    """Return up to eight connections of one link, with a level, spread between and within them, and dips."""
    level, between, within = draw(levels), draw(sizes), draw(sizes)
    values = random.Random(draw(seeds))
    dip_rate = draw(st.sampled_from([0.0, 0.0, 0.1]))
    found = []
    for _ in range(draw(st.integers(min_value=least, max_value=8))):
        own = level * math.exp(values.gauss(0, between))
        rates = [own * max(0.0, 1 + values.gauss(0, within)) for _ in range(30)]
        if values.random() < dip_rate:
            rates[10:20] = [rate / 2 for rate in rates[10:20]]
        fresh = values.choice((Fresh.CONNECTION, Fresh.LINK))
        found.append(connection_of(rates, fresh=fresh))
    return found


def without_rates(why: str) -> str:
    return re.sub(r"[0-9.]+ [kMG]?bit/s", "RATE", why)


def scaled(made: Sequence[Connection], factor: int) -> list[Connection]:
    return [with_samples(one, tuple(replace(s, bytes=s.bytes * factor) for s in one.samples)) for one in made]


noises = st.sampled_from([UNKNOWN, QUIET, Noise(0.03, 6, 0.01, links=0.005)])


@given(connections(), noises, st.integers(min_value=1001, max_value=1300))
@settings(max_examples=150, deadline=None)
def test_a_better_link_never_gets_a_worse_verdict(made: list[Connection], noise: Noise, thousandths: int) -> None:
    # Scaled by integers, with the limit scaled for the worse link, so that rounding loses no byte.
    worse = decide(scaled(made, 1000), Bitrate(LIMIT.bps * 1000), noise, STANDARD)
    better = decide(scaled(made, thousandths), Bitrate(LIMIT.bps * 1000), noise, STANDARD)
    # GO_ON and INCONCLUSIVE are no verdicts; both rank between fail and pass.
    rank = {Verdict.FAIL: 0, Verdict.INCONCLUSIVE: 1, None: 1, Verdict.PASS: 2}
    assert rank[better.outcome] >= rank[worse.outcome]


@given(connections(), noises, st.integers(min_value=2, max_value=10**5))
# Two levels: the reason names their rates.
@example([steady(mbps) for mbps in (795, 837, 795, 837, 795, 837)], UNKNOWN, 2)
@settings(max_examples=100, deadline=None)
def test_scaling_samples_and_limit_together_changes_nothing(made: list[Connection], noise: Noise, factor: int) -> None:
    one = decide(made, LIMIT, noise, STANDARD)
    other = decide(scaled(made, factor), Bitrate(LIMIT.bps * factor), noise, STANDARD)
    assert (other.outcome, other.next_fresh) == (one.outcome, one.next_fresh)
    assert without_rates(other.why) == without_rates(one.why)
    assert other.ratio == pytest.approx(one.ratio)


@given(connections(least=2), noises, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_connections_changes_nothing(
    made: list[Connection], noise: Noise, shuffler: random.Random
) -> None:
    mixed = list(made)
    shuffler.shuffle(mixed)
    assert decide(mixed, LIMIT, noise, STANDARD) == decide(made, LIMIT, noise, STANDARD)


@given(st.floats(min_value=800, max_value=1000), st.sampled_from(sorted(PROFILES)), noises)
@example(900.0, "standard", UNKNOWN)
@settings(max_examples=60, deadline=None)
def test_a_steady_link_is_never_judged_wrong(mbps: float, name: str, noise: Noise) -> None:
    assume(abs(mbps / 900 - 1) > 1e-6 or mbps == 900)
    seconds = PROFILES[name].connection_s
    decision = course(lambda _: steady(mbps, seconds), noise, name)
    assert decision.outcome is not (Verdict.PASS if mbps < 900 else Verdict.FAIL)


@given(connections(), st.sampled_from([(0.001, 0.01), (0.01, 0.05), (0.05, 0.2)]))
@settings(max_examples=60, deadline=None)
def test_a_lower_error_rate_never_gives_an_earlier_verdict(made: list[Connection], rates: tuple[float, float]) -> None:
    strict, loose = (decide(made, LIMIT, QUIET, STANDARD, error_rate=rate) for rate in rates)
    decided = (Verdict.PASS, Verdict.FAIL)
    assert strict.outcome not in decided or loose.outcome is strict.outcome
