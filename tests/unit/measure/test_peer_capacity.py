"""The capacity of an end by itself, measured over this machine's loopback."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.measure.measurement import ceilings
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import TrafficJob
from tests.support import link_stand_in
from tests.support.link_stand_in import TX, flow
from tests.support.local_shell import LocalShell

needs_iperf3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="no iperf3 on this machine")
NOWHERE = {"PATH": "/nonexistent"}


def udp(mbps: float) -> Traffic:
    return Traffic(Direction.TX, udp=True, bitrate=Bitrate.mbps(mbps))


SMALL = replace(udp(10), length=200)


@needs_iperf3
def test_loopback_tcp_of_the_peer_is_measured_once_at_full_rate(tmp_path: Path) -> None:
    link = link_stand_in.link(tmp_path)
    throttled = replace(TX, bitrate=Bitrate.mbps(20))
    found, doubts = ceilings(link, throttled, [flow()], Iperf3())
    ((end, most),) = found.items()
    assert end == "two:onboard"
    assert most > Bitrate.mbps(200)
    assert doubts == []
    # Another rate of the same traffic needs no measurement: this link's ends could not even answer.
    silent = replace(link, ends=tuple(replace(one, shell=LocalShell(env=NOWHERE)) for one in link.ends))
    assert ceilings(silent, TX, [flow()], Iperf3()) == ({end: most}, [])


class Steady:
    """Sends nothing, and reports the requested rate."""

    def __init__(self) -> None:
        self.measured: list[Traffic] = []

    def prepare(self, job: TrafficJob) -> None:
        pass

    def measure(self, job: TrafficJob) -> Measurement:
        self.measured.append(job.traffic)
        assert job.traffic.bitrate is not None
        samples = (Sample(0.0, 1.0, round(job.traffic.bitrate.bps / 8)),)
        return Measurement(job.traffic, {Direction.TX: Flow(Direction.TX, samples)})


def test_loopback_udp_is_measured_for_each_rate_and_size(tmp_path: Path) -> None:
    link, tool = link_stand_in.link(tmp_path), Steady()
    found = [ceilings(link, traffic, [flow()], tool) for traffic in (udp(10), udp(40), udp(10), SMALL)]
    assert [most["two:onboard"].bps / 1e6 for most, _ in found] == [10, 40, 10, 10]
    assert [(one.udp, one.bitrate, one.length) for one in tool.measured] == [
        (True, Bitrate.mbps(mbps), length) for mbps, length in ((10, None), (40, None), (10, 200))
    ]


def test_a_failed_loopback_measurement_is_a_note_and_no_error(tmp_path: Path) -> None:
    silent = LocalShell("one", env=NOWHERE)
    link = link_stand_in.link(tmp_path, shells=(silent, LocalShell("two", env=NOWHERE)))
    found, doubts = ceilings(link, TX, [flow()], Iperf3())
    assert found == {}
    (doubt,) = doubts
    assert doubt == "the loopback goodput of two:onboard could not be measured: two has no iperf3"


def test_the_capacity_of_each_measurable_end_is_returned(tmp_path: Path) -> None:
    link = link_stand_in.link(
        tmp_path,
        (("two", "onboard"), ("one", "onboard"), ("two", "pcie")),
        tuple(LocalShell(env=NOWHERE) for _ in range(3)),
        "incast:2",
    )
    # A value known for the lease needs no iperf3. End 2 is another NIC of the device under test and is not measured.
    link.ends[1].session.facts["loopback tcp-P1"] = Bitrate(5e9)
    found, doubts = ceilings(link, TX, [flow(1, 0), flow(2, 0)], Iperf3())
    assert found == {"one:onboard": Bitrate(5e9)}
    assert doubts == []
