"""The difference to a baseline: computed from runs, with both thresholds, and none for too few runs."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from pytest_pinet.judge.baseline import Baseline, Reference, compare
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import figures
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.traffic import Direction
from tests.support import link_stand_in

THREE = Tolerance(Share(0.03))


def runs(*mbps: float) -> tuple[Bitrate, ...]:
    return tuple(Bitrate.mbps(value) for value in mbps)


def baseline(*mbps: float) -> Baseline:
    return Baseline(Bitrate.mbps(fmean(mbps)), runs(*mbps), ("6.12.1",), "2026-11-21", "first")


STEADY = baseline(940, 941, 940, 939, 940)


def test_too_few_runs_are_not_gated() -> None:
    found = compare(runs(900, 900), baseline(940, 941), THREE)
    assert (found.result, found.why) == (Relation.NOT_GATED, "not gated: the baseline has 2 runs, but needs 5")
    assert found.change is None
    assert compare([], STEADY, THREE).result is Relation.NOT_GATED


@pytest.mark.parametrize(
    ("mbps", "result"),
    [
        (940, Relation.SAME),
        (931, Relation.SAME),
        (893, Relation.SLOWER),
        (1034, Relation.FASTER),
    ],
)
def test_a_steady_link_is_compared_by_its_runs(mbps: float, result: Relation) -> None:
    found = compare(runs(mbps - 1, mbps, mbps + 1), STEADY, THREE)
    assert found.result is result
    assert found.change == pytest.approx(mbps / 940 - 1, abs=0.001)
    assert found.interval is not None
    low, high = found.interval
    assert low < mbps / 940 - 1 < high


def test_wide_runs_are_inconclusive() -> None:
    assert compare(runs(880, 950), baseline(900, 980, 940, 960, 920), THREE).result is Relation.INCONCLUSIVE


def test_both_thresholds_must_be_exceeded() -> None:
    both = Tolerance(Share(0.03), Bitrate.mbps(50))
    assert compare(runs(900, 900, 900), STEADY, THREE).result is Relation.SLOWER
    assert compare(runs(900, 900, 900), STEADY, both).result is Relation.SAME
    assert compare(runs(880, 880, 880), STEADY, both).result is Relation.SLOWER
    assert both.lowest(Bitrate.mbps(940)) == Bitrate.mbps(890)
    assert both.lowest(Bitrate.mbps(10_000)) == Bitrate.mbps(9700)


def test_the_reason_has_the_difference_its_interval_and_the_runs() -> None:
    why = compare(runs(893, 894), STEADY, Tolerance(Share(0.03), Bitrate.mbps(20))).why
    assert why.startswith("slower: -4.9 % (-5.1 to -4.7 %), tolerance 3% and 20.0 Mbit/s; 2 runs against 5")


def test_the_interval_contains_the_true_value_as_often_as_claimed() -> None:
    values = random.Random(2)
    outside = 0
    for _ in range(1500):
        old = baseline(*(940 * math.exp(values.gauss(0, 0.02)) for _ in range(6)))
        new = runs(*(940 * math.exp(values.gauss(0, 0.02)) for _ in range(3)))
        found = compare(new, old, THREE, error_rate=0.05)
        assert found.interval is not None
        low, high = found.interval
        outside += not low < 0 < high
    # 5 % on each side.
    assert 0.08 < outside / 1500 < 0.12


@pytest.mark.parametrize("odd", [math.nan, math.inf, 0.0, -1.0])
def test_values_that_are_not_positive_do_not_count_as_runs(odd: float) -> None:
    assert compare((*runs(940), Bitrate(odd)), STEADY, THREE).result is Relation.SAME
    assert compare(runs(940), Baseline(STEADY.figure, (*runs(940, 940), *[Bitrate(odd)] * 5)), THREE).why == (
        "not gated: the baseline has 2 runs, but needs 5"
    )


def test_the_interval_of_a_result_has_the_error_rate_of_its_run() -> None:
    accepted = Baseline(Bitrate(940e6), tuple(Bitrate(bps) for bps in (930e6, 935e6, 940e6, 945e6, 950e6)))
    references = {Direction.TX: Reference(baseline=accepted)}
    tried = [link_stand_in.one_connection(link_stand_in.flow(payload=117_000_000))]

    def width(error_rate: float) -> float:
        plan = GatePlan((), PROFILES["fast"], references, error_rate=error_rate)
        found = figures(link_stand_in.facts(), link_stand_in.TX, tried, plan).directions[Direction.TX].baseline
        assert found is not None
        assert found.interval is not None
        low, high = found.interval
        return high - low

    assert width(0.2) < 0.5 * width(0.01)
