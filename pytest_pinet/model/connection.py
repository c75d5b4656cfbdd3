"""One connection of a measurement: the goodput of fresh connections, what happened during it, and if it counts."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import accumulate

from pytest_pinet.model.evidence import EndEvidence
from pytest_pinet.model.measurement import Event, Flow, Measurement, Sample, rate_of
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import TopologyFlow
from pytest_pinet.model.traffic import Direction

# Timer jitter between flows that run at once and cover the same time.
EDGE_S = 1e-6


class Fresh(StrEnum):
    """What was new: only the connection, or a link-up or boot, too. Each adds to the spread between connections."""

    CONNECTION = "connection"
    LINK = "link-up"
    BOOT = "boot"


@dataclass(frozen=True)
class MeasuredFlow:
    """A flow from end ``sender`` to end ``receiver``; ``way`` is its direction seen from ``run.a``."""

    sender: int
    receiver: int
    run: TopologyFlow
    way: Direction
    flow: Flow


@dataclass(frozen=True)
class Connection:
    """One run of the traffic with all its flows, each on a fresh connection; or some of these flows (`only`).

    ``link_events`` happened to the whole run, such as a dropped link; each flow has its own, too. ``excluded`` says why
    the connection gives no value (empty: it gives one): its values are evidence only. ``beside_link``: this reason says
    nothing about the link, such as other programs on an end; so it makes no verdict ``marginal``. ``evidence`` has the
    counters of each end, by its number; empty if they were not read. ``measurements`` is what the tool measured, one
    for each run of the topology. ``discarded`` is an earlier run that is not counted, since its flows began too far
    apart; its bytes crossed the link, though. ``dropped`` has the number of an end for each time that its link dropped.
    ``lasted_s`` is the whole time, with set-up.

    ``number`` counts the connections of this run since the link-up, from 1. ``boot_age_s`` is the age of the boot of
    the device under test at the start, ``traffic_before_s`` the seconds of traffic of this run in this boot before it.
    None is a value that is not known.
    """

    flows: tuple[MeasuredFlow, ...]
    fresh: Fresh = Fresh.CONNECTION
    link_events: tuple[Event, ...] = ()
    excluded: str = ""
    beside_link: bool = False
    evidence: tuple[EndEvidence, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    discarded: Connection | None = None
    dropped: tuple[int, ...] = ()
    lasted_s: float = 0.0
    number: int | None = None
    boot_age_s: float | None = None
    traffic_before_s: float | None = None

    def __hash__(self) -> int:
        # Rules cache what they found in a connection. A hash of all samples would cost as much as most rules.
        return hash((self.fresh, self.excluded, len(self.samples), self.samples[-1:], self.events))

    def only(self, chosen: Iterable[int]) -> Connection:
        """Return the connection with these flows only (indices)."""
        return replace(self, flows=tuple(self.flows[index] for index in chosen))

    def towards(self, way: Direction) -> Connection:
        """Return the connection with those flows only whose sum is the value of this one-way direction."""
        return replace(self, flows=tuple(one for one in self.flows if one.run.counted and one.way is way))

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """The samples of the sum of all flows at their receivers, including the warm-up."""
        return together([one.flow for one in self.flows])

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events of the whole run, and the events of the flows."""
        return (*self.link_events, *(event for one in self.flows for event in one.flow.events))

    @cached_property
    def counted(self) -> tuple[Sample, ...]:
        return tuple(s for s in self.samples if not s.warmup)

    @cached_property
    def seconds(self) -> float:
        """The counted time."""
        return sum(s.seconds for s in self.counted)

    @property
    def traffic_seconds(self) -> float:
        """All seconds of traffic, the warm-up included. Impossible lengths count as 0."""
        return math.fsum(s.seconds for s in self.samples if math.isfinite(s.seconds) and s.seconds > 0)

    @cached_property
    def goodput(self) -> Bitrate:
        """Received bits over the seconds covered, of the counted samples."""
        return rate_of(self.counted)

    @property
    def skew_s(self) -> float | None:
        """How far apart the flows began; None for a single flow, or if it is not known."""
        windows = [one.window for one in self.measurements if one.window is not None]
        return windows[0].skew_s if windows else None


def together(flows: Sequence[Flow]) -> tuple[Sample, ...]:
    """Return the samples of the sum of flows that ran at once, in the time that is counted for all of them.

    The intervals of the flows end at different moments. So the bytes of each flow are spread evenly over its intervals
    and summed over the intervals of the first flow.
    """
    if len(flows) < 2:
        return flows[0].samples if flows else ()
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
