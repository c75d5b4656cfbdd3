"""Traffic with an end whose virtual clock counts instructions: goodput is given in that end's time in both directions.

Such an end runs at its own pace, which varies with the load of the machine. So seconds of the other end are meaningless
for it. If the end receives, its own report has the right time. If it sends, the intervals of its own report replace the
receiver's; the receiver's are kept as ``other_samples``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pytest_pinet.errors import TrafficError
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.warmup import settle
from pytest_pinet.model.measurement import Flow, Measurement
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.tool import TrafficJob, TrafficTool, WrappingTool

# With less than this share of the requested time on the end's own clock, the machine is too slow to measure.
LEAST_PART = 0.2


def in_virtual_time(tool: TrafficTool, ends: Collection[str]) -> TrafficTool:
    """Return the tool for links with some ends (names of their shells) that have a virtual clock."""
    return VirtualTimeTool(tool, frozenset(ends)) if ends else tool


class VirtualTimeTool(WrappingTool):
    """Measures with the tool, and gives flows from an end with a virtual clock in the time of that clock.

    Raises TrafficError also if such a sender does not report what it sent.
    """

    def __init__(self, tool: TrafficTool, ends: frozenset[str]) -> None:
        super().__init__(tool)
        self._ends = ends

    def _result(self, found: Measurement, job: TrafficJob) -> Measurement:
        flows, notes = {}, list(found.notes)
        for way, flow in found.flows.items():
            sender, receiver = (job.dut, job.peer) if way is Direction.TX else (job.peer, job.dut)
            virtual = [shell for shell in (job.dut, sender, receiver) if shell.name in self._ends]
            if not virtual:
                flows[way] = flow
                continue
            whose = virtual[0]
            flows[way] = in_senders_time(flow, job.traffic, job.warmup_cap_s, sender.name) if whose is sender else flow
            # Without values, which differ between connections: a result has this note once.
            notes.append(f"{way}: measured in the virtual time of {whose.name}, which counts instructions")
        return replace(found, flows=flows, notes=tuple(notes))


def in_senders_time(flow: Flow, traffic: Traffic, warmup_cap_s: float, sender: str) -> Flow:
    """Return the flow with its sender's samples; the receiver's samples become ``other_samples``.

    Raises TrafficError.
    """
    sent = flow.sender_samples
    if sum(sample.seconds for sample in sent) < LEAST_PART * traffic.duration_s:
        raise TrafficError(
            f"the clock of {sender} is virtual, and by this clock its iperf3 reported only "
            f"{sum(s.seconds for s in sent):.1f} s of the requested {traffic.duration_s:g} s",
            f"look at the load of the machine that emulates {sender}, then measure for longer",
        )
    if traffic.warmup_s is None:
        samples = settle(sent, warmup_cap_s)
    else:
        # At least one sample counts.
        last = sent[-1].start_s
        samples = tuple(replace(s, warmup=s.start_s < min(traffic.warmup_s, last)) for s in sent)
    counted = [sample for sample in samples if not sample.warmup]
    seconds = sum(sample.seconds for sample in counted)
    total = sum(sample.bytes for sample in counted) * 8 / seconds if seconds else 0.0
    known = sum(rate.bps for rate in flow.streams)
    # Only the receiver reports each stream. The shares of the streams hold on any clock.
    streams = tuple(Bitrate(rate.bps * total / known) for rate in flow.streams) if known else flow.streams
    return replace(
        flow,
        samples=samples,
        other_samples=flow.samples,
        streams=streams,
        events=find_events(samples, warmup_cap_s, paced=traffic.bitrate is not None),
    )
