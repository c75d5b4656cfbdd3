"""A setting that the kernel did not apply makes the result invalid, but the value stays visible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_pinet.judge.circumstances import Circumstances
from pytest_pinet.judge.gate import GatePlan, judge
from pytest_pinet.judge.measurement import figures
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.preconditions import failed_requests, ineffective_settings, unseen
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import Trouble
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.measurement import HttpReport, Measurement, Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, HttpTraffic, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import http_record, sockets_record
from pytest_pinet.report.sentences import http_text
from tests.support import link_stand_in
from tests.support.link_stand_in import flow, one_connection

TX = Traffic(Direction.TX)
JUMBO = replace(TX, mss=8960)
WINDOW = replace(TX, window=204_800)


def with_buffers(sndbuf: int, rcvbuf: int) -> Connection:
    measured = flow(sockets=Sockets(1, 1448, sndbuf_bytes=sndbuf))
    far = replace(measured.flow, far_sockets=Sockets(1, 1448, rcvbuf_bytes=rcvbuf))
    return one_connection(replace(measured, flow=far))


def test_an_mss_above_the_mtu_is_reported_with_the_effective_mss() -> None:
    (sentence,) = ineffective_settings(
        link_stand_in.facts(), JUMBO, [one_connection(flow(sockets=Sockets(1, 1448)))] * 2
    )
    assert sentence == (
        "mss=8960 bytes was requested, but segments of one:onboard carried 1448 bytes: MTU 1500 allows no more than "
        "mss=1460"
    )


def test_an_effective_mss_is_not_reported() -> None:
    link = link_stand_in.facts()
    jumbo = link_stand_in.facts(mtu=9000)
    assert ineffective_settings(jumbo, JUMBO, [one_connection(flow(sockets=Sockets(1, 8948)))]) == []
    assert ineffective_settings(link, replace(TX, mss=536), [one_connection(flow(sockets=Sockets(1, 524)))]) == []


def test_socket_values_of_a_link_that_was_down_are_ignored() -> None:
    down = replace(one_connection(flow(sockets=Sockets(1, 36))), excluded="link dropped for 1.2 s")
    link = link_stand_in.facts()
    assert ineffective_settings(link, replace(TX, mss=536), [down, one_connection(flow(sockets=Sockets(1, 524)))]) == []


def test_an_mss_that_no_sender_reported_gives_a_note() -> None:
    link, untold = link_stand_in.facts(), [one_connection(flow())]
    # An MSS larger than the MTU is never effective.
    assert ineffective_settings(link, JUMBO, untold) == [
        "mss=8960 bytes was requested, but MTU 1500 allows no more than mss=1460"
    ]
    small = replace(TX, mss=536)
    assert ineffective_settings(link, small, untold) == []
    (note,) = unseen(small, untold)
    assert note == (
        "mss=536 bytes was requested, but no sender reported the MSS that it used (this needs ss of iproute2)"
    )
    assert unseen(TX, untold) == []
    assert unseen(small, [*untold, one_connection(flow(sockets=Sockets(1, 524)))]) == []


@pytest.mark.parametrize(
    ("sndbuf", "rcvbuf", "told"),
    [
        (409_600, 409_600, []),
        (425_984, 409_600, []),
        (300_000, 409_600, [("one:onboard", 150_000, "wmem_max")]),
        (300_000, 212_992, [("one:onboard", 150_000, "wmem_max"), ("two:onboard", 106_496, "rmem_max")]),
    ],
)
def test_a_reduced_window_is_reported_for_each_end(sndbuf: int, rcvbuf: int, told: list[tuple[str, int, str]]) -> None:
    assert ineffective_settings(link_stand_in.facts(), WINDOW, [with_buffers(sndbuf, rcvbuf)]) == [
        f"window=204800 bytes was not effective on {end}: the kernel gave {size} (raise net.core.{sysctl})"
        for end, size, sysctl in told
    ]


def test_a_window_reported_by_the_tool_is_not_reported_twice() -> None:
    one = with_buffers(300_000, 300_000)
    one = replace(one, measurements=tuple(replace(m, unmet=("window=... on one",)) for m in one.measurements))
    assert ineffective_settings(link_stand_in.facts(), WINDOW, [one]) == ["window=... on one"]


def judged(one: Connection, **more: Any) -> MeasurementJudgement:
    plan = GatePlan((), PROFILES["fast"])
    return figures(link_stand_in.facts(), one.measurements[0].traffic, [one], plan, Circumstances(**more))


@pytest.mark.parametrize(
    "more",
    [
        {"ineffective": ["mss=8960 bytes was requested"]},
        {"broken": [Trouble("mss=8960 bytes was requested", "do this")]},
    ],
)
def test_ineffective_settings_make_values_invalid_but_keep_them(more: dict[str, Any]) -> None:
    invalid = judged(one_connection(flow()), **more)
    assert (invalid.verdict, invalid.wanted) == (Verdict.INVALID, None)
    assert invalid.reason == "mss=8960 bytes was requested"
    found = invalid.directions[Direction.TX]
    assert found.verdict is Verdict.INVALID
    assert found.goodput.bps == pytest.approx(1_448_000 * 8)
    assert found.reason == "11.6 Mbit/s is invalid: mss=8960 bytes was requested"


def test_requests_that_failed_fail_the_test() -> None:
    traffic = HttpTraffic(Direction.TX, streams=2, size=1448)
    one = one_connection(flow(), traffic=traffic)

    def answered(report: HttpReport) -> Connection:
        measurement = Measurement(traffic, {Direction.TX: one.flows[0].flow}, http=report)
        return replace(one, measurements=(measurement,))

    good = answered(HttpReport(1000, 1.0, 1.5e6))
    assert failed_requests([good]) == ""
    bad = answered(HttpReport(1000, 1.0, 1.5e6, refused=3, timeout=2))
    assert failed_requests([good, answered(HttpReport(1000, 1.0, 1.5e6, refused=7))]) == (
        "requests failed: 7 of 2000 (answer was not 2xx)"
    )
    lost = answered(HttpReport(9, 1.0, 1.5e4, read=8, write=94))
    assert failed_requests([lost]) == "requests failed: 8 failed to read, 94 failed to write; 9 were answered"
    why = failed_requests([good, bad])
    assert why == "requests failed: 3 of 2000 (answer was not 2xx); 2 timed out"
    failed = judged(good, unanswered=why)
    assert (failed.verdict, failed.reason, failed.wanted) == (Verdict.FAIL, f"tx: {why}", None)
    assert judged(good, unanswered=why, ineffective=["window"]).verdict is Verdict.INVALID
    record = http_record(1448, 2, [HttpReport(1000, 1.0, 1.5e6), HttpReport(1000, 1.0, 1.5e6, refused=3, timeout=2)])
    assert record.requests_per_s == pytest.approx(998.5)
    text = http_text(record)
    assert text.endswith("requests/s of 1448 bytes on 2 connections, 3 not answered with 2xx, 2 timed out")


def test_goodput_above_the_senders_rate_limit_is_a_measurement_error() -> None:
    oracle = Oracle(Bitrate.mbps(941), "1000 Mbit/s link")
    cap = Bitrate.mbps(400)
    assert judge(Bitrate.mbps(408), oracle, None, cap).verdict is Verdict.PASS
    found = judge(Bitrate.mbps(496), oracle, None, cap)
    assert found.verdict is Verdict.INVALID
    assert found.reason == ("496.0 Mbit/s is above the sender's rate limit 400.0 Mbit/s: a measurement error")


def test_sockets_of_a_flow_are_recorded_from_both_ends() -> None:
    (measured,) = with_buffers(400_000, 300_000).flows
    record = sockets_record(measured.flow)
    assert record is not None
    assert (record.mss, record.sndbuf_bytes, record.rcvbuf_bytes) == (1448, 400_000, 300_000)
    assert sockets_record(flow().flow) is None
