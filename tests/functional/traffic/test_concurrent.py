"""Several concurrent iperf3 runs on loopback: they begin together, share their time, and end together."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.concurrent import measure_together
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import TrafficJob
from tests.support.local_shell import LocalShell

RATE = Bitrate.mbps(20)
# A busy machine delays the ends of the traffic. Twice or half of a rate or of a time is wrong.
ROOM = 0.4


def job(
    number: int, direction: Direction = Direction.TX, duration_s: float = 2.0, warmup_s: float | None = 0.5
) -> TrafficJob:
    traffic = Traffic(direction, duration_s=duration_s, warmup_s=warmup_s, bitrate=RATE, length=16384)
    return TrafficJob(LocalShell(), LocalShell(), f"127.0.1.{number}", f"127.0.2.{number}", traffic)


def test_flows_that_run_together_count_only_the_time_they_share_and_tell_it() -> None:
    found = measure_together(Iperf3(), [job(1), job(2, Direction.RX), job(3)])
    assert [list(m.flows) for m in found] == [[Direction.TX], [Direction.RX], [Direction.TX]]
    (window,) = {measurement.window for measurement in found}
    assert window is not None
    assert window.skew_s is not None
    assert window.skew_within_s is not None
    # A shell reports uptimes with two decimals.
    assert window.skew_within_s > 0.010
    assert window.skew_s >= 0
    for measurement in found:
        assert "so the flow began at" in measurement.raw["start.txt"]
        (flow,) = measurement.flows.values()
        assert flow.goodput.bps == pytest.approx(RATE.bps, rel=ROOM)
        assert flow.samples[0].warmup
        # The shared time is not longer than requested, and each flow counts all of it.
        assert 0.5 <= flow.seconds <= 3
        assert flow.seconds == pytest.approx(window.seconds, abs=ROOM)


def test_a_warmup_that_is_found_is_that_of_the_slowest() -> None:
    found = measure_together(Iperf3(), [job(1, warmup_s=None), job(2, Direction.BIDIR, warmup_s=None)])
    flows = [flow for measurement in found for flow in measurement.flows.values()]
    assert len(flows) == 3
    for flow in flows:
        assert 0.5 <= flow.seconds <= 4
        assert flow.goodput.bps == pytest.approx(RATE.bps, rel=ROOM)
    assert max(flow.seconds for flow in flows) - min(flow.seconds for flow in flows) < 0.5


def test_two_opposed_processes_count_only_the_time_in_which_both_run() -> None:
    both = replace(job(1, Direction.BIDIR).traffic, peer_bitrate=Bitrate.mbps(5))
    (found,) = measure_together(Iperf3(), [replace(job(1), traffic=both)])
    assert found.traffic == both
    assert found.window is not None
    sent, received = found.flows[Direction.TX], found.flows[Direction.RX]
    assert sent.goodput.bps == pytest.approx(RATE.bps, rel=ROOM)
    assert received.goodput.bps == pytest.approx(5e6, rel=ROOM)
    assert {"tx-client.json", "tx-server.json", "rx-client.json", "rx-server.json"} <= set(found.raw)
    assert "-b 5000000" in found.raw["rx-client.cmd"]
    assert "--bidir" not in found.raw["rx-client.cmd"]
    assert set(found.cpu_percent) == {"dut", "peer"}


def test_udp_reports_its_begin_and_progress_covers_all_flows() -> None:
    seconds: list[float] = []
    jobs = [replace(job(n), traffic=replace(job(n).traffic, udp=True)) for n in (1, 2)]
    found = measure_together(Iperf3(), jobs, on_progress=seconds.append)
    assert seconds == sorted(seconds)
    assert len(seconds) >= 2
    assert found[0].window is not None
    assert found[0].window.skew_s is not None


def test_the_first_error_ends_all_of_them() -> None:
    started = time.monotonic()
    # No interface has this address, so the server cannot bind.
    broken = TrafficJob(LocalShell(), LocalShell(), "127.0.1.9", "192.0.2.1", job(1).traffic)
    with pytest.raises(LabError):
        measure_together(Iperf3(), [job(1, duration_s=60.0), job(2, duration_s=60.0), broken])
    assert time.monotonic() - started < 30


def test_whoever_watches_ends_all_of_them() -> None:
    class Panic(Exception):
        pass

    started = time.monotonic()

    def watch() -> None:
        if time.monotonic() - started > 2.0:
            raise Panic

    with pytest.raises(Panic):
        measure_together(Iperf3(), [job(1, duration_s=60.0), job(2, duration_s=60.0)], watch=watch)
    assert time.monotonic() - started < 30
