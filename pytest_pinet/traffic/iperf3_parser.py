"""Parse the outputs of both ends into flows, or raise an error that says why there is no result.

A result is valid only if all of this holds: exit status 0, one JSON object without repeated keys, no ``error``, bytes
in every requested direction, at least 95 % of the time covered, and the requested number of streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from statistics import median

from pytest_pinet.errors import TrafficError
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.starts import CAP_S, coarser, settle
from pytest_pinet.model.measurement import Flow, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic import iperf3_json
from pytest_pinet.traffic.iperf3_command import INTERVAL_S
from pytest_pinet.traffic.iperf3_json import BadJson
from pytest_pinet.traffic.iperf3_report import Iperf3Report, Received, trusted
from pytest_pinet.traffic.iperf3_trouble import ProcessRole

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
    server: Iperf3Report,
    cap_s: float = CAP_S,
    one_clock: bool = True,
    interval_s: float | None = None,
) -> dict[Direction, Flow]:
    """Return the flow of every one-way direction of ``traffic``, with the sender's values if they are known.

    ``cap_s`` is the longest warm-up that may be detected. ``one_clock`` and ``interval_s``: see `check_sums`. Raises
    TrafficError.
    """
    way = traffic.direction
    with trusted(client.output):
        _check_request(client, traffic)
        # Only the client times the traffic, so any length on another clock is accepted.
        untimed = replace(traffic, duration_s=0.0, warmup_s=0.0)
        if way is Direction.BIDIR:
            sent = _sent_by_client(traffic if one_clock else untimed, Direction.TX, client, server, cap_s)
            found = {Direction.TX: sent, Direction.RX: _flow(client, traffic, Direction.RX, cap_s)}
            senders = {Direction.TX: client, Direction.RX: server}
        elif client.sent:
            found = {way: _sent_by_client(untimed, way, client, server, cap_s)}
            senders = {way: client}
        else:
            found = {way: _flow(client, traffic, way, cap_s)}
            senders = {way: server}
    check_sums(traffic, client, server, one_clock, interval_s)
    for way, sender in senders.items():
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
    # A link that stands still at the end also delays the message that ends the test: what follows is not measured.
    received = [
        one for one in _with_missed_blocks(report, final) if one.sample.bytes or one.sample.start_s < _end_s(report)
    ]
    if not received:
        raise BadJson("it has no intervals of a receiver")
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


TOLERANCE = 0.03
# A process that waits for a processor ends its last interval late, by up to 0.1 s in the recordings.
LATE_S = 0.3
# So many intervals show the clock of an end.
CLOCK_INTERVALS = 3
# What a TCP stream can hold on its way: the largest tcp_wmem of Linux, and the half of tcp_rmem that holds data.
STREAM_BUFFERS = (4 + 3) * 2**20
# A read or a write counts as a whole.
_BLOCK = 128 * 1024


def check_sums(
    traffic: Traffic, client: Iperf3Report, server: Iperf3Report, one_clock: bool, interval_s: float | None
) -> None:
    """Raise TrafficError if the sums do not agree with their intervals, with the clock, or with each other.

    ``one_clock``: the clocks of both ends run alike. The clock of an emulated board can count instructions.
    ``interval_s`` is the requested interval of reports, if it is known.
    """
    with trusted(client.output):
        if traffic.direction is Direction.BIDIR:
            ways: Sequence[tuple[str, bool]] = (("", True), ("_bidir_reverse", False))
        else:
            ways = (("", not iperf3_json.number(client.test, "reverse")),)
    for suffix, client_sends in ways:
        sender, receiver = (client, server) if client_sends else (server, client)
        if one_clock:
            with trusted(server.output):
                _check_clocks(client, server, client_sends, interval_s)
        for report, role in ((sender, "sent"), (receiver, "received")):
            with trusted(report.output):
                # All sums have the times of the first stream (iperf_api.c). If both ends send, the client sends in it:
                # what the client received has the server's time, and only "sum_sent" the client's.
                own = "sent" if (report is client) == ways[0][1] else "received"
                sums = f"sum_{role}{suffix}", f"sum_{role if one_clock else own}{suffix}"
                _check_own(report, role == "sent", sums, one_clock or report is client, interval_s)
        with trusted(client.output):
            _check_ends(traffic, suffix, sender, receiver, one_clock or receiver is client)


def _check_own(
    report: Iperf3Report, sent: bool, sums: tuple[str, str], is_timed: bool, interval_s: float | None
) -> None:
    """Compare the intervals of one end with its final sum, and with the requested time.

    ``sums`` are the names of the sum with this end's bytes, and of the sum with the time on this end's clock.
    """
    mine = report.intervals(sent)
    if iperf3_json.number(report.test, "omit") or not mine:
        # The sums of some versions include the omitted part.
        return
    seconds = sum(one.seconds for one in mine)
    final = _final(report, sums[0])
    if final is not None:
        missed = 0 if sent else report.missed(_bytes(mine), final, len(mine))
        _compare("intervals", _bytes(mine) + missed, "final sum", final, _BLOCK)
        of_sum = iperf3_json.number(iperf3_json.member(report.end, sums[1]), "seconds")
        if _differ(seconds, of_sum):
            raise BadJson(f"its intervals last {seconds:.2f} s, and its final sum {of_sum:.2f} s")
    wanted = iperf3_json.number(report.test, "duration")
    # A receiver reports later intervals, too, as long as queues empty or the link stands still.
    each = [one.seconds for one in _timed(report, mine)]
    lasted = sum(each)
    if lasted > wanted:
        # Only what is too long is explained by a late end: the last interval may be long, and yet end in time.
        lasted = max(wanted, lasted - _latest(each, wanted, interval_s))
    if is_timed and _differ(lasted, wanted):
        raise BadJson(f"its intervals last {sum(each):.2f} s of {wanted:g} s")


def _latest(each: Sequence[float], wanted: float, interval_s: float | None) -> float:
    """Return how late (s) at most the last of these intervals ends for a reason that says nothing of the clock."""
    busy = _misses_reports(each, wanted, interval_s)
    return min(max(each) if busy else max(each[-1] - median(each), 0.0), LATE_S)


def _misses_reports(each: Sequence[float], wanted: float, interval_s: float | None) -> bool:
    """Return whether iperf3 made fewer reports than requested, because it was busy with its data.

    It writes up to ten blocks to each stream before it looks at its timers (multisend in iperf_api.c). On a slow board
    with several streams this can take longer than an interval, so intervals are longer, and the last one ends late.
    """
    return interval_s is not None and len(each) < wanted / interval_s - 1


def _check_clocks(client: Iperf3Report, server: Iperf3Report, client_sends: bool, interval_s: float | None) -> None:
    """Compare the clocks of both ends, which report at the same interval."""
    wanted = iperf3_json.number(client.test, "duration")
    intervals = (_timed(client, client.intervals(client_sends)), _timed(server, server.intervals(not client_sends)))
    each = [[one.seconds for one in of_end] for of_end in intervals]
    # After a report that iperf3 did not make, all ends would look late.
    complete = 0 if interval_s is None else round(wanted / interval_s)
    if min(map(len, each)) < max(CLOCK_INTERVALS, complete):
        return
    here, there = map(_interval_by_clock, each)
    if _differ(here, there):
        raise BadJson(f"its intervals last {there:.4g} s, the intervals of the client {here:.4g} s")


def _interval_by_clock(each: Sequence[float]) -> float:
    """Return how long (s) an interval is by the clock of this end.

    The timer of iperf3 keeps its beat (timer.c). A busy processor delays some intervals, but none ends early. So the
    interval with the least delay shows the clock. The first half is left out: there, a small delay is a large share.
    """
    ends = [end / number for number, end in enumerate(accumulate(each), 1)]
    return min(ends[len(ends) // 2 :])


def _timed(report: Iperf3Report, intervals: Sequence[Sample]) -> list[Sample]:
    """Return the intervals that begin within the requested time."""
    return [one for one in intervals if one.start_s < _end_s(report)]


def _end_s(report: Iperf3Report) -> float:
    """Return when the requested time is over (s): later intervals begin after this."""
    return iperf3_json.number(report.test, "duration") - JITTER_S


def _check_ends(traffic: Traffic, suffix: str, sender: Iperf3Report, receiver: Iperf3Report, is_timed: bool) -> None:
    """Compare what was sent with what was received, and what the receiver counted with what it reported.

    ``is_timed``: the traffic ends at the requested time on the receiver's clock.
    """
    sent, received = _final(sender, f"sum_sent{suffix}"), _final(receiver, f"sum_received{suffix}")
    # A server that sends does not know what arrived.
    reported = _final(sender, f"sum_received{suffix}") if sender.output.role is ProcessRole.CLIENT else None
    if received is not None and reported is not None:
        _compare("receiver's output", received, "sender's output", reported, _BLOCK * traffic.streams)
    if sent is None or received is None:
        return
    slack = _BLOCK * traffic.streams
    if received > sent * (1 + TOLERANCE) + slack:
        raise BadJson(f"{received} bytes arrived, but only {sent} were sent")
    # TCP counts what the program wrote. Datagrams fill small buffers, and some are lost.
    held = 0 if traffic.udp else traffic.streams * max(STREAM_BUFFERS, 4 * (traffic.window or 0))
    arrived = received + (_lost(receiver, suffix, sent) if traffic.udp else 0)
    if sent > arrived * (1 + TOLERANCE) + held + slack:
        raise BadJson(f"{sent} bytes were sent, but only {received} arrived; buffers hold at most {held}")
    intervals = receiver.intervals(sent=False)
    late = _bytes(intervals) - _bytes(_timed(receiver, intervals))
    if is_timed and not traffic.udp and late > held + slack:
        raise BadJson(f"{late} bytes arrived after the end; buffers hold at most {held}")


def _lost(receiver: Iperf3Report, suffix: str, sent: int) -> int:
    """Return how many of the sent bytes the receiver counted as lost; all of them if it does not say how many."""
    total = receiver.end.get(f"sum{suffix}")
    if not isinstance(total, Mapping) or not total.get("packets") or "lost_packets" not in total:
        return sent
    return int(sent * max(0, iperf3_json.lost(total)) / iperf3_json.number(total, "packets"))


def _final(report: Iperf3Report, key: str) -> int | None:
    total = report.end.get(key)
    return iperf3_json.count(total, "bytes") if isinstance(total, Mapping) else None


def _bytes(intervals: Sequence[Sample]) -> int:
    return sum(one.bytes for one in intervals)


def _compare(one: str, first: int, other: str, second: int, slack: int) -> None:
    if _differ(first, second, slack):
        raise BadJson(f"its {one} have {first} bytes, but the {other} has {second}")


def _differ(first: float, second: float, slack: float = 0.0) -> bool:
    return abs(first - second) > TOLERANCE * max(first, second) + slack
