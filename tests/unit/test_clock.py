"""The clocks of ends beside the runner's."""

from __future__ import annotations

import time

import pytest

from pytest_pinet.traffic.clock import Clock, read_clock
from pytest_pinet.traffic.local import LocalShell


def test_an_uptime_becomes_a_moment_of_the_runner() -> None:
    clock = read_clock(LocalShell())
    assert clock is not None
    uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert clock.here(uptime_s) == pytest.approx(time.monotonic(), abs=0.01 + clock.round_trip_s)
    assert clock.there(clock.here(123.0)) == pytest.approx(123.0)


def test_the_shortest_answer_is_the_nearest_to_the_truth() -> None:
    assert Clock(5.0, 0.002).here(1.0) == 6.0


@pytest.mark.parametrize("path", ["/nonexistent"])
def test_an_end_that_does_not_tell_has_none(path: str) -> None:
    assert read_clock(LocalShell(env={"PATH": path})) is None
