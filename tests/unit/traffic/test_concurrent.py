"""The start times of concurrent flows, their uncertainty, and results with too large a skew. No traffic runs."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace

import pytest

from pytest_pinet.measure.traffic_runner import _printed
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.measurement import Flow, Measurement, Sample, StreamStart
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic import concurrent
from pytest_pinet.traffic.concurrent import GRAIN_S, Clock, apart_within_s, clock_of, measure_together, read_clock
from pytest_pinet.traffic.tool import TrafficJob
from tests.support import link_stand_in
from tests.support.local_shell import LocalShell

TX = Traffic(Direction.TX, duration_s=1.0, warmup_s=0)


class Tool:
    """Sends nothing, and reports that the flow to an address began this many seconds late."""

    def __init__(self, late_s: dict[str, float | None]) -> None:
        self._late_s = late_s

    def prepare(self, job: TrafficJob) -> None:
        pass

    def measure(self, job: TrafficJob) -> Measurement:
        at_s = job.before_client(job.dut) if job.before_client is not None else None
        assert at_s is not None
        late_s = self._late_s[job.peer_address]
        began = None if late_s is None else StreamStart("peer", round(at_s + late_s, 2))
        samples = tuple(Sample(n * 0.1, 0.1, 1000) for n in range(10))
        return Measurement(job.traffic, {Direction.TX: Flow(Direction.TX, samples)}, {"client.json": "{}"}, began=began)


def measured(*late_s: float | None) -> list[Measurement]:
    """Measure flows between pairs of shells on this machine."""
    names = [f"10.0.0.{number}" for number in range(len(late_s))]
    jobs = [TrafficJob(LocalShell(f"a{name}"), LocalShell(f"b{name}"), "10.0.1.1", name, TX) for name in names]
    return measure_together(Tool(dict(zip(names, late_s, strict=True))), jobs, lead_s=0.0)


def test_the_skew_has_its_uncertainty_and_source(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {"10.0.0.0": Clock(50.0, 0.002), "10.0.0.1": Clock(-70.0, 0.02)}
    monkeypatch.setattr(concurrent, "read_clock", lambda shell: clocks.get(shell.name[1:], Clock(0.0, 0.5)))
    found = measured(0.0, 0.12, 0.03)
    (window,) = {one.window for one in found}
    assert window is not None
    assert window.skew_s is not None
    assert window.skew_within_s is not None
    # Each begin is rounded to 0.01 s.
    assert window.skew_s == pytest.approx(0.12, abs=0.011)
    # Of the clocks of the first and the last flow, of /proc/uptime and of the servers' looks at their streams.
    bounds = (0.002, 0.005, 0.0075, 0.02, 0.005, 0.0075)
    assert window.skew_within_s == pytest.approx(2 * math.hypot(*bounds) / math.sqrt(3))
    assert [one.raw["start.txt"].splitlines()[0].split(" reported ")[0] for one in found] == [
        f"b10.0.0.{number}" for number in range(3)
    ]
    assert all("standard uncertainty" in one.raw["start.txt"] for one in found)
    now = time.monotonic()
    began = float(found[0].raw["start.txt"].partition("began at ")[2].split()[0])
    assert now - 10 < began < now + 10


def test_without_a_reported_begin_the_skew_is_unknown() -> None:
    found = measured(0.0, None)
    (window,) = {one.window for one in found}
    assert window is not None
    assert (window.skew_s, window.skew_within_s) == (None, None)
    assert "start.txt" not in found[0].raw


def printed(text: str, discarded: Connection | None = None) -> Connection:
    one = link_stand_in.one_connection(link_stand_in.flow())
    return replace(one, measurements=(replace(one.measurements[0], raw={"client.json": text}),), discarded=discarded)


def test_flows_that_began_too_far_apart_are_kept_as_discarded() -> None:
    assert _printed([printed("first"), printed("next", discarded=printed("late"))]) == {
        "client.json": "first",
        "2-client.json": "next",
        "2-not-counted-client.json": "late",
    }


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
