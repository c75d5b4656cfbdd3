"""Proof that the far ends can do better than the limit that the device under test missed."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.lab.end import End
from pytest_pinet.lab.link import Link
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.tries import MeasuredFlow

LOOPBACK = "127.0.0.1"
# As short as iperf3 can: what it has to show is orders of magnitude, or the end is the bottleneck.
SECONDS = 1.0


def ceilings(link: Link, traffic: Traffic, flows: Sequence[MeasuredFlow], tool: Iperf3) -> list[tuple[End, Bitrate]]:
    """What each end but the device under test moves between two of its own processes, both of them on its processor.

    That is less than it could send or receive, since here it does both. Asked once for each lease of a node. Raises
    LabError.
    """
    others = {index for flow in flows for index in (flow.sender, flow.receiver)}
    dut = link.dut.endpoint.node
    found = []
    for end in (link.ends[index] for index in sorted(others)):
        if end.endpoint.node is not dut:
            found.append((end, _ceiling(end, traffic, tool)))
    return found


def _ceiling(end: End, traffic: Traffic, tool: Iperf3) -> Bitrate:
    facts = end.session.facts
    key = f"loopback {'udp' if traffic.udp else 'tcp'} {traffic.streams}"
    if key not in facts:
        own = Traffic(
            Direction.TX,
            udp=traffic.udp,
            streams=traffic.streams,
            duration_s=SECONDS,
            warmup_s=0.0,
            bitrate=traffic.bitrate,
            length=traffic.length,
        )
        flow = tool.measure(end.shell, end.shell, LOOPBACK, LOOPBACK, own).flows[Direction.TX]
        facts[key] = flow.goodput
    rate: Bitrate = facts[key]
    return rate
