"""The tries of one measurement: the same traffic again on fresh connections, and what it came to in all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate

from pytest_pinet.model.attempt import Attempt, Fresh
from pytest_pinet.model.events import Event
from pytest_pinet.model.evidence import EndEvidence
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import Run
from pytest_pinet.model.traffic import Direction

# Two flows that run at once cover the same time but for a timer's jitter.
EDGE_S = 1e-6


@dataclass(frozen=True)
class MeasuredFlow:
    """A flow from end ``sender`` to end ``receiver``; ``way`` is its direction seen from ``run.a``."""

    sender: int
    receiver: int
    run: Run
    way: Direction
    flow: Flow


@dataclass(frozen=True)
class Try:
    """One run of the traffic, all flows of it on fresh connections.

    ``seconds`` is what it took, set-up included. ``excluded`` says why it stands in no figure (empty: it does).
    ``discarded`` ran before and counts for nothing, since its flows began too far apart; they crossed the link, though.
    ``evidence`` has what each end counted meanwhile, by its number; empty where nobody looked.
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

    @property
    def skew_s(self) -> float | None:
        """How far apart the flows of it began; None where one flow ran, or nobody tells."""
        windows = [one.window for one in self.measurements if one.window is not None]
        return windows[0].skew_s if windows else None


def attempts_of(tries: Sequence[Try], flows: Sequence[int]) -> list[Attempt]:
    """What the judge sees of these flows (indices) together: one attempt for each try."""
    return [
        Attempt(
            together([one.flows[index].flow for index in flows]),
            one.fresh,
            (*one.events, *(event for index in flows for event in one.flows[index].flow.events)),
            one.excluded,
        )
        for one in tries
    ]


def together(flows: Sequence[Flow]) -> tuple[Sample, ...]:
    """The samples of the sum of flows that ran at once, in the time that counts for all of them.

    Their intervals end at different moments, so the bytes of each are spread evenly over its intervals and summed over
    those of the first flow.
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
    """When (s) how many bytes had arrived in all."""
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
    """One direction over several tries: what counts of their samples one after the other, their counts summed.

    A count is None where one of them did not know it. ``streams`` and ``jitter_ms`` are those of the last one.
    """
    last = flows[-1]
    if len(flows) == 1:
        return last
    return replace(
        last,
        samples=tuple(sample for flow in flows for sample in flow.counted),
        events=(),
        retransmits=_total([flow.retransmits for flow in flows]),
        lost_packets=_total([flow.lost_packets for flow in flows]),
        packets=_total([flow.packets for flow in flows]),
        sent_bytes=_total([flow.sent_bytes for flow in flows]),
    )


def least_since_start(tries: Sequence[Sequence[Flow]]) -> Bitrate:
    """The rate of the sum from the first byte on, of the try in which it was the least."""
    return Bitrate(min(sum(flow.since_start.bps for flow in flows) for flows in tries))


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def sum_of(flows: Sequence[Flow]) -> Bitrate:
    """What flows got together."""
    return Bitrate(sum(flow.goodput.bps for flow in flows))
