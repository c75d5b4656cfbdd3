"""Parse the outputs of both ends into flows, or raise an error that says why there is no result.

A result is valid only if all of this holds: exit status 0, one JSON object without repeated keys, no ``error``, bytes
in every requested direction, at least 95 % of the time covered, and the requested number of streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.errors import TrafficError, UnsupportedError
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.warmup import CAP_S, coarser, settle
from pytest_pinet.model.measurement import Flow, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic import iperf3_json
from pytest_pinet.traffic.iperf3_command import INTERVAL_S
from pytest_pinet.traffic.iperf3_json import BadJson
from pytest_pinet.traffic.iperf3_report import Iperf3Report, Received, trusted
from pytest_pinet.traffic.iperf3_sums import check_sums

COVERED = 0.95
# A receiver's intervals and its final sum count the same bytes; a few more may arrive after the last interval.
AGREEMENT = 0.02
# Timer jitter: an interval that begins this long before the end of the warm-up is counted.
JITTER_S = 0.05
# If a receiver counts in blocks, samples are merged until one has so many blocks: an error of at most 2 %.
GRAINS = 50


def flows(
    traffic: Traffic,
    client: Iperf3Report,
    server: Iperf3Report | None,
    cap_s: float = CAP_S,
    one_clock: bool = True,
    interval_s: float | None = None,
) -> dict[Direction, Flow]:
    """Return the flow of every one-way direction of ``traffic``, with the sender's values if they are known.

    ``cap_s`` is the longest warm-up that may be detected. If no output has a receiver's intervals, its final sum
    becomes one sample, provided there is no warm-up to drop. For a one-way run, ``server`` may be None.
    ``one_clock`` and ``interval_s``: see `check_sums`. Raises TrafficError or UnsupportedError.
    """
    way = traffic.direction
    with trusted(client.output):
        _check_request(client, traffic)
        if way is Direction.BIDIR:
            received = _flow(client, traffic, Direction.RX, cap_s)
            if server is None:
                sent = _from_final_sum(client, traffic, Direction.TX)
            else:
                sent = _sent_by_client(traffic, Direction.TX, client, server, cap_s)
            found = {Direction.TX: sent, Direction.RX: received}
            senders = {Direction.TX: client, Direction.RX: server}
        elif server is not None and client.sent:
            # The client's clock timed the traffic, so any length on the server's is accepted.
            untimed = replace(traffic, duration_s=0.0, warmup_s=0.0)
            found = {way: _sent_by_client(untimed, way, client, server, cap_s)}
            senders = {way: client}
        else:
            found = {way: _flow(client, traffic, way, cap_s)}
            senders = {way: server or client}
    check_sums(traffic, client, server, one_clock, interval_s)
    for way, sender in senders.items():
        if sender is not None:
            samples, rtt_s = _reported_by_sender(sender)
            if samples:
                found[way] = replace(found[way], sender_samples=samples, rtt_s=rtt_s)
    return found


def _sent_by_client(
    traffic: Traffic, direction: Direction, client: Iperf3Report, server: Iperf3Report, cap_s: float
) -> Flow:
    """Return the flow from client to server: the server's received bytes with the client's counts of what it sent."""
    with trusted(server.output):
        _check_request(server, traffic)
        received = _flow(server, traffic, direction, cap_s)
    return replace(
        received,
        retransmits=_sender_count(client, traffic, direction, "retransmits"),
        sent_bytes=_sender_count(client, traffic, direction, "bytes"),
    )


def _check_request(report: Iperf3Report, traffic: Traffic) -> None:
    """Compare what ran with the requested traffic. Raises BadJson."""
    protocol = "UDP" if traffic.udp else "TCP"
    if (ran := iperf3_json.text(report.test, "protocol")) != protocol:
        raise BadJson(f"iperf3 ran {ran}, not {protocol}")
    bidirectional = traffic.direction is Direction.BIDIR
    if report.bidirectional != bidirectional:
        raise BadJson("only one direction ran, not both" if bidirectional else "both directions ran, not one")
    sockets = len(iperf3_json.members(report.end, "streams")) / (2 if bidirectional else 1)
    announced = iperf3_json.count(report.test, "num_streams")
    if not traffic.streams == announced == sockets:
        raise BadJson(f"{sockets:g} of {traffic.streams} streams ran")


def _reported_by_sender(report: Iperf3Report) -> tuple[tuple[Sample, ...], float | None]:
    """Return the sender's intervals and mean round trip.

    They are only evidence: without them the result is still valid.
    """
    try:
        return report.sent, report.rtt_s
    except BadJson:
        return (), None


def _warmed_up(samples: Sequence[Sample], warmup_s: float | None, cap_s: float, grain: float) -> tuple[Sample, ...]:
    """Mark the warm-up in the samples: the fixed one, or the detected one."""
    if warmup_s is None:
        return settle(samples, cap_s, grain)
    boundary = warmup_s - min(JITTER_S, warmup_s)
    return tuple(replace(s, warmup=s.start_s < boundary) for s in samples)


def _suffix(traffic: Traffic, direction: Direction) -> str:
    """Return the end of the names of the sums of this direction."""
    return "_bidir_reverse" if traffic.direction is Direction.BIDIR and direction is Direction.RX else ""


def _flow(report: Iperf3Report, traffic: Traffic, direction: Direction, cap_s: float) -> Flow:
    suffix = _suffix(traffic, direction)
    final = None
    if f"sum_received{suffix}" in report.end:
        final = iperf3_json.count(iperf3_json.member(report.end, f"sum_received{suffix}"), "bytes")
    received = _with_missed_blocks(report, final)
    if not received:
        return _from_final_sum(report, traffic, direction)
    grain = report.grain
    samples = _warmed_up([r.sample for r in received], traffic.warmup_s, cap_s, grain)
    counted = [r for r, sample in zip(received, samples, strict=True) if not sample.warmup]
    streams: Counter[int] = Counter()
    for one in counted:
        streams.update(one.streams)
    seconds = sum(r.sample.seconds for r in counted)
    _check_samples(samples, report, traffic, direction, cap_s)
    if len(streams) != traffic.streams:
        raise BadJson(f"its intervals contain {len(streams)} of {traffic.streams} streams")
    if final is not None:
        shown = sum(s.bytes for s in samples)
        if abs(final - shown) > AGREEMENT * max(final, shown):
            raise BadJson(f"its intervals have {shown} bytes, but its final sum has {final}")
    udp = [r for r in counted if r.packets is not None]
    lost, packets = sum(r.lost or 0 for r in udp), sum(r.packets or 0 for r in udp)
    if lost > packets:
        raise BadJson(f"its intervals have {lost} lost datagrams of {packets}")
    last = iperf3_json.member(report.end, f"sum{suffix}") if traffic.udp else {}
    return Flow(
        direction,
        tuple(coarser(samples, grain, GRAINS, INTERVAL_S)),
        retransmits=_sender_count(report, traffic, direction, "retransmits"),
        lost_packets=max(0, lost) if traffic.udp and udp else None,
        packets=packets if traffic.udp and udp else None,
        jitter_ms=iperf3_json.number(last, "jitter_ms") if "jitter_ms" in last else None,
        streams=tuple(Bitrate(streams[socket] * 8 / seconds) for socket in sorted(streams)),
        sent_bytes=_sender_count(report, traffic, direction, "bytes"),
        events=find_events(samples, cap_s, grain, paced=traffic.bitrate is not None),
    )


def _with_missed_blocks(report: Iperf3Report, final: int | None) -> list[Received]:
    """Return the intervals of a receiver. The blocks that it did not count in them are spread evenly."""
    received = report.received
    shown = sum(one.sample.bytes for one in received)
    missed = 0 if final is None else report.missed(shown, final, len(received))
    if not shown or not missed:
        return received
    factor = 1 + missed / shown
    return [
        replace(
            one,
            sample=replace(one.sample, bytes=round(one.sample.bytes * factor)),
            streams=Counter({socket: round(count * factor) for socket, count in one.streams.items()}),
        )
        for one in received
    ]


def _from_final_sum(report: Iperf3Report, traffic: Traffic, direction: Direction) -> Flow:
    """Return the flow of a sending client from the final sum that the receiver reported to it."""
    suffix = _suffix(traffic, direction)
    if f"sum_received{suffix}" not in report.end:
        raise UnsupportedError(
            f"iperf3 {report.version} of {report.output.end} does not report how much of the "
            f"{'UDP' if traffic.udp else 'TCP'} traffic arrived: this needs 3.11 or newer, or the client on the "
            "receiving end"
        )
    if traffic.warmup_s != 0:
        raise BadJson("it has no intervals of a receiver, so the warm-up cannot be dropped")
    final = iperf3_json.member(report.end, f"sum_received{suffix}")
    samples = (Sample(0.0, iperf3_json.number(final, "seconds"), iperf3_json.count(final, "bytes")),)
    _check_samples(samples, report, traffic, direction)
    streams = [iperf3_json.member(s, "receiver") for s in iperf3_json.members(report.end, "streams") if "receiver" in s]
    mine = [s for s in streams if not report.bidirectional or s.get("sender") is (suffix == "")]
    return Flow(
        direction,
        samples,
        retransmits=_sender_count(report, traffic, direction, "retransmits"),
        lost_packets=max(0, iperf3_json.lost(final)) if traffic.udp else None,
        packets=iperf3_json.count(final, "packets") if traffic.udp else None,
        jitter_ms=iperf3_json.number(final, "jitter_ms") if traffic.udp else None,
        streams=tuple(Bitrate(iperf3_json.number(s, "bits_per_second")) for s in mine),
        sent_bytes=_sender_count(report, traffic, direction, "bytes"),
    )


def _check_samples(
    samples: tuple[Sample, ...], report: Iperf3Report, traffic: Traffic, direction: Direction, cap_s: float = CAP_S
) -> None:
    counted = [s for s in samples if not s.warmup]
    # A start that is slower than the warm-up takes some of the requested time (see `late_start`).
    late_s = max(0.0, sum(s.seconds for s in samples if s.warmup) - cap_s)
    seconds = sum(s.seconds for s in counted) + late_s
    if seconds < COVERED * traffic.duration_s:
        raise BadJson(f"it covers {seconds:.2f} s of {traffic.duration_s:g} s")
    if sum(s.bytes for s in counted) == 0:
        raise TrafficError(
            f"no byte arrived in direction {direction} after the warm-up",
            "check MTU, firewall and switch ports: the control connection works, the traffic does not pass",
            report.output.evidence,
        )


def _sender_count(report: Iperf3Report, traffic: Traffic, direction: Direction, name: str) -> int | None:
    """Return a count of the sender; None if the report lacks it (retransmits: UDP, or a kernel that has none)."""
    total = report.end.get(f"sum_sent{_suffix(traffic, direction)}")
    return iperf3_json.count(total, name) if isinstance(total, dict) and name in total else None
