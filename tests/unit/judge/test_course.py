"""Connections are compared with the baseline's connections at the same place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_pinet.judge.baseline import ANY_TOLERANCE, Baseline, Reference, RunPlace, course_of, without_course
from pytest_pinet.judge.gate import GatePlan, Ruling, rule_on
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.spread import UNKNOWN
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import steady

PLAN = GatePlan([], PROFILES["standard"])
# Place of each connection of a suspicion: its number since the link-up, and the traffic before it.
SUSPECTED = ((1, 0), (2, 3), (1, 6))
FIRST_LOW = (902.0, 940.0, 940.0)


def baseline(runs: Sequence[Sequence[float]], places: Sequence[tuple[int, int]] = SUSPECTED) -> Baseline:
    """Return a baseline with a run on each day, of connections with these rates (Mbit/s) at these places."""
    rates, where = [], []
    for day, own in enumerate(runs):
        for rate, place in zip(own, places, strict=False):
            rates.append(Bitrate.mbps(rate * (1 + 0.0005 * (day % 3))))
            where.append(RunPlace(f"2026-11-{day + 1:02}", str(day), "1", *place))
    return Baseline(Bitrate.mbps(runs[0][0]), tuple(rates), places=tuple(where))


WITH_THREE = baseline([FIRST_LOW] * 6)


def gated(
    rates: Sequence[float], own: Baseline, begin: int = 1, before_s: int = 0, plan: GatePlan = PLAN
) -> tuple[Ruling, int]:
    """Gate a link whose connections have these rates, the last one for ever. Return the ruling and their number."""
    connections: list[Connection] = []
    wanted: Fresh | None = Fresh.CONNECTION
    number = begin - 1
    while wanted is not None:
        number = 1 if wanted is Fresh.LINK else number + 1
        one = steady(rates[min(len(connections), len(rates) - 1)], fresh=wanted)
        connections.append(replace(one, number=number, traffic_before_s=before_s + 3.0 * len(connections)))
        goodput = Bitrate(sum(one.goodput.bps for one in connections) / len(connections))
        oracle = Oracle(Bitrate.mbps(1e5), "none")
        ruling = rule_on(connections, goodput, goodput, oracle, ANY_TOLERANCE, plan, Reference(UNKNOWN, own))
        wanted = ruling.wanted
    return ruling, len(connections)


def test_a_first_connection_that_is_always_low_hides_no_regression() -> None:
    slower = [rate * 0.95 for rate in FIRST_LOW]
    for rates, verdict in ((FIRST_LOW, Verdict.PASS), (slower, Verdict.FAIL)):
        ruling, count = gated(rates, WITH_THREE)
        assert (ruling.judgement.verdict, count) == (verdict, 1 if verdict is Verdict.PASS else 3)


def test_throttling_that_the_baseline_knows_is_no_regression() -> None:
    throttled = baseline([(940.0, 865.0, 865.0)] * 6)
    assert gated([930.0, 856.0], throttled)[0].judgement.verdict in (Verdict.PASS, Verdict.MARGINAL)
    assert gated([940 * 0.95, 865 * 0.95], throttled)[0].judgement.verdict is Verdict.FAIL


def test_places_without_a_run_in_common_are_compared_by_their_days() -> None:
    """On some days, another test heats the board first: its runs begin after 36 s of traffic."""
    rates, where = [], []
    for day in range(8):
        for rate, place in ((940.0, (1, 0)), (902.0, (2, 36 + day % 3))):
            rates.append(Bitrate.mbps(rate * (1 + 0.0005 * (day % 3))))
            where.append(RunPlace(f"2026-11-{day + 1:02}", f"{day}-{rate}", "1", *place))
    own = Baseline(Bitrate.mbps(940), tuple(rates), places=tuple(where))
    assert [step.above for step in course_of(own).usual] == pytest.approx([0.0, math.log(902 / 940)], abs=1e-4)
    for rate, verdict in ((902.0, Verdict.PASS), (902 * 0.95, Verdict.FAIL)):
        assert gated([rate], own, begin=2, before_s=36)[0].judgement.verdict is verdict


def test_later_connections_than_the_baseline_has_clear_no_suspicion_if_they_differ() -> None:
    only_first = baseline([FIRST_LOW[:1]] * 8)
    ruling, count = gated([rate * 0.95 for rate in FIRST_LOW], only_first)
    # More traffic would not tell: it has no counterpart either.
    assert (ruling.judgement.verdict, count) == (Verdict.INCONCLUSIVE, 6)
    assert "rise by 4" in ruling.judgement.reason
    assert "no connection of the baseline came so late" in ruling.judgement.reason


def test_a_run_that_rises_all_the_time_clears_no_suspicion() -> None:
    rising = [940 * 0.95 * math.exp(0.006 * at) for at in range(20)]
    ruling, _ = gated(rising, baseline([(940.0,) * 3] * 6))
    assert ruling.judgement.verdict is Verdict.FAIL


def test_a_run_without_counterparts_passes_and_never_fails() -> None:
    """The test of the baseline was the second one of its run, and is the only one today."""
    later = baseline([(940.0,) * 3] * 6, ((4, 9), (5, 12), (1, 15)))
    for rates, end in (([940.0], (Verdict.PASS, 1)), ([700.0] * 3 + [940.0], (Verdict.PASS, 4))):
        ruling, count = gated(rates, later)
        assert (ruling.judgement.verdict, count) == end
    assert gated([940 * 0.95], later)[0].judgement.verdict is Verdict.FAIL


def test_a_test_far_before_all_of_the_baseline_needs_the_traffic_before_it() -> None:
    for after_s, end in ((81, Verdict.PASS), (141, Verdict.INCONCLUSIVE)):
        late = baseline([(940.0,) * 3] * 6, ((28, after_s), (29, after_s + 3), (30, after_s + 6)))
        ruling, count = gated([940.0], late)
        assert (ruling.judgement.verdict, count) == (end, 18 if end is Verdict.PASS else 1)
    assert "the baseline was measured after 141 s of other traffic, this run after 3 s" in ruling.judgement.reason
    # A board that throttles is not compared with itself before it was hot.
    throttling = baseline([(865.0, 850.0, 835.0)] * 6, ((4, 9), (5, 12), (6, 15)))
    assert gated([940.0, 940.0, 940.0, 865.0], throttling)[1] == 4


def test_a_place_counts_as_the_first_unless_its_connections_certainly_differ() -> None:
    flat = course_of(baseline([(940.0, 941.0, 939.0)] * 6))
    assert {step.above for step in flat.usual} == {0.0}
    few = course_of(baseline([FIRST_LOW] * 2))
    assert [(step.number, step.above) for step in few.usual] == [(1, 0.0)]
    known = course_of(WITH_THREE)
    assert [step.above for step in known.usual] == pytest.approx([0.0, math.log(940 / 902), math.log(940 / 902)])
    same = without_course(WITH_THREE, known)
    assert max(run.bps for run in same.runs) < 1.003 * min(run.bps for run in same.runs)


@pytest.mark.parametrize(
    ("place", "above"),
    [((1, 0.0), 0), ((2, 3.2), 1), ((1, 6.1), 2), ((2, 9.0), 1), ((7, 21.0), 1), ((None, None), 0)],
)
def test_the_counterpart_has_the_same_number_and_as_much_traffic_before_it(
    place: tuple[int | None, float | None], above: int
) -> None:
    course = course_of(baseline([(900.0, 940.0, 920.0)] * 6))
    found = course.counterpart(*place)
    assert found is not None
    assert found.above == course.usual[above].above


FIRST = (744, 798, 750, 741, 760, 744, 771, 755, 743, 790, 746, 762)
RESTLESS = baseline([(first, 800.0, 799.0) for first in FIRST], ((1, 0), (2, 3), (3, 6)))


def test_first_connections_that_differ_far_more_than_later_ones_decide_nothing() -> None:
    """The link saves energy in its first seconds: a lucky first connection hides a slower build."""
    assert course_of(RESTLESS).restless
    own = replace(RESTLESS, figure=Bitrate.mbps(800))
    for rates, end in (([798.0, 800.0], (Verdict.PASS, 2)), ([735.0, 800.0], (Verdict.PASS, 2))):
        ruling, count = gated(rates, own)
        assert (ruling.judgement.verdict, count) == end
    # Also after the link-up of a suspicion, and if later places differ.
    throttled = baseline([(first, 800.0, 776.0) for first in FIRST], ((1, 0), (2, 3), (3, 6)))
    for rates, same in (([760.0, 760.0, 798.0, 760.0], own), ([760.0, 737.0, 798.0, 760.0], throttled)):
        ruling, count = gated([798 * 0.95, *rates], replace(same, figure=Bitrate.mbps(800)))
        assert (ruling.judgement.verdict, count) == (Verdict.FAIL, 5)
    # No budget is left for another connection.
    short = replace(PLAN, profile=replace(PLAN.profile, budget_s=PLAN.profile.connection_s))
    ruling, _ = gated([860.0], own, plan=short)
    assert ruling.judgement.verdict is Verdict.INCONCLUSIVE
    assert "only first connections of link-ups were measured" in ruling.judgement.reason


@pytest.mark.parametrize(
    "runs",
    [
        # Later connections are on one of two levels by chance, but too few to tell.
        [(first, *[800.0] * (day < 11)) for day, first in enumerate((800, 760, 800, 760, 760, 800) * 2)],
        # First connections are on two levels, and seldom on the lower one.
        [(first, 800.0, 801.0) for first in (800, 801, 799, 760, 800, 801, 760, 800, 801, 799, 800, 801)],
        # All connections of a day share its level.
        [(level, level + 1, level - 1) for level in FIRST],
        [(first, 800.0, 801.0) for first in (752, 751, 753, 752, 750, 752) * 2],
    ],
)
def test_first_connections_count_unless_they_alone_differ(runs: list[tuple[float, ...]]) -> None:
    assert not course_of(baseline(runs, ((1, 0), (2, 3), (3, 6)))).restless
