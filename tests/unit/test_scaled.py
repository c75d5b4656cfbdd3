"""Traffic on slowed links is told as that on links of full rate."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_pinet.model.http import HttpReport
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.sockets import Sockets
from pytest_pinet.model.traffic import Direction, LadderTraffic, Traffic
from pytest_pinet.traffic.local import LocalShell
from pytest_pinet.traffic.scaled import scaled, sent, told

TX = Direction.TX


def test_rates_that_are_asked_for_are_slowed() -> None:
    asked = Traffic(Direction.BIDIR, bitrate=Bitrate.mbps(400), peer_bitrate=Bitrate.mbps(40))
    slowed = sent(asked, 0.1)
    assert (slowed.bitrate, slowed.peer_bitrate) == (Bitrate.mbps(40), Bitrate.mbps(4))
    ladder = LadderTraffic(TX, True, bitrate=Bitrate.mbps(900), rates=(Bitrate.mbps(100), Bitrate.mbps(900)))
    assert sent(ladder, 0.1).rates == (Bitrate.mbps(10), Bitrate.mbps(90))
    assert sent(Traffic(TX), 0.1) == Traffic(TX)


def test_goodput_loss_and_window_over_round_trip_are_those_of_the_full_rate() -> None:
    flow = Flow(
        TX,
        (Sample(0, 1, 11_768_750),),
        retransmits=3,
        sent_bytes=12_000_000,
        rtt_s=0.01,
        sockets=Sockets(1, 1448, 0.01, 0.001, cwnd_bytes=65536, receiver_limited=0.4),
        streams=(Bitrate(94.15e6),),
    )
    found = told(Measurement(Traffic(TX), {TX: flow}, raw={"a.json": "{}"}), 0.1)
    full = found.flows[TX]
    assert full.goodput.bps == pytest.approx(941.5e6)
    assert full.since_start == full.goodput
    assert full.retransmits is not None
    assert full.sockets is not None
    assert full.sockets.cwnd_bytes is not None
    assert full.rtt_s is not None
    assert full.retransmits / sum(s.bytes for s in full.samples) == pytest.approx(3 / 11_768_750)
    assert full.sockets.cwnd_bytes * 8 / full.rtt_s == pytest.approx(10 * 65536 * 8 / 0.01)
    assert (full.sockets.mss, full.sockets.receiver_limited) == (1448, 0.4)
    assert full.streams == (Bitrate(941.5e6),)
    assert found.raw == {"a.json": "{}"}


def test_requests_come_as_often_as_on_the_full_rate() -> None:
    flow = Flow(TX, (Sample(0, 2, 1000),))
    report = HttpReport(requests=356, seconds=2.0, read_bytes=2e6, latency_mean_s=0.05)
    found = told(Measurement(Traffic(TX), {TX: flow}, http=report), 0.1).http
    assert found is not None
    assert found.rate == 1780
    assert found.latency_mean_s == pytest.approx(0.005)


def test_what_nobody_told_stays_unknown() -> None:
    full = told(Measurement(Traffic(TX), {TX: Flow(TX, (Sample(0, 1, 10),))}), 0.1).flows[TX]
    assert (full.retransmits, full.packets, full.rtt_s, full.sockets, full.sent_bytes) == (None,) * 5


class Recorder:
    """A tool that moves a tenth of a gigabit, and remembers what it was to send."""

    def __init__(self) -> None:
        self.asked: list[Traffic] = []

    def prepare(self, dut: Any, peer: Any, traffic: Traffic) -> None:
        self.asked.append(traffic)

    def measure(self, *ends: Any, **more: Any) -> Measurement:
        traffic = ends[4]
        self.asked.append(traffic)
        return Measurement(traffic, {TX: Flow(TX, (Sample(0, 1, 11_768_750),))})


def test_who_asks_for_a_rate_gets_it_told_again() -> None:
    recorder, here = Recorder(), LocalShell("here")
    asked = Traffic(TX, bitrate=Bitrate.mbps(950))
    found = scaled(recorder, 0.1).measure(here, here, "a", "b", asked)
    assert recorder.asked == [Traffic(TX, bitrate=Bitrate.mbps(95))]
    assert found.traffic == asked
    assert found.flows[TX].goodput.bps == pytest.approx(941.5e6)


def test_at_full_rate_nothing_is_changed() -> None:
    recorder = Recorder()
    assert scaled(recorder, 1.0) is recorder
