"""Two states of a real link in turn: a difference is found, none is not made up, and drift of both fools nobody."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from gate_bench import GateLab
from visiting_bench import GOODPUT, rates, shapers, visited

from pytest_pinet.comparing import Plan, State, compare
from pytest_pinet.lab.link import Link
from pytest_pinet.lab.reduction import is_reduced, reduced
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.report.comparison import ComparisonRecord
from pytest_pinet.visiting import Visit

pytestmark = pytest.mark.slow

# Of the rate per second: 1.5 % in the time that two pairs take, which is half of the tolerance.
DRIFT = 0.001
SIX_PAIRS = Plan(most_pairs=6)


@pytest.fixture(scope="module")
def opened(gate_lab: GateLab) -> Iterator[tuple[Visit, Link]]:
    with visited(gate_lab) as found:
        yield found


def shaped(link: Link, part: Callable[[], float]) -> Callable[[], AbstractContextManager[object]]:
    return lambda: reduced(link.peer, rates(link, part(), part()), 60)


def compared(opened: tuple[Visit, Link], a: State, b: State, way: Direction = Direction.TX) -> ComparisonRecord:
    here, link = opened
    traffic = Traffic(way, duration_s=2.0, warmup_s=None)
    with here.measuring(link.combination):
        return compare(link, traffic, a, b, here.tool, SIX_PAIRS)


def order(record: ComparisonRecord) -> str:
    return "".join(run["side"] for run in record["runs"])


def test_five_percent_are_found_and_every_run_is_kept(opened: tuple[Visit, Link], gate_lab: GateLab) -> None:
    link = opened[1]
    record = compared(opened, State("as it is"), State("slower", shaped(link, lambda: 0.95)))
    assert record["result"] == "slower"
    assert (record["id"], record["a"], record["b"]) == ("pi3b:onboard/pair/tcp-P1-tx", "as it is", "slower")
    found = record["directions"]["tx"]
    assert found["change"] == pytest.approx(-0.05, abs=0.01)
    assert found["change"] is not None
    assert found["interval"] is not None
    low, high = found["interval"]
    assert low < found["change"] < high < 0
    assert found["a_bps"] == pytest.approx(GOODPUT.bps, rel=0.01)
    assert order(record) == "ABBABAAB"[: len(record["runs"])]
    assert record["pairs"] == len(record["runs"]) // 2
    assert record["traffic_seconds"] == pytest.approx(3.0 * len(record["runs"]), rel=0.1)
    assert shapers(gate_lab) == []


@pytest.mark.soak
def test_the_same_state_twice_is_not_slower(opened: tuple[Visit, Link]) -> None:
    record = compared(opened, State("one"), State("two"), Direction.RX)
    assert record["result"] == "same"
    assert record["directions"]["rx"]["change"] == pytest.approx(0.0, abs=0.01)


def test_drift_of_both_states_is_not_taken_for_a_difference(opened: tuple[Visit, Link]) -> None:
    link = opened[1]
    begun = time.monotonic()

    def drifting() -> float:
        return 0.98 - DRIFT * (time.monotonic() - begun)

    record = compared(opened, State("one", shaped(link, drifting)), State("two", shaped(link, drifting)))
    assert record["result"] == "same"
    figures = [run["goodput_bps"]["tx"] for run in record["runs"]]
    assert figures[-1] < 0.993 * figures[0], "nothing drifted"


@pytest.mark.soak
def test_a_difference_is_found_in_spite_of_drift(opened: tuple[Visit, Link]) -> None:
    link = opened[1]
    begun = time.monotonic()

    def drifting() -> float:
        return 0.90 + DRIFT * (time.monotonic() - begun)

    a = State("one", shaped(link, drifting))
    b = State("two", shaped(link, lambda: 0.95 * drifting()))
    record = compared(opened, a, b)
    assert record["result"] == "slower"
    assert record["directions"]["tx"]["change"] == pytest.approx(-0.05, abs=0.01)


def test_a_state_that_cannot_be_entered_ends_it_and_leaves_the_other_one(opened: tuple[Visit, Link]) -> None:
    link = opened[1]

    def impossible() -> AbstractContextManager[object]:
        assert not is_reduced(link.peer), "the other state was not left first"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        compared(opened, State("slower", shaped(link, lambda: 0.9)), State("broken", impossible))
    assert not is_reduced(link.peer)
