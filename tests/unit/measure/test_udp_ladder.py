"""A ladder of UDP rates: where it stops, its knee, and its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from pytest_pinet.judge.circumstances import Circumstances
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import figures
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.measure.traffic_runner import Runs
from pytest_pinet.measure.udp_ladder import Ladder
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, LadderTraffic, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.sentences import ladder_text
from tests.support import link_stand_in
from tests.support.link_stand_in import flow, one_connection

FAST = PROFILES["fast"]
RATES = (10, 50, 90, 120)


class Wire:
    """A wire with a limited rate that loses the rest. Loss per rate (Mbit/s) and connection can be set."""

    def __init__(self, lost: Mapping[int, Sequence[float]], reached: Callable[[int], float] = lambda rate: 1.0) -> None:
        self._lost = lost
        self._reached = reached
        self.connections: list[Connection] = []
        self.sent: list[int] = []

    def again(self, traffic: Traffic) -> Connection:
        assert traffic.bitrate is not None
        rate = round(traffic.bitrate.bps / 1e6)
        each = self._lost.get(rate, (0.0,))
        part = each[min(self.sent.count(rate), len(each) - 1)]
        self.sent.append(rate)
        packets = 100_000
        payload = round(rate * 1e6 / 8 * self._reached(rate) * (1 - part))
        self.connections.append(
            one_connection(flow(payload=payload, lost=(round(part * packets), packets)), traffic=traffic)
        )
        return self.connections[-1]


def climb(wire: Wire, loss: float = 0.001) -> Ladder:
    rates = tuple(Bitrate.mbps(rate) for rate in RATES)
    traffic = LadderTraffic(Direction.TX, True, bitrate=rates[-1], rates=rates, loss=loss)
    ladder = Ladder(traffic, FAST)
    ladder.measure(cast(Runs, wire))
    return ladder


def test_the_knee_is_the_highest_rate_with_little_loss() -> None:
    wire = Wire({90: (0.0005,), 120: (0.25,)})
    ladder = climb(wire)
    # A rate with loss is sent again before the loss is accepted.
    assert wire.sent == [10, 50, 90, 120, 120]
    record = ladder.record()
    assert record.knee_bps == 90e6
    assert [step.held for step in record.steps] == [True, True, True, False]
    assert [step.connections for step in record.steps] == [1, 1, 1, 2]
    assert record.steps[3].loss == pytest.approx(0.25)
    connections, sent = ladder.judged
    assert connections == [wire.connections[2]]
    assert sent.bitrate == Bitrate.mbps(90)
    assert ladder_text(record) == (
        "90.0 Mbit/s is the highest of 4 rates held with at most 0.1 % lost; at 120.0 Mbit/s 25 % were lost"
    )


def test_one_missed_try_does_not_end_the_ladder() -> None:
    wire = Wire({50: (0.02, 0.0)})
    ladder = climb(wire)
    assert wire.sent.count(50) == FAST.fails_after
    # One of two connections is less than two thirds.
    assert ladder.record().knee_bps == 120e6
    assert ladder_text(ladder.record()).endswith("and also the highest rate tried")


def test_a_rate_that_the_sender_does_not_reach_fails() -> None:
    ladder = climb(Wire({}, reached=lambda rate: min(1.0, 94 / rate)))
    record = ladder.record()
    assert record.knee_bps == 90e6
    assert record.steps[3].loss == 0
    assert not record.steps[3].reached
    assert ladder_text(record).endswith("at 120.0 Mbit/s the sender could not send all packets")


def test_a_ladder_fails_if_no_rate_is_held() -> None:
    wire = Wire({10: (0.5,)})
    ladder = climb(wire)
    assert ladder.knee is None
    connections, sent = ladder.judged
    assert sent.bitrate == Bitrate.mbps(10)
    plan = GatePlan((), FAST)
    found = figures(link_stand_in.facts(), ladder.traffic, connections, plan, Circumstances(lossy_ladder=ladder.lossy))
    assert found.verdict is Verdict.FAIL
    assert found.wanted is None
    assert found.reason == "tx: none of 1 rates was held with at most 0.1 % lost"
    assert ladder.record().knee_bps is None


def test_a_ladder_with_a_knee_is_judged_by_its_goodput() -> None:
    ladder = climb(Wire({120: (0.25,)}))
    found = figures(link_stand_in.facts(), ladder.traffic, ladder.judged[0], GatePlan((), FAST))
    assert ladder.lossy == ""
    assert found.directions[Direction.TX].goodput.bps == pytest.approx(90e6)


def test_a_later_miss_must_be_confirmed() -> None:
    ladder = climb(wire := Wire({10: (0.0, 0.5), 50: (0.5,)}))
    connections, sent = ladder.judged
    # Its goodput was uncertain, so it is sent again, and loses half.
    for held in (True, False):
        connections.append(wire.again(sent))
        assert (ladder.knee is not None) is held
        found = figures(
            link_stand_in.facts(),
            ladder.traffic,
            connections,
            GatePlan((), FAST),
            Circumstances(lossy_ladder=ladder.lossy),
        )
        assert (found.verdict is Verdict.FAIL) is not held


def test_the_accepted_loss_can_be_larger() -> None:
    assert climb(Wire({120: (0.25,)}), loss=0.3).record().knee_bps == 120e6


def test_tries_with_a_dropped_link_are_not_counted() -> None:
    wire = Wire({})
    again = wire.again

    def dropped(traffic: Traffic) -> Connection:
        one = again(traffic)
        return replace(one, excluded="the link went down") if len(wire.sent) == 1 else one

    wire.again = dropped  # type: ignore[method-assign]
    ladder = climb(wire)
    assert wire.sent == [10, 10, 50, 90, 120]
    assert ladder.record().steps[0].connections == 2
