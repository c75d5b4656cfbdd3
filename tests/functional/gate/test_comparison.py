"""Two states of a real link, measured alternately: a difference is found, and states never overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.rate_shaper import is_reduced, reduced
from pytest_pinet.measure.comparison import State, StateComparison, compare
from pytest_pinet.measure.traffic_runner import MeasureContext
from pytest_pinet.model.record.change import ComparisonRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from tests.support.gate_project import GateLab
from tests.support.visited_link import GOODPUT, rates, shapers, visited

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opened(full_rate_lab: GateLab) -> Iterator[tuple[LabAccess, Link]]:
    with visited(full_rate_lab) as found:
        yield found


def shaped(link: Link, part: Callable[[], float]) -> Callable[[], AbstractContextManager[object]]:
    return lambda: reduced(link.peer, rates(link, part(), part()), 60)


def compared(opened: tuple[LabAccess, Link], a: State, b: State) -> ComparisonRecord:
    here, link = opened
    traffic = Traffic(Direction.TX, duration_s=2.0, warmup_s=None)
    with here.measuring(link.combination):
        return compare(MeasureContext(link, here.tool), StateComparison(traffic, (a, b), most_pairs=6))


def order(record: ComparisonRecord) -> str:
    return "".join(turn.side for turn in record.turns)


def test_a_slower_state_is_found_and_every_run_is_kept(opened: tuple[LabAccess, Link], full_rate_lab: GateLab) -> None:
    link = opened[1]
    record = compared(opened, State("as it is"), State("slower", shaped(link, lambda: 0.6)))
    assert (record.id, record.a, record.b) == ("pi3b:onboard/pair/tcp-P1-tx", "as it is", "slower")
    found = record.directions["tx"]
    assert found.verdict is Verdict.FAIL
    assert found.change == pytest.approx(-0.4, abs=0.1)
    assert found.change is not None
    assert found.interval is not None
    low, high = found.interval
    assert low < found.change < high < 0
    assert 0.8 * GOODPUT.bps < found.a_bps < 1.005 * GOODPUT.bps
    assert order(record) == "ABBABAAB"[: len(record.turns)]
    assert record.pairs == len(record.turns) // 2
    assert record.traffic_seconds == pytest.approx(3.0 * len(record.turns), rel=0.3)
    assert shapers(full_rate_lab) == []


def test_a_state_that_cannot_be_entered_ends_it_and_leaves_the_other_one(opened: tuple[LabAccess, Link]) -> None:
    link = opened[1]

    def impossible() -> AbstractContextManager[object]:
        assert not is_reduced(link.peer), "the other state was not left first"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        compared(opened, State("slower", shaped(link, lambda: 0.9)), State("broken", impossible))
    assert not is_reduced(link.peer)
