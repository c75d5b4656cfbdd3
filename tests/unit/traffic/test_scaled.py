"""Results on slowed links are reported as if the links ran at full rate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import TrafficError
from pytest_pinet.judge.bottleneck import limited_by
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.evidence import Cause, Diagnosis
from pytest_pinet.model.measurement import Flow, HttpReport, Measurement, Sample, Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, HttpTraffic, LadderTraffic, Traffic
from pytest_pinet.traffic.tool import TrafficJob
from pytest_pinet.traffic.wrapping_tools import in_senders_time, in_virtual_time, sent, unscale_measurement, wrap_scaled
from tests.support import link_stand_in
from tests.support.local_shell import LocalShell

TX = Direction.TX


def test_requested_rates_are_scaled_down() -> None:
    asked = Traffic(Direction.BIDIR, bitrate=Bitrate.mbps(400), peer_bitrate=Bitrate.mbps(40))
    slowed = sent(asked, 0.1)
    assert (slowed.bitrate, slowed.peer_bitrate) == (Bitrate.mbps(40), Bitrate.mbps(4))
    ladder = LadderTraffic(TX, True, bitrate=Bitrate.mbps(900), rates=(Bitrate.mbps(100), Bitrate.mbps(900)))
    assert sent(ladder, 0.1).rates == (Bitrate.mbps(10), Bitrate.mbps(90))


def test_tcp_comes_in_pieces_as_often_as_at_the_full_rate() -> None:
    """A receiver counts whole blocks, and 128 KiB are a tenth of a second at 10 Mbit/s."""
    assert sent(Traffic(TX), 0.1) == Traffic(TX, length=13107)
    assert sent(Traffic(TX, length=65536), 0.1).length == 6554
    assert sent(Traffic(TX), 0.01).length == 1311
    assert sent(Traffic(TX, length=2000), 0.01).length == 1024
    assert sent(Traffic(TX, length=500), 0.01).length == 500
    datagrams = Traffic(TX, udp=True, bitrate=Bitrate.mbps(100), length=1400)
    assert sent(datagrams, 0.1) == replace(datagrams, bitrate=Bitrate.mbps(10))


def test_goodput_loss_and_window_over_round_trip_are_those_of_the_full_rate() -> None:
    flow = Flow(
        TX,
        (Sample(0, 1, 11_768_750),),
        retransmits=3,
        sent_bytes=12_000_000,
        rtt_s=0.01,
        sockets=Sockets(1, 1448, 0.01, rtt_min_s=0.001, cwnd_bytes=65536, receiver_limited=0.4),
        streams=(Bitrate(94.15e6),),
    )
    found = unscale_measurement(Measurement(Traffic(TX), {TX: flow}, raw={"a.json": "{}"}), 0.1)
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


def cause(link: Link, flow: Flow, traffic: Traffic) -> Diagnosis:
    full = unscale_measurement(Measurement(traffic, {TX: flow}), link.scale).flows[TX]
    one = link_stand_in.one_connection(replace(link_stand_in.flow(), flow=full), traffic=traffic)
    return limited_by(link.facts, traffic, [one], {TX: link_stand_in.judged(full.goodput.bps)})


def test_a_scaled_link_has_the_same_bottleneck(tmp_path: Path) -> None:
    """A 64 KiB window with an RTT of 10 ms on a link at a tenth corresponds to an RTT of 1 ms at full rate."""
    link = link_stand_in.link(tmp_path)
    link.scale = 0.1
    waits = Sockets(1, 1448, rtt_s=0.01, receiver_limited=0.3, sender_limited=0.1)
    window = cause(link, Flow(TX, (Sample(0, 1, 6_000_000),), sockets=waits, rtt_s=0.01), Traffic(TX, window=65536))
    assert window.cause is Cause.WINDOW
    assert window.numbers["window_over_rtt_bps"] == pytest.approx(65536 * 8 / 0.001)
    assert "round trips of 1 ms" in window.text
    lost = Flow(TX, (Sample(0, 1, 3_000_000),), retransmits=20, sockets=Sockets(1, 1448, rtt_s=0.01), rtt_s=0.01)
    assert cause(link, lost, Traffic(TX)).cause is Cause.LOSS
    line = Flow(TX, (Sample(0, 1, 11_760_000),), retransmits=20)
    assert cause(link, line, Traffic(TX)).cause is Cause.LINE_RATE
    told_to = Flow(TX, (Sample(0, 1, 5_000_000),))
    assert cause(link, told_to, Traffic(TX, bitrate=Bitrate.mbps(400))).cause is Cause.SENDER


def test_requests_come_as_often_as_on_the_full_rate() -> None:
    flow = Flow(TX, (Sample(0, 2, 1000),))
    report = HttpReport(requests=356, seconds=2.0, read_bytes=2e6, latency_mean_s=0.05)
    found = unscale_measurement(Measurement(Traffic(TX), {TX: flow}, http=report), 0.1).http
    assert found is not None
    assert found.rate == 1780
    assert found.latency_mean_s == pytest.approx(0.005)


def test_a_web_server_sends_smaller_files_as_often() -> None:
    """Only whole responses count: ten of 100 kB in flight are 0.1 s of 100 Mbit/s, and would be 1 s at a tenth."""
    asked = HttpTraffic(TX, streams=10, duration_s=5)
    assert sent(asked, 0.1).size == 9775
    assert sent(replace(asked, size=20_000), 0.1).size == 2500
    assert sent(replace(asked, size=1_000), 0.1).size == 1000
    # 117 small responses per second fill a link of 9.4 Mbit/s, as whole ones fill 94 Mbit/s.
    slowed = sent(asked, 0.1)
    flow = Flow(TX, (Sample(0, 5, 585 * 9775),), head_bytes=585 * 250)
    report = HttpReport(requests=585, seconds=5.0, read_bytes=585 * 10025.0, latency_mean_s=0.085)
    found = unscale_measurement(Measurement(slowed, {TX: flow}, http=report), 0.1, asked)
    assert found.http is not None
    assert found.http.rate == 117
    assert found.http.latency_mean_s == pytest.approx(0.085)
    full = found.flows[TX]
    assert full.samples[0].bytes == 585 * 100_000
    assert full.samples[0].bytes + full.head_bytes == 585 * 100_250 == found.http.read_bytes


@pytest.mark.parametrize("size", [1_000, 20_000])
def test_files_that_cannot_be_so_small_come_less_often(size: int) -> None:
    asked = HttpTraffic(TX, size=size)
    used = sent(asked, 0.1).size
    flow = Flow(TX, (Sample(0, 1, 100 * used),), head_bytes=100 * 250)
    report = HttpReport(requests=100, seconds=1.0, read_bytes=100 * (used + 250.0), latency_mean_s=0.1)
    found = unscale_measurement(Measurement(sent(asked, 0.1), {TX: flow}, http=report), 0.1, asked)
    assert found.http is not None
    assert found.http.requests == pytest.approx(1000 * (used + 250) / (size + 250), abs=1)
    assert found.flows[TX].samples[0].bytes == pytest.approx(found.http.requests * size, rel=0.01)
    assert found.http.latency_mean_s == pytest.approx(0.01 * (size + 250) / (used + 250))
    # Bytes on the wire are not scaled.
    moved = found.flows[TX].samples[0].bytes + found.flows[TX].head_bytes
    assert moved == pytest.approx(1000 * (used + 250), abs=10)


def test_unknown_counts_give_unknown_rates() -> None:
    full = unscale_measurement(Measurement(Traffic(TX), {TX: Flow(TX, (Sample(0, 1, 10),))}), 0.1).flows[TX]
    assert (full.retransmits, full.packets, full.rtt_s, full.sockets, full.sent_bytes) == (None,) * 5


class Recorder:
    """A tool that moves a tenth of a gigabit, and stores the requested traffic."""

    def __init__(self) -> None:
        self.asked: list[Traffic] = []

    def prepare(self, job: TrafficJob) -> None:
        self.asked.append(job.traffic)

    def measure(self, job: TrafficJob) -> Measurement:
        self.asked.append(job.traffic)
        return Measurement(job.traffic, {TX: Flow(TX, (Sample(0, 1, 11_768_750),))})


def test_the_result_has_the_requested_rate() -> None:
    recorder, here = Recorder(), LocalShell("here")
    asked = Traffic(TX, bitrate=Bitrate.mbps(950))
    found = wrap_scaled(recorder, 0.1).measure(TrafficJob(here, here, "a", "b", asked))
    assert [asked.bitrate for asked in recorder.asked] == [Bitrate.mbps(95)]
    assert found.traffic == asked
    assert found.flows[TX].goodput.bps == pytest.approx(941.5e6)


def test_at_full_rate_the_tool_is_not_wrapped() -> None:
    recorder = Recorder()
    assert wrap_scaled(recorder, 1.0) is recorder


def samples(mbps: float, count: int = 20) -> tuple[Sample, ...]:
    return tuple(Sample(index * 0.1, 0.1, round(mbps * 1e6 / 80)) for index in range(count))


def flow(direction: Direction, received: float, sent: float, streams: tuple[Bitrate, ...] = ()) -> Flow:
    return Flow(direction, samples(received), sender_samples=samples(sent), streams=streams)


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


class Tool:
    """Returns the given flows."""

    def __init__(self, flows: dict[Direction, Flow]) -> None:
        self.flows = flows

    def prepare(self, job: TrafficJob) -> None:
        pass

    def measure(self, job: TrafficJob) -> Measurement:
        return Measurement(job.traffic, self.flows)


def measured(direction: Direction, virtual: str, received: float = 700.0, sent: float = 600.0) -> Measurement:
    tool: Any = Tool({way: flow(way, received, sent) for way in direction.parts})
    dut: Any = Named("board")
    peer: Any = Named("peer")
    traffic = Traffic(direction, duration_s=1.0)
    return in_virtual_time(tool, {virtual} if virtual else set()).measure(TrafficJob(dut, peer, "", "", traffic))


def test_sent_goodput_is_in_the_time_of_the_board_and_a_note_says_so() -> None:
    found = measured(Direction.TX, "board")
    tx = found.flows[Direction.TX]
    assert tx.goodput.bps == pytest.approx(600e6, rel=1e-3)
    assert [s.warmup for s in tx.samples[:11]] == [True] * 10 + [False]
    assert tx.received_bytes * 8 / 2 == pytest.approx(700e6, rel=1e-3)
    assert found.notes == ("tx: measured in the virtual time of board, which counts instructions",)


def test_all_connections_of_a_result_have_the_same_note() -> None:
    assert measured(Direction.TX, "board").notes == measured(Direction.TX, "board", received=650.0, sent=610.0).notes


def test_received_goodput_is_in_the_time_of_the_board() -> None:
    found = measured(Direction.RX, "board")
    assert found.flows[Direction.RX].goodput.bps == pytest.approx(700e6, rel=1e-3)
    assert found.notes == ("rx: measured in the virtual time of board, which counts instructions",)


def test_both_directions_at_once_are_in_the_time_of_the_board() -> None:
    found = measured(Direction.BIDIR, "board")
    assert found.flows[Direction.TX].goodput.bps == pytest.approx(600e6, rel=1e-3)
    assert found.flows[Direction.RX].goodput.bps == pytest.approx(700e6, rel=1e-3)


def test_a_virtual_peer_s_time_counts_where_the_board_s_does_not() -> None:
    assert measured(Direction.RX, "peer").flows[Direction.RX].goodput.bps == pytest.approx(600e6, rel=1e-3)
    assert measured(Direction.TX, "peer").flows[Direction.TX].goodput.bps == pytest.approx(700e6, rel=1e-3)


def test_ends_in_the_wall_s_time_are_left_alone() -> None:
    found = measured(Direction.TX, "")
    assert found.flows[Direction.TX].goodput.bps == pytest.approx(700e6, rel=1e-3)
    assert found.notes == ()


def test_streams_keep_their_shares() -> None:
    one = flow(Direction.TX, 700, 600, (Bitrate(100e6), Bitrate(300e6)))
    found = in_senders_time(one, Traffic(Direction.TX, duration_s=1.0), 1.0, "board")
    assert [rate.bps for rate in found.streams] == pytest.approx([150e6, 450e6], rel=1e-3)


def test_a_sender_that_reports_too_short_a_time_is_an_error() -> None:
    silent = Flow(Direction.TX, samples(700), sender_samples=samples(600, 1))
    with pytest.raises(
        TrafficError,
        match=r"the clock of board is virtual, and by this clock its iperf3 reported only 0\.1 s of the requested 5 s",
    ):
        in_senders_time(silent, Traffic(Direction.TX, duration_s=5.0), 1.0, "board")
