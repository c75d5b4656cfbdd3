"""Boots of two builds as measured: one stall does not make a build slower, repeated stalls do."""

from __future__ import annotations

from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.spread import Noise
from pytest_pinet.judge.turns import ChangeRules, MeasuredTurn, Side, judge_boots, side
from pytest_pinet.model.connection import Connection
from tests.support.judge_connections import connection_of, steady, with_dips

RULES = ChangeRules(noise=Noise(0.002, 20, 0.001, session_freedom=6))
STALLED = with_dips(940, [(1.0, 0.8, 0.0)])


def boots(of_a: list[Connection], of_b: list[Connection], count: int = 6) -> list[MeasuredTurn]:
    """Return boots of both sides alternately. Each uses the next of its connections, cyclically."""
    made: list[MeasuredTurn] = []
    for turn in range(count):
        own = of_a if side(turn) is Side.A else of_b
        place = sum(boot.side is side(turn) for boot in made)
        made.append(MeasuredTurn(side(turn), turn, (own[place % len(own)],)))
    return made


def test_levels_of_connections_decide() -> None:
    assert judge_boots(boots([steady(940)], [steady(941)]), RULES).result is Relation.SAME
    assert judge_boots(boots([steady(940)], [steady(915)]), RULES).result is Relation.SLOWER


def test_one_stall_of_three_connections_is_not_a_slower_build() -> None:
    found = judge_boots(boots([steady(940)], [STALLED, steady(940), steady(940)]), RULES)
    assert found.result is Relation.SAME


def test_repeated_stalls_make_a_build_slower() -> None:
    found = judge_boots(boots([steady(940)], [STALLED], 8), RULES)
    assert found.result is Relation.SLOWER
    assert "connections of B stall" in found.why


def test_stalls_of_both_builds_do_not_count_against_b() -> None:
    assert judge_boots(boots([STALLED], [STALLED]), RULES).result is Relation.SAME


def test_a_connection_without_a_value_is_ignored() -> None:
    dropped = connection_of([940] * 20, excluded="the link went down")
    made = boots([steady(940)], [steady(900)], 7)
    made[1] = MeasuredTurn(Side.B, 1, (dropped,))
    found = judge_boots(made, RULES)
    assert (found.result, found.count) == (Relation.SLOWER, 6)
