"""Slow starts: they do not count, whatever their length, and the gate measures longer until the level shows."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from pytest_pinet.judge.baseline import ANY_TOLERANCE, Baseline, Reference, RunPlace
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.gate import GatePlan, Ruling, rule_on
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.starts import Started, settle, shows_level, started
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.measurement import EventKind
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import single
from tests.support.throughput_samples import series

DAYS = tuple(RunPlace(f"2026-11-{day:02}") for day in range(1, 9))
BASELINE = Baseline(Bitrate.mbps(940), (Bitrate.mbps(940),) * 8, places=DAYS)
PLAN = GatePlan([], PROFILES["standard"], link_ups=False)


def starting(mbps: float, start_s: float, seconds: int, source: random.Random, jump: bool = False) -> Connection:
    """Return a connection that rises to this rate, or that jumps to it from 60 %."""
    count = round(start_s * 10)
    start = [0.6] * count if jump else [0.3 + 0.7 * index / count for index in range(count)]
    shares = [*start, *[1.0] * (10 * seconds)][: 10 * seconds]
    samples = series([mbps * share * source.gauss(1, 0.005) for share in shares])
    return single(settle(samples), Fresh.CONNECTION, find_events(samples))


def ruled(connections: Sequence[Connection], baseline: Baseline = BASELINE) -> Ruling:
    showing = shows_level([started(one.events, one.samples) for one in connections])
    shown = [one for one, own in zip(connections, showing, strict=True) if own] or connections
    counted = [sample for connection in shown for sample in connection.counted]
    goodput = Bitrate(sum(s.bytes for s in counted) * 8 / sum(s.seconds for s in counted))
    oracle = Oracle(Bitrate.mbps(1e5), "none")
    return rule_on(connections, goodput, goodput, oracle, ANY_TOLERANCE, PLAN, Reference(baseline=baseline))


def gate(mbps: float, source: random.Random, jump: bool = False) -> tuple[Verdict, list[Connection]]:
    connections: list[Connection] = []
    seconds = PLAN.profile.connection_s
    while True:
        connections.append(starting(mbps, source.uniform(1.2, 4), seconds, source, jump))
        ruling = ruled(connections)
        if ruling.wanted is None:
            return ruling.judgement.verdict, connections
        seconds = ruling.wanted_s or PLAN.profile.connection_s


@pytest.mark.parametrize("jump", [False, True], ids=["ramp", "jump"])
@pytest.mark.parametrize(("mbps", "expected"), [(940, Verdict.PASS), (893, Verdict.FAIL)])
def test_a_link_with_slow_starts_is_judged_by_its_level(mbps: float, expected: Verdict, jump: bool) -> None:
    source = random.Random(f"{mbps}{jump}")
    verdicts = [gate(mbps, source, jump)[0] for _ in range(40)]
    assert verdicts.count(expected) >= 36
    wrong = {Verdict.PASS, Verdict.MARGINAL} if expected is Verdict.FAIL else {Verdict.FAIL}
    assert not wrong & set(verdicts)


def test_a_connection_that_is_all_start_gives_no_value_and_makes_the_next_one_longer() -> None:
    source = random.Random(1)
    first = starting(940, 3.8, 3, source)
    assert [event.kind for event in first.events] == [EventKind.SLOW_START]
    assert first.events[0].text == "slow start: the rate still rose when the connection ended after 3.0 s"
    ruling = ruled([first])
    assert (ruling.wanted, ruling.wanted_s) == (Fresh.CONNECTION, 6)
    final = ruled([first, starting(940, 3.8, 6, source)])
    assert final.wanted is None
    assert final.judgement.verdict is Verdict.PASS
    assert "slow starts of up to 3." in final.judgement.stopped


def test_a_slow_start_passes_plainly_so_that_it_can_be_accepted() -> None:
    found = ruled([starting(940, 1.6, 3, random.Random(2))])
    assert found.judgement.verdict is Verdict.PASS


def test_a_run_without_a_limit_ends_although_its_starts_are_longer_than_its_connections() -> None:
    source = random.Random(4)
    made: list[Connection] = []
    wanted, seconds = True, 3
    while wanted:
        assert len(made) < 12
        made.append(starting(940, 3.8, seconds, source))
        goodput = made[-1].goodput
        plan = GatePlan([], PROFILES["standard"], link_ups=False)
        ruling = rule_on(made, goodput, goodput, Oracle(Bitrate.mbps(1e5), "none"), None, plan, Reference())
        wanted, seconds = ruling.wanted is not None, ruling.wanted_s or 3
    assert ruling.judgement.verdict is Verdict.PASS
    assert made[0].seconds < made[-1].seconds


def test_one_slow_start_among_many_connections_hides_only_what_is_far_below_all() -> None:
    # By chance, one connection of a noisy link begins slowly and is 14 % faster than the others.
    odd, usual, low = Started(1.0, True, 1075e6, 3.0), Started(0.0, True, 940e6, 3.0), Started(0.0, True, 565e6, 2.5)
    assert shows_level([odd, *[usual] * 9]) == [True] * 10
    assert shows_level([odd, *[usual] * 7, low, low]) == [*[True] * 8, False, False]
