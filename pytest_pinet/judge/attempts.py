"""The tries of one measurement: the same traffic on fresh connections, and their combined values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate

from pytest_pinet.judge.oracle import TOLERANCE
from pytest_pinet.judge.starts import shows_level, started
from pytest_pinet.model.attempt import Attempt, Fresh
from pytest_pinet.model.evidence import EndEvidence
from pytest_pinet.model.judgement import JudgedAttempt
from pytest_pinet.model.measurement import Event, Flow, Measurement, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import TopologyFlow
from pytest_pinet.model.traffic import Direction, Traffic

# A flow with a rate limit that is more above this limit made good for an interruption. Its sender keeps the mean since
# the start (facts: 400.6 of 400 Mbit/s), so that the rate after an interruption is that of the wire.
CAUGHT_UP = 0.02
# TCP that was held back by one loss may be so much above the physical limit, too.
_CAUGHT_UP = "the flow caught up after an interruption"
# The bytes that a sender writes at once if the traffic sets no length.
_TCP_PIECE, _DATAGRAM = 128 * 1024, 1500
# Timer jitter between flows that run at once and cover the same time.
EDGE_S = 1e-6


@dataclass(frozen=True)
class MeasuredFlow:
    """A flow from end ``sender`` to end ``receiver``; ``way`` is its direction seen from ``run.a``."""

    sender: int
    receiver: int
    run: TopologyFlow
    way: Direction
    flow: Flow


@dataclass(frozen=True)
class Try:
    """One run of the traffic, with all flows on fresh connections.

    ``seconds`` includes the set-up. ``excluded`` says why the try is not counted (empty: it is counted). ``discarded``
    is an earlier run that is not counted, since its flows began too far apart; its bytes crossed the link, though.
    ``dropped`` has the number of an end for each time that its link dropped. ``beside_link`` is as in `Attempt`.
    ``evidence`` has the counters of each end, by its number; empty if they were not read.
    """

    fresh: Fresh
    started: datetime
    seconds: float
    flows: tuple[MeasuredFlow, ...]
    measurements: tuple[Measurement, ...]
    events: tuple[Event, ...] = ()
    excluded: str = ""
    evidence: tuple[EndEvidence, ...] = ()
    discarded: Try | None = None
    dropped: tuple[int, ...] = ()
    beside_link: bool = False

    @property
    def skew_s(self) -> float | None:
        """How far apart the flows began; None for a single flow, or if it is not known."""
        windows = [one.window for one in self.measurements if one.window is not None]
        return windows[0].skew_s if windows else None


def without_catching_up(
    tries: Sequence[Try], traffic: Traffic, offered: Mapping[Direction, Bitrate | None], limits: Sequence[Bitrate]
) -> list[Try]:
    """Return the tries, and exclude each in which a counted flow caught up after an interruption.

    The interruption is not counted, but what it delayed is: the value is above the rate limit in ``offered``, or above
    the physical limit of the flow (``limits``, by its index), though the rate since the start is not.
    """
    piece = traffic.length or (_DATAGRAM if traffic.udp else _TCP_PIECE)
    held_back = TOLERANCE if traffic.udp else CAUGHT_UP

    def why(one: Try) -> str:
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

    return [one if one.excluded else replace(one, excluded=why(one)) for one in tries]


def showing_a_level(tries: Sequence[Try]) -> list[Try]:
    """Return the tries that count: not excluded, and all their flows show their level.

    If no try counts, all are shown anyway.
    """
    counted = [one for one in tries if not one.excluded]
    if not counted:
        return list(tries)
    of_flows = [
        shows_level([started(one.flows[index].flow.events, one.flows[index].flow.samples) for one in counted])
        for index in range(len(counted[0].flows))
    ]
    return [one for one, shown in zip(counted, zip(*of_flows, strict=True), strict=True) if all(shown)] or counted


def attempts_of(tries: Sequence[Try], flows: Sequence[int]) -> list[Attempt]:
    """Return one attempt for each try: these flows (indices) together."""
    return [
        Attempt(
            together([one.flows[index].flow for index in flows]),
            one.fresh,
            (*one.events, *(event for index in flows for event in one.flows[index].flow.events)),
            one.excluded,
            one.beside_link,
        )
        for one in tries
    ]


def judged_attempts(tries: Sequence[Try], flows: Sequence[int]) -> tuple[JudgedAttempt, ...]:
    """Return the attempts as results show them."""
    return tuple(
        JudgedAttempt(
            one.fresh,
            one.goodput,
            one.seconds,
            one.traffic_seconds - one.seconds,
            one.events,
            one.excluded,
            one.samples,
        )
        for one in attempts_of(tries, flows)
    )


def together(flows: Sequence[Flow]) -> tuple[Sample, ...]:
    """Return the samples of the sum of flows that ran at once, in the time that is counted for all of them.

    The intervals of the flows end at different moments. So the bytes of each flow are spread evenly over its intervals
    and summed over the intervals of the first flow.
    """
    if len(flows) == 1:
        return flows[0].samples
    begin = max(min((s.start_s for s in flow.counted), default=0.0) for flow in flows)
    end = min(max((s.start_s + s.seconds for s in flow.counted), default=0.0) for flow in flows)
    arrivals = [_arrivals(flow.samples) for flow in flows]
    found = []
    for sample in flows[0].samples:
        stop = sample.start_s + sample.seconds
        received = sum(_at(one, stop) - _at(one, sample.start_s) for one in arrivals)
        counted = sample.start_s >= begin - EDGE_S and stop <= end + EDGE_S
        found.append(Sample(sample.start_s, sample.seconds, round(received), warmup=not counted))
    return tuple(found)


def _arrivals(samples: Sequence[Sample]) -> tuple[list[float], list[float]]:
    """Return times (s), and the total bytes that had arrived by then."""
    starts = [samples[0].start_s] if samples else [0.0]
    times = [*starts, *(s.start_s + s.seconds for s in samples)]
    return times, [0.0, *accumulate(float(s.bytes) for s in samples)]


def _at(arrivals: tuple[list[float], list[float]], when_s: float) -> float:
    times, totals = arrivals
    if when_s <= times[0]:
        return 0.0
    if when_s >= times[-1]:
        return totals[-1]
    after = bisect_right(times, when_s)
    before = after - 1
    part = (when_s - times[before]) / (times[after] - times[before])
    return totals[before] + part * (totals[after] - totals[before])


def pooled(flows: Sequence[Flow]) -> Flow:
    """Return one direction over several tries: the counted samples one after the other, and the sums of the counts.

    A count is None if one try does not know it. ``streams`` and ``jitter_ms`` come from the last try.
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


def least_since_start(tries: Sequence[Sequence[Flow]]) -> Bitrate:
    """Return the rate of the sum from the first byte on, in the try in which it was lowest."""
    return Bitrate(min(sum(flow.since_start.bps for flow in flows) for flows in tries))


def total(values: Sequence[int | None]) -> int | None:
    """Return the sum; None if one value is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def sum_of(flows: Sequence[Flow]) -> Bitrate:
    """Return the goodput of all flows together."""
    return Bitrate(sum(flow.goodput.bps for flow in flows))
