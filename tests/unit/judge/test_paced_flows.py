"""A flow that catches up after an interruption gets no value above its rate limit, or above the wire."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.gate import GatePlan, judge
from pytest_pinet.judge.measurement import figures
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.starts import settle
from pytest_pinet.model.connection import Connection, Fresh, MeasuredFlow
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.limits import Limit, Origin
from pytest_pinet.model.measurement import Flow, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import TopologyFlow
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import GOOD, Verdict
from tests.support import link_stand_in
from tests.support.link_stand_in import one_connection

FAST = PROFILES["fast"]
SENT = Bitrate.mbps(80)
LINK = link_stand_in.facts(speeds_mbps=(100, 100))
# The receiver's 0.1 s intervals (Mbit/s) of `iperf3 -u -b 80M` on a link of 100 Mbit/s. The sender was stopped for
# 0.7 s, from 1.4 s on.
STALLED = {
    Direction.TX: "79.3 80.0 79.9 76.3 79.1 84.8 77.8 81.0 79.6 81.7 79.9 77.0 81.4 67.5 62.4 0 0 0 0 0 0 23.0 93.7 "
    "100.8 94.5 99.9 97.1 97.2 97.1 60.6 111.4 93.8 99.9 97.2 93.9 99.4 93.9 37.8 104.4 93.8",
    Direction.RX: "79.3 71.6 74.4 86.6 83.4 83.9 76.1 79.0 85.0 80.0 78.5 81.5 76.9 82.6 75.9 0 0 0 0 0 0 3.5 99.4 "
    "39.6 104.5 93.8 94.4 100.4 99.2 96.4 95.7 59.2 104.4 89.7 98.1 97.4 94.5 101.5 93.1 99.0",
}


def flow_of(rates: Sequence[float], way: Direction, lost: float = 0.0, udp: bool = True) -> Flow:
    """Return the flow of a receiver with 0.1 s intervals of these rates (Mbit/s), of which a share is lost."""
    samples = settle([Sample(n / 10, 0.1, round(rate * 12_500 * (1 - lost))) for n, rate in enumerate(rates)])
    packets = sum(round(rate * 12_500) for rate in rates) // 1448
    return Flow(
        way,
        samples,
        lost_packets=round(packets * lost) if udp else None,
        packets=packets if udp else None,
        events=find_events(samples, paced=True),
    )


def try_of(flow: Flow, traffic: Traffic) -> Connection:
    sender, receiver = (0, 1) if flow.direction is Direction.TX else (1, 0)
    run = TopologyFlow(0, 1, flow.direction)
    return one_connection(MeasuredFlow(sender, receiver, run, flow.direction, flow), traffic=traffic)


def judged(flows: Sequence[Flow], least: Bitrate | None = None, udp: bool = True) -> MeasurementJudgement:
    traffic = Traffic(flows[0].direction, udp=udp, bitrate=SENT)
    limits = [] if least is None else [Limit(least, Origin.MARKER, "the test's limit")]
    return figures(LINK, traffic, [try_of(one, traffic) for one in flows], GatePlan(limits, FAST))


@pytest.mark.parametrize("lost", [0.0, 0.01])
@pytest.mark.parametrize("least", [None, Bitrate.mbps(76)])
@pytest.mark.parametrize("way", list(STALLED))
def test_a_stalled_flow_that_catches_up_is_no_measurement(way: Direction, least: Bitrate | None, lost: float) -> None:
    stalled = flow_of([float(rate) for rate in STALLED[way].split()], way, lost)
    assert stalled.goodput.bps > 1.1 * SENT.bps > SENT.bps > stalled.since_start.bps
    found = judged([stalled], least)
    assert (found.verdict, found.wanted) == (Verdict.INVALID, Fresh.CONNECTION)
    assert found.reason == (
        f"{way}: {stalled.goodput} in direction {way} is above the sender's rate limit 80.0 Mbit/s: "
        "the flow caught up after an interruption"
    )
    assert found.directions[way].connections[0].excluded
    last = judged([stalled] * FAST.fails_after, least)
    assert (last.verdict, last.wanted) == (Verdict.INVALID, None)


@pytest.mark.parametrize("way", list(STALLED))
def test_a_fresh_connection_gives_the_value(way: Direction) -> None:
    stalled = flow_of([float(rate) for rate in STALLED[way].split()], way)
    found = judged([stalled, *[flow_of([80.0] * 40, way)] * 6], Bitrate.mbps(40))
    assert found.verdict is Verdict.MARGINAL
    assert found.directions[way].goodput.bps == pytest.approx(SENT.bps, rel=1e-3)
    assert "the flow caught up after an interruption" in found.reason


def test_a_flow_of_large_pieces_may_count_one_more() -> None:
    # 128 KiB take 1.05 s at this rate: three of them may fall into three seconds.
    traffic = Traffic(Direction.TX, bitrate=Bitrate.mbps(1))
    samples = tuple(Sample(float(n), 1.0, 131_072, warmup=n < 1) for n in range(4))
    found = figures(LINK, traffic, [try_of(Flow(Direction.TX, samples), traffic)], GatePlan((), FAST))
    assert not found.directions[Direction.TX].connections[0].excluded


@given(
    way=st.sampled_from(list(STALLED)),
    stop_s=st.floats(0.3, 2.5),
    stalled_s=st.floats(0.0, 1.5),
    wire=st.floats(81, 99),
    lost=st.sampled_from([0.0, 0.005, 0.05]),
    udp=st.booleans(),
    connections=st.integers(1, 7),
)
@settings(max_examples=150, deadline=None)
def test_no_value_that_counts_is_above_what_was_sent(
    way: Direction, stop_s: float, stalled_s: float, wire: float, lost: float, udp: bool, connections: int
) -> None:
    """The sender stops, and then catches up at the rate of the wire until its mean since the start is right."""
    rates, owed = [], 0.0
    for number in range(40):
        owed += 80.0
        now = 0.0 if stop_s <= number / 10 < stop_s + stalled_s else min(owed, wire)
        owed -= now
        rates.append(now)
    flow = flow_of(rates, way, lost, udp)
    found = judged([flow, *[flow_of([80.0] * 40, way, lost, udp)] * (connections - 1)], udp=udp)
    if found.verdict in GOOD:
        assert found.directions[way].goodput.bps <= SENT.bps * 1.03


def test_only_tcp_is_exempt_from_the_physical_limit() -> None:
    wire = Oracle(Bitrate.mbps(95.7), "100 Mbit/s link")
    stalled = judge(Bitrate.mbps(95.7), wire, None, offered=SENT, since_start=Bitrate.mbps(79.9))
    assert stalled.verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("udp", "mbps", "verdict"),
    [
        (True, 95.9, Verdict.PASS),
        (True, 96.5, Verdict.INVALID),
        (False, 95.5, Verdict.PASS),
        (False, 97, Verdict.INVALID),
    ],
)
def test_data_that_comes_late_is_no_goodput_above_the_wire(udp: bool, mbps: float, verdict: Verdict) -> None:
    # The receiver's program read nothing in the first half second, and then found it all in its buffer.
    samples = tuple(Sample(n / 10, 0.1, round(mbps * 12_500) if n >= 5 else 0, warmup=n < 5) for n in range(30))
    traffic = Traffic(Direction.TX, udp=udp)
    late = try_of(Flow(Direction.TX, samples), traffic)
    found = figures(LINK, traffic, [late], GatePlan((), FAST))
    assert found.verdict is verdict, found.reason
    if verdict is Verdict.INVALID:
        assert found.wanted is Fresh.CONNECTION
        assert "the flow caught up after an interruption" in found.reason
    # Without an interruption, no repetition helps: the clock or the counter is wrong.
    fast = tuple(Sample(n / 10, 0.1, 1_300_000) for n in range(30))
    found = figures(LINK, traffic, [try_of(Flow(Direction.TX, fast), traffic)], GatePlan((), FAST))
    assert (found.verdict, found.wanted) == (Verdict.INVALID, None)
    assert "a measurement error" in found.reason
