"""Proof that the far ends can do better than the limit that the device under test missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.errors import InvalidMeasurement, LabError, UnsupportedError, first_line
from pytest_pinet.lab.end import End
from pytest_pinet.lab.link import Link
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, HttpTraffic, Traffic
from pytest_pinet.traffic.scaled import scaled
from pytest_pinet.traffic.tool import TrafficTool
from pytest_pinet.tries import MeasuredFlow

LOOPBACK = "127.0.0.1"
# As short as iperf3 can: what it has to show is orders of magnitude, or the end is the bottleneck.
SECONDS = 1.0


def ceilings(
    link: Link, traffic: Traffic, flows: Sequence[MeasuredFlow], tool: TrafficTool
) -> tuple[list[tuple[End, Bitrate]], list[str]]:
    """What each end but the device under test moves between two of its own processes, both of them on its processor.

    That is less than it could send or receive, since here it does both; of UDP never more than is sent. Asked once for
    each lease of a node. Second, a sentence for each end of which it could not be measured, whatever the reason: a
    verdict that others found stands without it.
    """
    others = {index for flow in flows for index in (flow.sender, flow.receiver)}
    dut = link.dut.endpoint.node
    found = []
    doubts = []
    for end in (link.ends[index] for index in sorted(others)):
        if end.endpoint.node is dut:
            continue
        try:
            found.append((end, _ceiling(end, traffic, scaled(tool, link.scale))))
        except (LabError, UnsupportedError, InvalidMeasurement) as error:
            doubts.append(f"what {end.endpoint} moves over its own loopback could not be measured: {first_line(error)}")
    return found, doubts


def _ceiling(end: End, traffic: Traffic, tool: TrafficTool) -> Bitrate:
    own = Traffic(
        Direction.TX,
        udp=traffic.udp,
        streams=traffic.streams,
        duration_s=SECONDS,
        warmup_s=0.0,
        # TCP shows what the end can; UDP without a rate would lose most of what it sends.
        bitrate=traffic.bitrate if traffic.udp else None,
        length=traffic.length,
    )
    if isinstance(traffic, HttpTraffic):
        own = replace(traffic, direction=Direction.TX, duration_s=SECONDS)
    facts = end.session.facts
    # Of all that makes a difference: the sums of other streams, rates or packets are others.
    key = f"loopback {own.key}"
    if key not in facts:
        facts[key] = tool.measure(end.shell, end.shell, LOOPBACK, LOOPBACK, own).flows[Direction.TX].goodput
    rate: Bitrate = facts[key]
    return rate
