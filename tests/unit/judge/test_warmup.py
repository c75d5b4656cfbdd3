"""Where the warm-up ends, on series with a known start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.judge.starts import (
    CAP_FAST_S,
    CAP_S,
    KEPT_S,
    cap_for,
    late_start,
    reached_after,
    settle,
    settled_after,
)
from pytest_pinet.model.measurement import Sample
from tests.support.throughput_samples import noisy, series


def warmup_s(samples: tuple[Sample, ...]) -> float:
    return round(sum(s.seconds for s in samples if s.warmup), 3)


LEVEL = [941.0] * 30


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ([], 0.0),
        ([0], 0.1),
        ([100, 500, 800], 0.3),
        ([100, 500, 800, 930], 0.3),  # within 1.5 %
        ([1500], 0.1),  # a token bucket's burst
        ([3000, 1800, 1100], 0.3),
        ([0, 1900], 0.2),
        ([200, 941, 300, 600], 0.4),  # touched the level once on its way
    ],
)
def test_the_warmup_ends_when_the_rate_reaches_its_level(start: list[float], expected: float) -> None:
    assert warmup_s(settle(series(start + LEVEL))) == expected


def test_one_odd_interval_neither_ends_nor_extends_it() -> None:
    odd = [200, 500, 941, 941, 400, *LEVEL]
    assert warmup_s(settle(series(odd))) == pytest.approx(0.2)


def test_a_stall_after_the_start_is_not_hidden_in_the_warmup() -> None:
    stalled = [300, *[941] * 4, 0, 0, 0, *LEVEL]
    assert warmup_s(settle(series(stalled))) == pytest.approx(0.1)


@pytest.mark.parametrize("cap", [CAP_S, CAP_FAST_S])
def test_a_slow_start_ends_where_the_rate_is_at_its_level(cap: float) -> None:
    ramp = [10.0 * i for i in range(1, 31)]
    assert warmup_s(settle(series(ramp + [941.0] * 30), cap)) == 3.0
    assert settled_after(series(ramp + [941.0] * 30), cap) is None
    assert warmup_s(settle(series([600.0] * 22 + [941.0] * 20), cap)) == pytest.approx(2.2)


@pytest.mark.parametrize("seconds", [1.5, 2.0, 3.0, 3.9])
@pytest.mark.parametrize("noise", [0.003, 0.02])
def test_the_level_after_a_slow_start_is_that_of_the_rest(seconds: float, noise: float) -> None:
    count = round(seconds * 10)
    ramp = [941 * (0.3 + 0.7 * i / count) for i in range(count)]
    samples = settle(series([*ramp, *noisy(941, 60 - count, noise, 1)]))
    assert warmup_s(samples) == pytest.approx(seconds, abs=0.5)
    counted = [s.bps for s in samples if not s.warmup]
    assert sum(counted) / len(counted) == pytest.approx(941e6, rel=max(noise, 0.005))


def test_a_start_that_the_run_does_not_end_is_seen() -> None:
    rising = late_start(series([941 * (0.3 + 0.7 * i / 40) for i in range(30)]))
    assert rising is not None
    assert rising.end_s is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.003, 0.03, 0.1])
def test_noise_is_no_slow_start(noise: float, seed: int) -> None:
    assert late_start(series([300.0, 700.0, *noisy(941, 28, noise, seed)])) is None
    assert late_start(series([941.0] * 10 + [0.0] * 12 + [941.0] * 8)) is None


def test_faster_links_may_take_longer() -> None:
    assert [cap_for(speed) for speed in (100, 1000, 2500, 5000)] == [1, 1, 1, 2]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.002, 0.02, 0.1])
def test_noise_does_not_use_up_the_time(noise: float, seed: int) -> None:
    found = warmup_s(settle(series([50.0, 400.0, *noisy(941, 28, noise, seed)])))
    assert 0.2 <= found <= 0.8


@pytest.mark.parametrize("seed", range(10))
def test_the_counted_samples_are_at_the_level(seed: int) -> None:
    samples = settle(series([20.0, 300.0, 700.0, *noisy(941, 27, 0.01, seed)]))
    counted = [s.bps for s in samples if not s.warmup]
    assert sum(counted) / len(counted) == pytest.approx(941e6, rel=0.01)


@pytest.mark.parametrize("seed", range(10))
def test_a_rough_link_does_not_make_any_rate_its_level(seed: int) -> None:
    assert warmup_s(settle(series([500.0] * 4 + noisy(941, 26, 0.3, seed)))) >= 0.4


def test_a_short_moment_at_the_level_does_not_end_the_warmup() -> None:
    assert warmup_s(settle(series([941, 941, 300, 300, 500, *LEVEL]))) == pytest.approx(0.5)
    assert warmup_s(settle(series([941, 300, 300, *LEVEL[:6]], 0.5))) == 1.0


def test_a_shaper_with_two_values_is_settled() -> None:
    pattern = [94, 94, 99] * 10
    assert warmup_s(settle(series([60, *pattern]))) == pytest.approx(0.1)


def test_half_second_samples_settle_too() -> None:
    assert warmup_s(settle(series([600, *LEVEL[:6]], 0.5))) == 0.5
    assert warmup_s(settle(series([100, 200, 300, *LEVEL[:6]], 0.5))) == 1.0


def test_blocks_of_a_threaded_receiver_are_not_a_ramp() -> None:
    # 100 Mbit/s in blocks of 128 KiB: 9 or 10 of them in 0.1 s, one short at the start.
    blocks = [Sample(i / 10, 0.1, n * 131072) for i, n in enumerate([8, 10, 9, 9, 9, 9, 9, 10, 9, 9] * 3)]
    assert warmup_s(settle(blocks, grain=131072)) == 0.0


def test_at_least_one_sample_counts() -> None:
    for count in range(1, 12):
        samples = settle(series([100.0 * i for i in range(1, count + 1)]))
        assert any(not s.warmup for s in samples)
    assert settle([]) == ()
    assert settled_after([]) is None
    assert reached_after([], 0.9) is None


def test_existing_warmup_marks_are_replaced() -> None:
    marked = tuple(Sample(s.start_s, s.seconds, s.bytes, warmup=True) for s in series(LEVEL))
    assert warmup_s(settle(marked)) == 0.0


def test_a_silent_run_does_not_settle() -> None:
    assert settled_after(series([0.0] * 30)) is None


RATES = st.lists(st.integers(0, 10_000), min_size=1, max_size=60)


@given(RATES, st.sampled_from([2, 8, 64]))
def test_scaling_changes_nothing(rates: list[int], factor: int) -> None:
    small = [Sample(i / 10, 0.1, rate * 1000) for i, rate in enumerate(rates)]
    large = [Sample(s.start_s, s.seconds, s.bytes * factor) for s in small]
    assert [s.warmup for s in settle(small)] == [s.warmup for s in settle(large)]


@given(RATES)
def test_the_warmup_is_at_the_front_and_no_sample_is_lost(rates: list[int]) -> None:
    samples = series([float(rate) for rate in rates])
    found = settle(samples)
    marks = [s.warmup for s in found]
    assert marks == sorted(marks, reverse=True)
    # Only a slow start, which leaves enough samples at its level, lasts longer than the cap.
    longest = CAP_S if late_start(samples) is None else max(CAP_S, len(samples) / 10 - KEPT_S)
    assert warmup_s(found) <= longest + 0.01
    assert [(s.start_s, s.bytes) for s in found] == [(s.start_s, s.bytes) for s in samples]
