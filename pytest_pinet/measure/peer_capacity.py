"""Measure the loopback goodput of the peers, to find a peer that cannot reach the limit that the DUT missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.errors import InvalidMeasurement, LabError, UnsupportedError, first_line
from pytest_pinet.judge.attempts import MeasuredFlow
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, HttpTraffic, Traffic
from pytest_pinet.traffic.scaled import wrap_scaled
from pytest_pinet.traffic.tool import TrafficJob, TrafficTool

LOOPBACK = "127.0.0.1"
# The shortest run of iperf3. It is long enough: a peer's capacity is far above the limit, or the peer is the
# bottleneck.
SECONDS = 1.0


def ceilings(
    link: Link, traffic: Traffic, flows: Sequence[MeasuredFlow], tool: TrafficTool
) -> tuple[dict[str, Bitrate], list[str]]:
    """Return the loopback goodput of each end except the device under test, by the name of the end.

    Both processes run on the end's processor, so the end could send or receive more than this value. For UDP the value
    is never above the sent rate. It is measured once per lease of a node. The second value has a sentence for each end
    that could not be measured, for any reason: this error must not replace the verdict of the gate.
    """
    others = {index for flow in flows for index in (flow.sender, flow.receiver)}
    dut = link.dut.endpoint.node
    found: dict[str, Bitrate] = {}
    doubts = []
    for end in (link.ends[index] for index in sorted(others)):
        if end.endpoint.node is dut:
            continue
        try:
            found[str(end.endpoint)] = _ceiling(end, traffic, wrap_scaled(tool, link.scale))
        except (LabError, UnsupportedError, InvalidMeasurement) as error:
            doubts.append(f"the loopback goodput of {end.endpoint} could not be measured: {first_line(error)}")
    return found, doubts


def _ceiling(end: End, traffic: Traffic, tool: TrafficTool) -> Bitrate:
    own = Traffic(
        Direction.TX,
        udp=traffic.udp,
        streams=traffic.streams,
        duration_s=SECONDS,
        warmup_s=0.0,
        # TCP finds the capacity itself. UDP without a rate would lose most of its datagrams.
        bitrate=traffic.bitrate if traffic.udp else None,
        length=traffic.length,
    )
    if isinstance(traffic, HttpTraffic):
        own = replace(traffic, direction=Direction.TX, duration_s=SECONDS)
    facts = end.session.facts
    # The key contains all parameters: other streams, rates or packet sizes give other values.
    key = f"loopback {own.key}"
    if key not in facts:
        job = TrafficJob(end.shell, end.shell, LOOPBACK, LOOPBACK, own)
        facts[key] = tool.measure(job).flows[Direction.TX].goodput
    rate: Bitrate = facts[key]
    return rate
