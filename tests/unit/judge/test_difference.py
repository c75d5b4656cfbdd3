"""State or build B is judged against A by direction. The worst direction is the verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_pinet.judge.difference import AgainstA, Difference, Relation, judge_against_a
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict
from tests.support.link_stand_in import judged

TX, RX = Direction.TX, Direction.RX
SLOWER = AgainstA(
    "old", Bitrate(900e6), Bitrate(800e6), 0.03, Verdict.FAIL, "new against old: slower", "slower", (-0.2, -0.1)
)
SAME = replace(SLOWER, b=Bitrate(900e6), verdict=Verdict.PASS, reason="new against old: same", interval=None)


def own(**verdicts: Verdict) -> MeasurementJudgement:
    directions = {Direction(way): judged(850e6, verdict=verdict) for way, verdict in verdicts.items()}
    return MeasurementJudgement(Verdict.PASS, "", directions)


def test_b_has_a_limit_from_a() -> None:
    direction = judge_against_a(own(tx=Verdict.PASS), {TX: SLOWER}).directions[TX]
    assert direction.goodput == Bitrate(800e6)
    assert direction.limit is not None
    assert direction.limit.number == pytest.approx(873e6)
    assert str(direction.limit) == "3% below old, measured alternately"
    assert direction.interval == pytest.approx((720e6, 810e6))
    assert (direction.verdict, direction.reason) == (Verdict.FAIL, "new against old: slower")


def test_the_worse_direction_is_the_verdict() -> None:
    found = judge_against_a(own(tx=Verdict.PASS, rx=Verdict.PASS), {TX: SAME, RX: SLOWER})
    assert (found.verdict, found.reason) == (Verdict.FAIL, "rx: new against old: slower")
    assert found.directions[TX].verdict is Verdict.PASS


def test_a_value_above_the_physical_limit_stays_invalid() -> None:
    found = judge_against_a(own(tx=Verdict.INVALID), {TX: SAME})
    assert found.verdict is Verdict.INVALID
    assert found.directions[TX].limit is not None


def test_an_undecided_comparison_is_inconclusive_when_it_ends() -> None:
    undecided = Difference(Relation.GO_ON, "3 pairs")
    assert (undecided.decided, undecided.verdict) == (False, Verdict.INCONCLUSIVE)
    assert undecided.given_up() == Difference(Relation.INCONCLUSIVE, "undecided: 3 pairs")
    decided = Difference(Relation.SLOWER, "8 pairs")
    assert decided.given_up() is decided
