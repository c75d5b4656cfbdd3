"""The clocks of ends relative to this machine's."""

from __future__ import annotations

import random
import time

import pytest

from pytest_pinet.traffic.clock import GRAIN_S, Clock, apart_within_s, clock_of, read_clock
from tests.support.local_shell import LocalShell


def test_an_uptime_becomes_a_moment_of_the_runner() -> None:
    clock = read_clock(LocalShell())
    assert clock is not None
    before = time.monotonic()
    uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    after = time.monotonic()
    error_s = GRAIN_S + clock.within_s
    assert before - error_s <= clock.here(uptime_s) <= after + error_s
    assert clock.there(clock.here(123.0)) == pytest.approx(123.0)


def test_a_moment_is_moved_by_the_offset() -> None:
    assert Clock(5.0, 0.002).here(1.0) == 6.0


def asked(offset_s: float, at_s: float, out_s: float, back_s: float) -> tuple[float, float, float]:
    """Return a reading of an end's uptime at this moment, with the delays in both directions.

    The end truncates its uptime.
    """
    uptime_s = at_s + out_s - offset_s
    return at_s, int(uptime_s / GRAIN_S) * GRAIN_S, at_s + out_s + back_s


def test_the_truth_is_within_what_is_said_however_long_the_ways_are() -> None:
    chance = random.Random(1)
    for _ in range(500):
        offset_s = chance.uniform(-1000, 1000)
        ways = [(chance.uniform(2000, 2001), chance.uniform(0, 0.1), chance.uniform(0, 0.1)) for _ in range(3)]
        clock = clock_of([asked(offset_s, *way) for way in ways])
        assert abs(clock.offset_s - offset_s) <= clock.within_s + 1e-6


def test_half_of_the_way_there_and_back_and_of_what_was_cut_off_is_not_known() -> None:
    assert clock_of([(10.0, 3.0, 10.004)]).within_s == pytest.approx((0.004 + GRAIN_S) / 2)


def test_several_answers_bound_the_truth_closer() -> None:
    one, other = asked(0.0, 10.0001, 0.002, 0.002), asked(0.0, 10.0058, 0.002, 0.002)
    assert clock_of([one, other]).within_s < 0.7 * clock_of([one]).within_s


def test_an_end_whose_clock_was_moved_meanwhile_is_taken_by_its_best_answer() -> None:
    clock = clock_of([(10.0, 3.0, 10.5), (11.0, 3.9, 11.004)])
    assert clock.offset_s == pytest.approx(7.1, abs=0.01)


def test_the_uncertainty_of_the_skew_comes_from_both_clocks() -> None:
    near, far = Clock(0.0, 0.003), Clock(0.0, 0.030)
    # 2 * sqrt((3^2 + 3^2 + 2 * 5^2 + 2 * 7.5^2) / 3) ms
    assert apart_within_s(near, near) == pytest.approx(0.01545, abs=1e-4)
    assert apart_within_s(near, far) == pytest.approx(0.0378, abs=1e-4)


@pytest.mark.parametrize("path", ["/nonexistent"])
def test_an_end_without_readable_uptime_has_no_clock(path: str) -> None:
    assert read_clock(LocalShell(env={"PATH": path})) is None
