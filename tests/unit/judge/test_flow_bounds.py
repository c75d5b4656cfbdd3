"""The possible goodput of each flow over a link, with its explanations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_pinet.judge.flows import Bounds
from pytest_pinet.model.evidence import Conditions, PcieLink
from pytest_pinet.model.measurement import Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from tests.support import link_stand_in
from tests.support.link_stand_in import TX, flow

WIRE = "1000 Mbit/s link, MTU 1500, TCP timestamps"
KIB64 = replace(TX, window=65536)


def seen(rtt_ms: float | None = None, shortest_ms: float | None = None) -> Sockets:
    rtt_s, rtt_min_s = (None if ms is None else ms / 1e3 for ms in (rtt_ms, shortest_ms))
    return Sockets(1, 1448, rtt_s, rtt_min_s=rtt_min_s)


def test_a_flow_gets_what_the_wire_carries() -> None:
    bounds = Bounds(link_stand_in.facts(), TX, [flow()])
    assert bounds.alone[0].goodput.bps == pytest.approx(941.48e6, rel=1e-5)
    assert bounds.alone[0].because == WIRE
    assert bounds.fair[0].bps == pytest.approx(bounds.alone[0].goodput.bps)
    assert bounds.offered[Direction.TX] is None


def test_pcie_is_reported_with_its_end_and_does_not_change_the_limit() -> None:
    link = link_stand_in.facts(("two:pcie", "one:onboard"), speeds_mbps=(10_000, 10_000))
    conditions = [Conditions("two", "eth1", pcie=PcieLink(5.0, 1)), Conditions("one", "eth0")]
    plain, told = Bounds(link, TX, [flow()]), Bounds(link, TX, [flow()], conditions)
    assert told.alone[0].goodput == plain.alone[0].goodput == Bitrate(4e9)
    assert told.fair == plain.fair
    assert told.alone[0].because == (
        f"{plain.alone[0].because}; PCIe 5 GT/s x1 allows 2.99 Gbit/s to 3.56 Gbit/s at two:pcie"
    )


def test_a_slow_bus_of_the_far_end_is_reported_and_a_fast_one_is_not() -> None:
    link = link_stand_in.facts(("one:onboard", "two:pcie"), speeds_mbps=(2500, 2500))
    slow, fast = (Conditions("two", "eth1", pcie=PcieLink(gtps, 1)) for gtps in (2.5, 8.0))
    here = Conditions("one", "eth0")
    assert Bounds(link, TX, [flow()], [here, slow]).alone[0].because.endswith("at two:pcie")
    assert "PCIe" not in Bounds(link, TX, [flow()], [here, fast]).alone[0].because


def test_a_window_under_load_is_reported_but_is_not_a_limit() -> None:
    (oracle,) = Bounds(link_stand_in.facts(), KIB64, [flow(sockets=seen(2.1))]).alone
    assert oracle.because == f"{WIRE}; window 64 KiB over 2.1 ms allows 249.7 Mbit/s"
    assert oracle.goodput.bps == pytest.approx(941.48e6, rel=1e-5)
    # The tool's mean over the whole run is more precise than one reading in the middle.
    (oracle,) = Bounds(link_stand_in.facts(), KIB64, [flow(sockets=seen(9.0), rtt_s=2.1e-3)]).alone
    assert "over 2.1 ms" in oracle.because


def test_twice_the_window_in_the_shortest_round_trip_is_a_limit() -> None:
    bounds = Bounds(link_stand_in.facts(), KIB64, [flow(sockets=seen(2.5, 2.0))])
    assert bounds.alone[0].goodput.bps == pytest.approx(2 * 65536 * 8 / 2e-3)
    assert bounds.alone[0].because == (
        "buffers of twice the requested window: window 128 KiB over 2 ms allows 524.3 Mbit/s"
    )
    assert bounds.fair[0].bps == pytest.approx(bounds.alone[0].goodput.bps)


def test_a_shorter_round_trip_in_another_try_raises_the_limit() -> None:
    first, second = flow(sockets=seen(2.5, 2.0)), flow(sockets=seen(2.5, 1.6))
    bounds = Bounds(link_stand_in.facts(), KIB64, [first], repeats=[[second], [flow()]])
    assert bounds.alone[0].goodput.bps == pytest.approx(2 * 65536 * 8 / 1.6e-3)


def test_the_window_applies_to_each_stream() -> None:
    traffic = replace(KIB64, streams=4)
    (oracle,) = Bounds(link_stand_in.facts(), traffic, [flow(sockets=seen(2.1, 10.0))]).alone
    assert oracle.goodput.bps == pytest.approx(4 * 2 * 65536 * 8 / 10e-3)


@pytest.mark.parametrize(
    "traffic", [TX, Traffic(Direction.TX, udp=True, bitrate=Bitrate(50e6), window=65536)], ids=["unasked", "udp"]
)
def test_without_a_requested_window_there_is_no_window_limit(traffic: Traffic) -> None:
    (oracle,) = Bounds(link_stand_in.facts(), traffic, [flow(sockets=seen(20.0, 20.0))]).alone
    assert oracle.goodput.bps > 900e6
    assert "window" not in oracle.because


def test_a_window_without_a_known_round_trip_gives_no_limit() -> None:
    (oracle,) = Bounds(link_stand_in.facts(), KIB64, [flow()]).alone
    assert oracle.because == WIRE


def test_two_flows_share_a_nic_and_one_gets_the_capacity_that_the_other_cannot_use() -> None:
    link = link_stand_in.facts(("two:onboard", "one:onboard", "one:usb"), topology="incast:2", speeds_mbps=(1000,) * 3)
    # 64 KiB in at least 5.2 ms: at most 201.6 Mbit/s for the second flow.
    flows = [flow(1, 0), flow(2, 0, sockets=seen(shortest_ms=5.2))]
    plain, windowed = Bounds(link, TX, flows), Bounds(link, KIB64, flows)
    assert [round(rate.bps / 1e6) for rate in plain.fair] == [471, 471]
    assert [round(rate.bps / 1e6) for rate in windowed.fair] == [740, 202]
    assert windowed.sum([0, 1]).goodput.bps == pytest.approx(941.48e6, rel=1e-5)
