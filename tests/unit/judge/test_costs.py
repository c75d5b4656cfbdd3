"""The cost of a Gbit: what counts for it, and a dearer build is found by it alone."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from pytest_pinet.judge.baseline import Baseline, RunPlace
from pytest_pinet.judge.costs import (
    COST_NOISE,
    JUDGED,
    KINDS,
    cost_figures,
    costs,
    judge_costs,
    judged_cost,
    why_unknown,
)
from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.spread import Noise
from pytest_pinet.judge.turns import ChangeRules, MeasuredTurn, Side, side
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import EndEvidence, OtherWork, ProcessorLoad, Program
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.limits import Origin, parse_arguments
from pytest_pinet.model.metric_key import CombinationId, MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import steady

CALIBRATED = dict.fromkeys(JUDGED, Noise(0.02, 20, 0.01, session_freedom=8))
RULES = ChangeRules(0.10, values=4)


def end(interrupts: int = 30_000, busy: float = 0.3, softirq: float = 0.1, **more: object) -> EndEvidence:
    """Return the evidence of a device under test with two processors, over 3 s of traffic."""
    loads = tuple(ProcessorLoad(cpu, busy, softirq=softirq) for cpu in range(2))
    values: dict[str, object] = {"window_s": 3.2, "traffic_s": 3.0, "machine": "board", "processors": loads}
    values |= {"interrupts": {"eth0": (interrupts, 0)}}
    return EndEvidence("pi4b-1:onboard", "eth0", **(values | more))  # type: ignore[arg-type]


PEER = EndEvidence("peer:onboard", "eth0", machine="peer")


def connection(own: EndEvidence, peer: EndEvidence = PEER) -> Connection:
    """Return a connection that moves 1 Gbit/s for 3 s."""
    return replace(steady(1000, 3.0), evidence=(own, peer))


def turns(count: int, b_costs: float, spread: float = 0.01, seed: int = 1) -> list[MeasuredTurn]:
    """Return turns whose costs scatter by ``spread``; the costs of B are ``b_costs`` times as high."""
    source = random.Random(seed)
    found = []
    for number in range(count):
        factor = (b_costs if side(number) is Side.B else 1.0) * source.gauss(1, spread)
        own = end(round(30_000 * factor), 0.3 * factor, 0.1 * factor)
        found.append(MeasuredTurn(side(number), number, (connection(own), connection(own))))
    return found


def judged(
    count: int, b_costs: float, noises: Mapping[str, Noise] = CALIBRATED, **more: float
) -> dict[str, Difference]:
    return judge_costs(turns(count, b_costs, **more), RULES, noises)  # type: ignore[arg-type]


def test_costs_are_those_of_the_device_under_test_for_each_gbit() -> None:
    found = costs(connection(end()))
    assert found["CPU ms per Gbit"] == pytest.approx(2 * 0.3 * 3.0 * 1000 / 3)
    assert found["softirq ms per Gbit"] == pytest.approx(2 * 0.1 * 3.0 * 1000 / 3)
    assert found["interrupts per Gbit"] == pytest.approx(30_000 / 3)


def test_a_hypervisor_and_other_programs_are_no_cost() -> None:
    own = end(others=OtherWork(0.2, (Program("make", 7, 0.2),)))
    loads = tuple(replace(load, busy=0.5, steal=0.02) for load in own.processors or ())
    found = costs(connection(replace(own, processors=loads)))
    assert found["CPU ms per Gbit"] == pytest.approx((2 * (0.5 - 0.02) * 3.0 - 0.2 * 3.2) * 1000 / 3)


def test_counters_of_several_connections_are_no_cost_of_one() -> None:
    assert costs(connection(end(first_connection=2))) == {}


@pytest.mark.parametrize(
    ("own", "peer", "why"),
    [
        (end(), PEER, ""),
        (end(), replace(PEER, machine="board"), "the nodes share one kernel"),
        (replace(end(), processors=None, interrupts=None), PEER, "did not report its processor time"),
        (end(others=OtherWork(0.8, (Program("make", 7, 0.8),))), PEER, "other programs took 80 % of a CPU of pi4b-1"),
    ],
)
def test_a_cost_that_is_not_known_says_why(own: EndEvidence, peer: EndEvidence, why: str) -> None:
    one = connection(own, peer)
    assert why in why_unknown([one])
    assert bool(why_unknown([one])) is bool(why)
    assert (judged_cost(one, "interrupts-per-gbit") is None) is bool(why)


def test_other_work_at_the_peer_is_no_reason_to_leave_a_cost_out() -> None:
    busy = replace(PEER, others=OtherWork(0.8, (Program("make", 7, 0.8),)))
    assert why_unknown([connection(end(), busy)]) == ""


def test_one_known_connection_is_enough_to_know_a_cost() -> None:
    assert why_unknown([connection(end()), steady(1000)]) == ""


def test_a_dearer_build_is_found_with_the_turns_of_goodput_on_a_calibrated_bench() -> None:
    found = judged(6, 1.24)
    assert {one.result for one in found.values()} == {Relation.SLOWER}
    one = found["interrupts-per-gbit"]
    assert one.why.startswith("dearer, certain after 6 turns: B takes 2")
    assert " % more interrupts per Gbit than A (+" in one.why
    assert one.change == pytest.approx(0.24, abs=0.03)
    assert one.interval is not None
    assert one.interval[0] < 0.24 < one.interval[1]


def test_without_a_calibration_boots_of_two_kinds_are_excluded_first() -> None:
    assert {one.result for one in judged(8, 1.24, {}).values()} == {Relation.GO_ON}
    assert {one.result for one in judged(9, 1.24, {}).values()} == {Relation.SLOWER}


def test_an_unchanged_build_is_not_dearer() -> None:
    found = judged(6, 1.0)
    assert {one.result for one in found.values()} == {Relation.SAME}
    assert all(one.why.startswith("not dearer, certain after 6 turns") for one in found.values())


def test_a_cheaper_build_is_an_improvement() -> None:
    (why,) = {one.why.partition(":")[0] for one in judged(6, 0.75).values()}
    assert why == "cheaper, certain after 6 turns"


def test_costs_that_scatter_stay_undecided() -> None:
    found = judged(9, 1.1, {}, spread=0.15)
    assert not {Relation.SLOWER, Relation.SAME} & {one.result for one in found.values()}


def test_a_cost_of_nothing_is_not_judged() -> None:
    made = [MeasuredTurn(side(n), n, (connection(end(softirq=0.0)),)) for n in range(6)]
    assert set(judge_costs(made, RULES, {})) == {"cpu-per-gbit", "interrupts-per-gbit"}


def test_connections_with_other_work_are_left_out() -> None:
    made = turns(6, 1.0)
    busy = end(90_000, 0.9, others=OtherWork(0.8, (Program("make", 7, 0.8),)))
    made = [
        replace(one, connections=(*one.connections, connection(busy))) if one.side is Side.B else one for one in made
    ]
    found = judge_costs(made, RULES, CALIBRATED)
    assert {one.result for one in found.values()} == {Relation.SAME}


def test_the_assumed_noise_is_no_calibration() -> None:
    assert COST_NOISE.assumed


KEY = MetricKey(CombinationId("pi4b", "onboard", "pair"), Traffic(Direction.TX), Direction.TX)
COST = KINDS["interrupts-per-gbit"]


def baseline(spread: float = 0.02, days: int = 8) -> Baseline:
    """Return the accepted interrupts of so many boots on different days, two connections in each."""
    source = random.Random(3)
    runs, places = [], []
    for number in range(days):
        level = 10_000 * source.gauss(1, spread)
        for _ in range(2):
            runs.append(Bitrate(COST.rate(level * source.gauss(1, 0.01))))
            places.append(RunPlace(f"2026-09-{number + 1:02}", f"boot{number}"))
    return Baseline(Bitrate(COST.rate(10_000)), tuple(runs), places=tuple(places))


def plain(own: EndEvidence, known: Baseline | None = None, **limits: object) -> dict[str, FigureJudgement]:
    """Judge a plain run of two connections, with an accepted baseline of its interrupts."""
    plan = GatePlan(parse_arguments(limits, Origin.CALL), PROFILES["standard"])
    plan = replace(plan, costs={COST.name: known} if known is not None else {})
    return cost_figures([connection(own), connection(own)], plan, KEY)


def test_costs_of_a_plain_run_are_values_with_a_unit_and_without_a_verdict() -> None:
    found = plain(end())
    assert {name: (one.unit, one.better, one.verdict) for name, one in found.items()} == {
        "cpu-per-gbit": ("ms/Gbit", "down", Verdict.PASS),
        "softirq-per-gbit": ("ms/Gbit", "down", Verdict.PASS),
        "interrupts-per-gbit": ("/Gbit", "down", Verdict.PASS),
    }
    assert found["interrupts-per-gbit"].values == pytest.approx((10_000, 10_000))
    assert {one.limit for one in found.values()} == {None}


def test_nodes_of_one_kernel_have_no_cost() -> None:
    assert cost_figures([connection(end(), replace(PEER, machine="board"))], GatePlan((), PROFILES["fast"]), KEY) == {}


@pytest.mark.parametrize(
    ("interrupts", "spread", "verdict"),
    [(30_000, 0.02, "pass"), (39_000, 0.02, "fail"), (33_500, 0.02, "inconclusive"), (36_000, 0.08, "inconclusive")],
)
def test_a_cost_is_judged_by_its_baseline_if_the_boots_of_the_baseline_allow_it(
    interrupts: int, spread: float, verdict: str
) -> None:
    found = plain(end(interrupts), baseline(spread))
    assert found["cpu-per-gbit"].limit is None
    one = found[COST.name]
    assert one.limit is not None
    assert (one.verdict, one.limit.words) == (verdict, "10% above the baseline 10000/Gbit")
    assert one.reason.endswith("; baseline of 8 boots or link-ups")


def test_a_dearer_run_names_its_baseline_and_the_tolerance_can_be_set() -> None:
    one = plain(end(39_000), baseline())[COST.name]
    assert one.reason.startswith(
        "interrupts-per-gbit 13000/Gbit is above the limit 11000/Gbit; the baseline is 10000/Gbit (+30.0 %)"
    )
    assert plain(end(39_000), baseline(), cost_tolerance="50%")[COST.name].verdict is Verdict.PASS


def test_an_unchanged_board_is_not_called_dearer() -> None:
    source, failed = random.Random(11), 0
    for _ in range(300):
        own = end(round(30_000 * source.gauss(1, 0.02)))
        failed += plain(own, baseline())[COST.name].verdict is Verdict.FAIL
    assert failed == 0
