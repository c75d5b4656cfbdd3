"""Goodput of an end whose clock counts instructions, in each direction."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_pinet.errors import TrafficError
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.tool import TrafficJob
from pytest_pinet.traffic.virtual_time import in_senders_time, in_virtual_time


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
