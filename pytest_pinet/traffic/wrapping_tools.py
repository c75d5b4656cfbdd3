"""Tools that convert the values of another tool: of links at a share of their rate, and of virtual clocks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from pytest_pinet.errors import TrafficError
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.starts import settle
from pytest_pinet.model.measurement import Flow, HttpReport, Measurement, Sample, Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import RESPONSE_HEAD, Direction, HttpTraffic, LadderTraffic, Traffic
from pytest_pinet.traffic.tool import TrafficJob, TrafficTool, WrappingTool

# Links that run at a share of their rate, for slow machines.
# Bytes and counts are multiplied by ``1 / scale``: a link at a tenth of its rate moves a tenth of them in the same
# time. Queues empty more slowly by the same factor, so round trips and response times are multiplied by ``scale``.
# Values that the kernel keeps in bytes (MSS, windows, buffers) stay. Units that are counted whole are made smaller, so
# that equally many arrive in a second: the pieces in which TCP data is passed to the kernel, and the files of a web
# server.

T = TypeVar("T", bound=Traffic)

# The default piece that iperf3 passes to TCP at once, and the smallest useful piece for a system call.
TCP_PIECE, LEAST_PIECE = 128 * 1024, 1024
# Smaller files consist mostly of headers.
LEAST_FILE = 10 * RESPONSE_HEAD


def wrap_scaled(tool: TrafficTool, scale: float) -> TrafficTool:
    """Return the tool for links that run at ``scale`` (above 0, at most 1) of their rate."""
    return tool if scale == 1 else ScaledTool(tool, scale)


class ScaledTool(WrappingTool):
    """Sends the requested traffic at the scale, and converts the values to full rate."""

    def __init__(self, tool: TrafficTool, scale: float) -> None:
        super().__init__(tool)
        self._scale = scale

    def _sent(self, traffic: Traffic) -> Traffic:
        return sent(traffic, self._scale)

    def _result(self, found: Measurement, job: TrafficJob) -> Measurement:
        return replace(unscale_measurement(found, self._scale, job.traffic), traffic=job.traffic)


def sent(traffic: T, scale: float) -> T:
    """Return the traffic to send on a link at ``scale``."""
    if isinstance(traffic, LadderTraffic):
        traffic = replace(traffic, rates=tuple(_slower(rate, scale) for rate in traffic.rates))
    if isinstance(traffic, HttpTraffic):
        response = round((traffic.size + RESPONSE_HEAD) * scale)
        traffic = replace(traffic, size=min(traffic.size, max(LEAST_FILE, response - RESPONSE_HEAD)))
    return replace(
        traffic,
        length=_piece(traffic, scale),
        bitrate=None if traffic.bitrate is None else _slower(traffic.bitrate, scale),
        peer_bitrate=None if traffic.peer_bitrate is None else _slower(traffic.peer_bitrate, scale),
    )


def unscale_measurement(found: Measurement, scale: float, requested: Traffic | None = None) -> Measurement:
    """Return the values converted to full rate. ``requested`` is the requested traffic. Raw output stays as printed."""
    flows = {way: _flow(flow, scale) for way, flow in found.flows.items()}
    if found.http is None:
        return replace(found, flows=flows)
    smaller = 1.0
    if isinstance(requested, HttpTraffic) and isinstance(found.traffic, HttpTraffic):
        size, full = found.traffic.size, requested.size
        smaller = (size + RESPONSE_HEAD) / (full + RESPONSE_HEAD)
        flows = {way: _with_payload(flow, smaller * full / size) for way, flow in flows.items()}
    return replace(found, flows=flows, http=_http(found.http, scale, smaller))


def _with_payload(flow: Flow, times: float) -> Flow:
    """Convert a flow to larger files: more of the bytes are payload, and fewer are headers."""
    samples = tuple(replace(sample, bytes=round(times * sample.bytes)) for sample in flow.samples)
    more = sum(sample.bytes for sample in samples) - sum(sample.bytes for sample in flow.samples)
    return replace(flow, samples=samples, head_bytes=max(0, flow.head_bytes - more))


def _piece(traffic: Traffic, scale: float) -> int | None:
    """Return the length of a piece. A datagram keeps its length, which is that of a packet."""
    if traffic.udp or isinstance(traffic, HttpTraffic):
        return traffic.length
    whole = traffic.length or TCP_PIECE
    return min(whole, max(LEAST_PIECE, round(whole * scale)))


def _slower(rate: Bitrate, scale: float) -> Bitrate:
    return Bitrate(rate.bps * scale)


def _flow(flow: Flow, scale: float) -> Flow:
    return replace(
        flow,
        samples=_samples(flow.samples, scale),
        sender_samples=_samples(flow.sender_samples, scale),
        retransmits=_more(flow.retransmits, scale),
        lost_packets=_more(flow.lost_packets, scale),
        packets=_more(flow.packets, scale),
        sent_bytes=_more(flow.sent_bytes, scale),
        head_bytes=round(flow.head_bytes / scale),
        jitter_ms=_shorter(flow.jitter_ms, scale),
        rtt_s=_shorter(flow.rtt_s, scale),
        streams=tuple(Bitrate(rate.bps / scale) for rate in flow.streams),
        sockets=_sockets(flow.sockets, scale),
        far_sockets=_sockets(flow.far_sockets, scale),
    )


def _samples(samples: tuple[Sample, ...], scale: float) -> tuple[Sample, ...]:
    return tuple(replace(sample, bytes=round(sample.bytes / scale)) for sample in samples)


def _sockets(found: Sockets | None, scale: float) -> Sockets | None:
    if found is None:
        return None
    return replace(
        found,
        rtt_s=_shorter(found.rtt_s, scale),
        rtt_min_s=_shorter(found.rtt_min_s, scale),
        retransmits=_more(found.retransmits, scale),
        while_busy=None if found.while_busy is None else Bitrate(found.while_busy.bps / scale),
    )


def _http(found: HttpReport, scale: float, smaller: float) -> HttpReport:
    """Convert an HTTP report; ``smaller`` is the size of a scaled response over the size of a full one."""
    times = smaller / scale
    return replace(
        found,
        requests=round(times * found.requests),
        refused=round(times * found.refused),
        read_bytes=found.read_bytes / scale,
        latency_mean_s=_shorter(found.latency_mean_s, 1 / times),
        latency_max_s=_shorter(found.latency_max_s, 1 / times),
        latency_p99_s=_shorter(found.latency_p99_s, 1 / times),
    )


def _more(count: int | None, scale: float) -> int | None:
    return None if count is None else round(count / scale)


def _shorter(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


# Traffic with an end whose virtual clock counts instructions: goodput is given in that end's time in both directions.
# Such an end runs at its own pace, which varies with the load of the machine. So seconds of the other end are
# meaningless for it. If the end receives, its own report has the right time. If it sends, the intervals of its own
# report replace the receiver's; the receiver's are kept as ``other_samples``.

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
