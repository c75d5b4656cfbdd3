"""The connections of one measurement: the same traffic on fresh connections, and their combined values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_pinet.judge.oracle import TOLERANCE
from pytest_pinet.judge.starts import shows_level, started
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic

# A flow with a rate limit that is more above this limit made good for an interruption. Its sender keeps the mean since
# the start (facts: 400.6 of 400 Mbit/s), so that the rate after an interruption is that of the wire.
CAUGHT_UP = 0.02
# TCP that was held back by one loss may be so much above the physical limit, too.
_CAUGHT_UP = "the flow caught up after an interruption"
# The bytes that a sender writes at once if the traffic sets no length.
_TCP_PIECE, _DATAGRAM = 128 * 1024, 1500


def without_catching_up(
    connections: Sequence[Connection],
    traffic: Traffic,
    offered: Mapping[Direction, Bitrate | None],
    limits: Sequence[Bitrate],
) -> list[Connection]:
    """Return the connections, and exclude each in which a counted flow caught up after an interruption.

    The interruption is not counted, but what it delayed is: the value is above the rate limit in ``offered``, or above
    the physical limit of the flow (``limits``, by its index), though the rate since the start is not.
    """
    piece = traffic.length or (_DATAGRAM if traffic.udp else _TCP_PIECE)
    held_back = TOLERANCE if traffic.udp else CAUGHT_UP

    def why(one: Connection) -> str:
        for measured, limit in zip(one.flows, limits, strict=True):
            flow, sent = measured.flow, offered[measured.way]
            if not measured.run.counted or not flow.seconds:
                continue
            room_bps = 8 * traffic.streams * piece / flow.seconds
            above = ""
            if sent is not None and flow.goodput.bps > sent.bps * (1 + CAUGHT_UP) + room_bps:
                above = f"the sender's rate limit {sent}"
            elif flow.goodput.bps > limit.bps * (1 + held_back) >= flow.since_start.bps:
                above = f"the physical limit {limit}"
            if above:
                return f"{flow.goodput} in direction {measured.way} is above {above}: {_CAUGHT_UP}"
        return ""

    return [one if one.excluded else replace(one, excluded=why(one)) for one in connections]


def showing_a_level(connections: Sequence[Connection]) -> list[Connection]:
    """Return the connections that count: not excluded, and all their flows show their level.

    If none counts, all are shown anyway.
    """
    counted = [one for one in connections if not one.excluded]
    if not counted:
        return list(connections)
    of_flows = [
        shows_level([started(one.flows[index].flow.events, one.flows[index].flow.samples) for one in counted])
        for index in range(len(counted[0].flows))
    ]
    return [one for one, shown in zip(counted, zip(*of_flows, strict=True), strict=True) if all(shown)] or counted


def pooled(flows: Sequence[Flow]) -> Flow:
    """Return one direction over several connections: the counted samples in turn, and the sums of the counts.

    A count is None if one connection does not know it. ``streams`` and ``jitter_ms`` come from the last connection.
    """
    last = flows[-1]
    if len(flows) == 1:
        return last
    return replace(
        last,
        samples=tuple(sample for flow in flows for sample in flow.counted),
        events=(),
        retransmits=total([flow.retransmits for flow in flows]),
        lost_packets=total([flow.lost_packets for flow in flows]),
        packets=total([flow.packets for flow in flows]),
        sent_bytes=total([flow.sent_bytes for flow in flows]),
    )


def least_since_start(connections: Sequence[Sequence[Flow]]) -> Bitrate:
    """Return the rate of the sum from the first byte on, in the connection in which it was lowest."""
    return Bitrate(min(sum(flow.since_start.bps for flow in flows) for flows in connections))


def total(values: Sequence[int | None]) -> int | None:
    """Return the sum; None if one value is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def sum_of(flows: Sequence[Flow]) -> Bitrate:
    """Return the goodput of all flows together."""
    return Bitrate(sum(flow.goodput.bps for flow in flows))
