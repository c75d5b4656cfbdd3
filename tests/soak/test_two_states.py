"""Two states of a real link are measured alternately and compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.rate_shaper import reduced
from pytest_pinet.measure.comparison import State, StateComparison, compare
from pytest_pinet.measure.traffic_runner import MeasureContext
from pytest_pinet.model.record.change import ComparisonRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from tests.support.gate_project import GateLab
from tests.support.visited_link import rates, visited

# Relative change per second: 1.5 % in the time of two pairs, which is half of the tolerance.
DRIFT = 0.001
RUNS = 10


@pytest.fixture
def opened(gate_lab: GateLab) -> Iterator[tuple[LabAccess, Link]]:
    with visited(gate_lab) as found:
        yield found


def shaped(link: Link, part: Callable[[], float]) -> Callable[[], AbstractContextManager[object]]:
    return lambda: reduced(link.peer, rates(link, part(), part()), 60)


def compared(opened: tuple[LabAccess, Link], a: State, b: State, way: Direction = Direction.TX) -> ComparisonRecord:
    here, link = opened
    traffic = Traffic(way, duration_s=2.0, warmup_s=None)
    with here.measuring(link.combination):
        return compare(MeasureContext(link, here.tool), StateComparison(traffic, (a, b), most_pairs=6))


def drifting(begin: float) -> Callable[[], float]:
    """Return a function that gives a share of the rate, which falls or rises evenly from now on."""
    started = time.monotonic()
    slope = -DRIFT if begin > 0.95 else DRIFT
    return lambda: begin + slope * (time.monotonic() - started)


@pytest.mark.soak("A comparison of a link with itself finds no difference above 1 %.", runs=RUNS)
def test_the_same_state_twice(opened: tuple[LabAccess, Link]) -> None:
    record = compared(opened, State("one"), State("two"), Direction.RX)
    assert record.directions["rx"].verdict is Verdict.PASS
    assert record.directions["rx"].change == pytest.approx(0.0, abs=0.01)


@pytest.mark.soak("A comparison detects a state that is 5 % slower, and measures the change within 1 %.", runs=RUNS)
def test_five_percent(opened: tuple[LabAccess, Link]) -> None:
    record = compared(opened, State("as it is"), State("slower", shaped(opened[1], lambda: 0.95)))
    assert record.directions["tx"].verdict is Verdict.FAIL
    assert record.directions["tx"].change == pytest.approx(-0.05, abs=0.01)


@pytest.mark.soak("A comparison finds no difference if both states drift by 0.1 % per second.", runs=RUNS)
def test_drift_alone(opened: tuple[LabAccess, Link]) -> None:
    both = shaped(opened[1], drifting(0.98))
    record = compared(opened, State("one", both), State("two", both))
    assert record.directions["tx"].verdict is Verdict.PASS
    values = [turn.connections["tx"].goodput_bps for turn in record.turns]
    assert values[-1] < 0.993 * values[0], "nothing drifted"


@pytest.mark.soak(
    "A comparison measures a state that is 5 % slower within 1 %, even if both drift by 0.1 % per second.", runs=RUNS
)
def test_five_percent_and_drift(opened: tuple[LabAccess, Link]) -> None:
    rate = drifting(0.90)
    link = opened[1]
    record = compared(opened, State("one", shaped(link, rate)), State("two", shaped(link, lambda: 0.95 * rate())))
    assert record.directions["tx"].verdict is Verdict.FAIL
    assert record.directions["tx"].change == pytest.approx(-0.05, abs=0.01)
