"""Stalls, dips and slow starts: planted ones are found with time and duration, without false findings."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.starts import coarser, settle
from pytest_pinet.model.measurement import Event, EventKind, Sample
from tests.support.throughput_samples import noisy, series

LEVEL = 941.0


def planted(begin: int, length: int, share: float, count: int = 60) -> list[float]:
    return [LEVEL * (share if begin <= i < begin + length else 1) for i in range(count)]


def kinds(events: tuple[Event, ...]) -> list[EventKind]:
    return [event.kind for event in events]


@given(st.floats(1.0, 10_000.0), st.integers(2, 80), st.sampled_from([0.1, 0.5, 1.0]))
def test_a_constant_rate_has_no_events(rate: float, count: int, seconds: float) -> None:
    assert find_events(series([rate] * count, seconds)) == ()


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("noise", [0.005, 0.03, 0.1])
def test_noise_has_no_events(noise: float, seed: int) -> None:
    assert find_events(series([100.0, 600.0, *noisy(LEVEL, 58, noise, seed)])) == ()


@given(st.integers(3, 40), st.integers(2, 15), st.floats(0.0, 0.09), st.integers(0, 1000))
def test_a_planted_stall_is_found(begin: int, length: int, share: float, seed: int) -> None:
    rates = noisy(LEVEL, 60, 0.01, seed)
    rates[begin : begin + length] = [rate * share for rate in rates[begin : begin + length]]
    (event,) = find_events(series(rates))
    assert event.kind is EventKind.STALL
    assert event.start_s == pytest.approx(begin / 10, abs=0.101)
    assert event.seconds == pytest.approx(length / 10, abs=0.101)


@given(st.integers(3, 40), st.integers(5, 15), st.floats(0.15, 0.65), st.integers(0, 1000))
def test_a_planted_dip_is_found(begin: int, length: int, share: float, seed: int) -> None:
    rates = noisy(LEVEL, 60, 0.01, seed)
    rates[begin : begin + length] = [rate * share for rate in rates[begin : begin + length]]
    (event,) = find_events(series(rates))
    assert event.kind is EventKind.DIP
    assert event.start_s == pytest.approx(begin / 10, abs=0.101)
    assert event.seconds == pytest.approx(length / 10, abs=0.101)
    said = re.match(r"only (\d+) % of the usual rate arrived", event.text)
    assert said is not None
    assert int(said.group(1)) == pytest.approx(share * 100, abs=2)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=80), st.sampled_from([2, 16, 1024]))
def test_scaling_changes_nothing(rates: list[int], factor: int) -> None:
    small = [Sample(i / 10, 0.1, rate * 1000) for i, rate in enumerate(rates)]
    large = [Sample(s.start_s, s.seconds, s.bytes * factor) for s in small]
    assert find_events(small) == find_events(large)


@pytest.mark.parametrize(("length", "share"), [(1, 0.0), (4, 0.5), (20, 0.75)])
def test_shorter_or_shallower_drops_are_not_events(length: int, share: float) -> None:
    assert find_events(series(planted(30, length, share))) == ()


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        (planted(23, 4, 0.0), "nothing arrived for 0.4 s, 2.3 s after the start"),
        (planted(23, 4, 0.03), "only 3 % of the usual rate arrived for 0.4 s, 2.3 s after the start"),
        (planted(23, 8, 0.45), "only 45 % of the usual rate arrived for 0.8 s, 2.3 s after the start"),
    ],
)
def test_the_text_of_an_event_describes_it(rates: list[float], text: str) -> None:
    assert [event.text for event in find_events(series(rates))] == [text]


def test_neighbouring_low_pieces_are_one_event() -> None:
    rates = [LEVEL] * 60
    rates[20:23] = rates[25:28] = [0.0] * 3
    (event,) = find_events(series(rates))
    assert (event.kind, event.start_s, round(event.seconds, 3)) == (EventKind.STALL, 2.0, 0.8)
    rates[25:28] = [LEVEL] * 3
    rates[30:33] = [0.0] * 3
    assert kinds(find_events(series(rates))) == [EventKind.STALL, EventKind.STALL]


def test_the_edges_of_a_stall_are_not_a_separate_dip() -> None:
    rates = [LEVEL] * 60
    rates[20:26] = [300.0, 0.0, 0.0, 0.0, 200.0, 500.0]
    assert kinds(find_events(series(rates))) == [EventKind.STALL]
    rates[26:36] = [500.0] * 10
    assert sorted(kinds(find_events(series(rates)))) == [EventKind.DIP, EventKind.STALL]


def test_a_stall_in_the_warmup_is_reported() -> None:
    rates = [200.0, LEVEL, LEVEL, 0.0, 0.0, 0.0, *[LEVEL] * 30]
    samples = tuple(Sample(s.start_s, s.seconds, s.bytes, warmup=s.start_s < 0.95) for s in series(rates))
    (event,) = find_events(samples)
    assert (event.kind, event.start_s) == (EventKind.STALL, 0.3)


def test_a_normal_ramp_is_not_an_event() -> None:
    assert find_events(series([0, 0, 20, 80, 200, 450, 700, 900, *[LEVEL] * 30])) == ()
    assert find_events(series([5000.0, 3000.0, 1200.0, *[LEVEL] * 30])) == ()


def test_a_slow_start_says_how_long_it_took() -> None:
    (event,) = find_events(series([60.0 * i for i in range(1, 15)] + [LEVEL] * 40))
    assert event.kind is EventKind.SLOW_START
    assert event.text == "slow start: 90 % of the usual rate only after 1.4 s"
    assert event.start_s == 0.0
    assert event.seconds == pytest.approx(1.4)
    assert find_events(series([60.0 * i for i in range(1, 15)] + [LEVEL] * 40), cap_s=2.0) == ()


def test_a_stall_of_most_of_a_run_is_found() -> None:
    # A link that dropped for 2.1 of 3 s: the median of all samples is 0.
    (event,) = find_events(series([LEVEL] * 5 + [0.0] * 21 + [LEVEL] * 4))
    assert (event.kind, event.start_s, round(event.seconds, 3)) == (EventKind.STALL, 0.5, 2.1)
    (event,) = find_events(series([LEVEL] * 9 + [0.0] * 21))
    assert round(event.seconds, 3) == 2.1


@pytest.mark.parametrize(("paced", "expected"), [(False, []), (True, [EventKind.STALL])])
def test_data_held_back_by_tcp_is_not_a_stall(paced: bool, expected: list[EventKind]) -> None:
    # Recorded at 10 Mbit/s: a segment was lost, and the data after it had to wait.
    rates = [9.5] * 20 + [0.0, 0.0, 28.5] + [9.5] * 20
    assert kinds(find_events(series(rates), paced=paced)) == expected


def test_a_long_stall_is_reported_even_if_the_sender_catches_up() -> None:
    rates = [9.5] * 20 + [0.0] * 6 + [30.0, 40.0] + [9.5] * 20
    assert kinds(find_events(series(rates))) == [EventKind.STALL]


def test_blocks_of_a_threaded_receiver_are_not_stalls() -> None:
    # 5 Mbit/s in blocks of 128 KiB: about every second interval is empty.
    blocks = [Sample(i / 10, 0.1, n * 131072) for i, n in enumerate([0, 1, 0, 0, 1, 0, 1, 0, 1, 0] * 8)]
    assert find_events(blocks, grain=131072) == ()
    blocks[30:60] = [Sample(s.start_s, s.seconds, 0) for s in blocks[30:60]]
    assert kinds(find_events(blocks, grain=131072)) == [EventKind.STALL]


def test_merging_samples_keeps_bytes_and_the_warmup() -> None:
    samples = settle(series([10.0, 50.0, *[95.0] * 28]))
    longer = coarser(samples, 131072, 50, 0.5)
    assert sum(s.bytes for s in longer) == sum(s.bytes for s in samples)
    assert longer[0].warmup
    assert longer[0].seconds == pytest.approx(0.2)
    assert {round(s.seconds, 3) for s in longer[1:-1]} == {0.5}
    assert coarser(samples, 0) == list(samples)


@pytest.mark.parametrize("samples", [[], [Sample(0.0, 0.0, 0)], [Sample(0.0, 1.0, 0)], [Sample(0.0, 1.0, 10**9)]])
def test_very_few_samples_give_no_event(samples: list[Sample]) -> None:
    assert find_events(samples) == ()
