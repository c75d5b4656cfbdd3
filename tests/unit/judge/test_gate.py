"""From the connections of one metric to its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.gate import GatePlan, Ruling, rule_on
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES, confirm
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.limits import Limit, Origin
from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import single, with_samples

STANDARD = PROFILES["standard"]
WIRE = Oracle(Bitrate(941e6), "1000 Mbit/s link")
LIMIT = Limit(Bitrate(900e6), Origin.MARKER, "the test's limit")


def connection(mbps: float, seconds: float = 3.0, excluded: str = "") -> Connection:
    steps = round(seconds / 0.1)
    samples = tuple(Sample(n * 0.1, 0.1, round(mbps * 1e6 / 8 * 0.1), warmup=n < 3) for n in range(steps))
    return single(samples, excluded=excluded)


def ruled(connections: Sequence[Connection], limit: Limit | None = LIMIT, oracle: Oracle = WIRE) -> Ruling:
    counted = [one for one in connections if not one.excluded]
    goodput = Bitrate(sum(one.goodput.bps for one in counted) / len(counted) if counted else 0.0)
    return rule_on(connections, goodput, goodput, oracle, limit, GatePlan([], STANDARD, link_ups=False), Reference())


def test_connections_that_differ_only_inside_are_told_apart() -> None:
    """Rules cache what they found in a connection, by its last sample. Here only the middle differs."""
    whole = connection(940)
    stalled = with_samples(whole, tuple(replace(s, bytes=0) if 8 <= n < 20 else s for n, s in enumerate(whole.samples)))
    assert hash(whole) == hash(stalled)
    assert ruled([whole]).judgement.verdict is Verdict.PASS
    assert ruled([stalled]).judgement.verdict is not Verdict.PASS
    assert ruled([whole]).judgement.verdict is Verdict.PASS


def test_a_link_well_above_its_limit_passes_on_its_first_connection() -> None:
    ruling = ruled([connection(940)])
    assert (ruling.judgement.verdict, ruling.wanted, ruling.judgement.state) == (Verdict.PASS, None, "")
    assert ruling.judgement.stopped


def test_one_slow_connection_is_a_suspicion_that_requires_another() -> None:
    assert ruled([connection(800)]).wanted is not None


def test_a_regression_needs_fresh_connections() -> None:
    slow = [connection(800)]
    while ruled(slow).wanted is not None:
        slow.append(connection(800))
    assert len(slow) == STANDARD.fails_after
    ruling = ruled(slow)
    assert (ruling.judgement.verdict, ruling.judgement.state) == (Verdict.FAIL, "confirmed")
    assert ruling.judgement.interval is not None
    low, high = ruling.judgement.interval
    assert low < 800e6 < high < 900e6


def test_a_suspicion_requires_a_fresh_link_up_before_it_is_a_regression() -> None:
    assert Fresh.LINK in {ruled([connection(800)] * count).wanted for count in range(1, STANDARD.fails_after)}


def test_a_cleared_suspicion_is_marginal_and_the_reason_says_so() -> None:
    connections = [connection(880)]
    while ruled(connections).wanted is not None:
        connections.append(connection(938))
    ruling = ruled(connections)
    assert (ruling.judgement.verdict, ruling.judgement.state) == (Verdict.MARGINAL, "cleared")
    assert f"below the limit in 1 of {len(connections)} connections" in ruling.judgement.reason


def test_connections_after_the_decision_do_not_change_it() -> None:
    failed = [connection(800)] * STANDARD.fails_after
    assert ruled([*failed, *[connection(941)] * 5]).judgement.verdict is Verdict.FAIL


def test_noise_above_the_margin_is_inconclusive_at_the_end_of_the_budget() -> None:
    connections: list[Connection] = []
    for number in range(100):
        connections.append(connection(940 if number % 2 else 858))
        ruling = ruled(connections)
        if ruling.wanted is None:
            break
    assert ruling.judgement.verdict is Verdict.INCONCLUSIVE
    assert sum(one.traffic_seconds for one in connections) <= STANDARD.budget_s + 1e-6
    assert ruling.judgement.state == "undecided"


def test_above_the_physical_limit_is_a_measurement_error_at_once() -> None:
    ruling = ruled([connection(960)])
    assert (ruling.judgement.verdict, ruling.wanted) == (Verdict.INVALID, None)


def test_without_a_limit_a_run_has_the_connections_of_a_gate_that_suspects_a_regression() -> None:
    rulings = [ruled([connection(100)] * count, limit=None) for count in (1, 2, 3)]
    assert {ruling.judgement.verdict for ruling in rulings} == {Verdict.PASS}
    assert [ruling.wanted for ruling in rulings] == [Fresh.CONNECTION, Fresh.CONNECTION, None]


def test_an_excluded_connection_gives_no_value_and_requires_another() -> None:
    ruling = ruled([connection(100, excluded="link dropped for 2.1 s")])
    assert ruling.wanted is Fresh.CONNECTION
    ruling = ruled([connection(100, excluded="link dropped for 2.1 s"), connection(940)])
    assert ruling.judgement.verdict is Verdict.MARGINAL
    assert "link dropped for 2.1 s" in ruling.judgement.reason


@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        ([], None),
        ([True], Verdict.PASS),
        ([False], None),
        ([False, False], None),
        ([False, False, False], Verdict.FAIL),
        ([False, True, False], Verdict.FAIL),
        ([False, True, True], Verdict.MARGINAL),
    ],
)
def test_a_rule_missed_once_requires_another_connection(held: list[bool], verdict: Verdict | None) -> None:
    assert confirm(held, STANDARD) is verdict
    assert confirm(held[::-1], STANDARD) is verdict


def test_the_soak_profile_requires_two_connections_that_meet_a_rule() -> None:
    soak = replace(STANDARD, passes_after=2)
    assert confirm([True], soak) is None
    assert confirm([True, True], soak) is Verdict.PASS


@pytest.mark.parametrize("limit", [LIMIT, None])
def test_a_connection_that_other_work_disturbed_is_no_remark_on_the_link(limit: Limit | None) -> None:
    dropped = connection(940, excluded="the link dropped")
    beside = replace(dropped, excluded="other programs took 90 % of a CPU", beside_link=True)
    assert ruled([beside, connection(940)], limit).judgement.verdict is Verdict.PASS
    assert ruled([dropped, connection(940)], limit).judgement.verdict is Verdict.MARGINAL
    # It is not a value, either.
    assert ruled([beside], limit).wanted is not None


def test_a_reason_names_only_the_first_of_many_disturbances() -> None:
    left_out = [connection(800, excluded=f"other programs took {share} % of a CPU") for share in range(91, 97)]
    reason = ruled([*left_out, *[connection(800)] * STANDARD.fails_after]).judgement.reason
    assert reason.startswith(
        "other programs took 91 % of a CPU; other programs took 92 % of a CPU; other programs took 93 % of a CPU; "
        "and 3 more: 800.0 Mbit/s is "
    )
