"""Sums and medians over several connections of several flows."""

from __future__ import annotations

import pytest

from pytest_pinet.judge.flows import least_since_start, pooled, sum_of
from pytest_pinet.model.connection import Connection, Fresh, MeasuredFlow, together
from pytest_pinet.model.measurement import Event, EventKind, Flow, Sample
from pytest_pinet.model.topology import TopologyFlow
from pytest_pinet.model.traffic import Direction


def flow(
    *rates: float, step_s: float = 0.5, warmup: int = 0, offset_s: float = 0.0, retransmits: int | None = 1
) -> Flow:
    """Return a flow with samples of these rates in Mbit/s."""
    return Flow(
        Direction.TX,
        tuple(
            Sample(offset_s + n * step_s, step_s, round(mbps * 1e6 / 8 * step_s), warmup=n < warmup)
            for n, mbps in enumerate(rates)
        ),
        retransmits=retransmits,
    )


def one_connection(*flows: Flow, excluded: str = "", events: tuple[Event, ...] = ()) -> Connection:
    measured = [MeasuredFlow(0, 1, TopologyFlow(0, 1, Direction.TX), Direction.TX, one) for one in flows]
    return Connection(tuple(measured), Fresh.CONNECTION, events, excluded)


def test_flows_that_ran_at_once_are_summed_over_the_time_that_counts_for_all() -> None:
    summed = together([flow(10, 100, 100, 100, warmup=1), flow(10, 10, 50, 50, warmup=2)])
    assert [sample.warmup for sample in summed] == [True, True, False, False]
    assert [sample.bps for sample in summed if not sample.warmup] == [150e6, 150e6]


def test_intervals_that_end_at_different_moments_are_spread_evenly() -> None:
    summed = together([flow(100, 100, 100, 100), flow(100, 100, 100, 100, offset_s=0.25)])
    # The first half second has only a quarter of a second of the second flow, and is outside of the shared time.
    assert [round(sample.bps / 1e6) for sample in summed] == [150, 200, 200, 200]
    assert [sample.warmup for sample in summed] == [True, False, False, False]


def test_a_single_flow_is_not_changed() -> None:
    only = flow(10, 100, warmup=1)
    assert together([only]) is only.samples


def test_connections_are_pooled_by_bytes_over_seconds() -> None:
    found = pooled([flow(10, 100, 100, warmup=1, retransmits=2), flow(10, 50, 50, 50, 50, warmup=1, retransmits=3)])
    assert found.goodput.bps == pytest.approx((2 * 100e6 + 4 * 50e6) / 6)
    assert found.retransmits == 5


def test_a_count_unknown_in_one_connection_is_unknown() -> None:
    assert pooled([flow(100, retransmits=2), flow(100, retransmits=None)]).retransmits is None


def test_a_part_of_a_connection_has_the_events_and_the_exclusion_of_the_whole_run() -> None:
    drop = Event(EventKind.LINK_DOWN, 1.0, 2.1, "link dropped for 2.1 s")
    first = one_connection(flow(100), events=(drop,), excluded=drop.text).only([0])
    second = one_connection(flow(90)).only([0])
    assert (first.excluded, first.events) == (drop.text, (drop,))
    assert (second.excluded, second.goodput.bps) == ("", 90e6)


def test_the_rate_since_the_start_is_that_of_the_slowest_connection() -> None:
    least = least_since_start([[flow(100, 100), flow(50, 50)], [flow(100, 80), flow(50, 50)]])
    assert least.bps == pytest.approx(140e6)
    assert sum_of([flow(100, 100), flow(50, 50)]).bps == pytest.approx(150e6)
