"""Two states of a real link, measured alternately: a difference is found, and states never overlap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.rate_shaper import is_reduced, reduced
from pytest_pinet.measure.comparison import State, StateComparison, compare
from pytest_pinet.measure.traffic_runner import MeasureContext
from pytest_pinet.model.traffic import Direction, Traffic
from tests.support.gate_project import GateLab
from tests.support.visited_link import rates, visited

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opened(full_rate_lab: GateLab) -> Iterator[tuple[LabAccess, Link]]:
    with visited(full_rate_lab) as found:
        yield found


def test_a_state_that_cannot_be_entered_ends_it_and_leaves_the_other_one(opened: tuple[LabAccess, Link]) -> None:
    here, link = opened

    def impossible() -> AbstractContextManager[object]:
        assert not is_reduced(link.peer), "the other state was not left first"
        raise ZeroDivisionError

    states = (State("slower", lambda: reduced(link.peer, rates(link, 0.9, 0.9), 60)), State("broken", impossible))
    traffic = Traffic(Direction.TX, duration_s=2.0, warmup_s=None)
    with pytest.raises(ZeroDivisionError), here.measuring(link.combination):
        compare(MeasureContext(link, here.tool), StateComparison(traffic, states, most_pairs=6))
    assert not is_reduced(link.peer)
