"""Checks that the sums of both iperf3 reports agree with their intervals, with the clock, and with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import median

from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic import iperf3_json
from pytest_pinet.traffic.iperf3_json import BadJson, Json
from pytest_pinet.traffic.iperf3_report import Iperf3Report, trusted
from pytest_pinet.traffic.iperf3_trouble import ProcessRole

TOLERANCE = 0.03
# After the end of the time, a receiver still gets what queues and buffers hold, at the rate of the link. It reports
# this as one more interval, of up to 0.1 s in the recordings, and of a second behind a deep queue. If it is longer than
# this, its bytes must fit. A process that waits for a processor ends its last interval late.
DRAIN_S = LATE_S = 0.3
# An interval that begins less than this before the end of the time begins after it.
JITTER_S = 0.05
# So many intervals show the clock of an end.
CLOCK_INTERVALS = 3
# What a TCP stream can hold on its way: the largest tcp_wmem of Linux, and the half of tcp_rmem that holds data.
STREAM_BUFFERS = (4 + 3) * 2**20
# A read or a write counts as a whole.
_BLOCK = 128 * 1024


def check_sums(
    traffic: Traffic, client: Iperf3Report, server: Iperf3Report | None, one_clock: bool, interval_s: float | None
) -> None:
    """Raise TrafficError if a sum cannot be right.

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
        if server is not None and one_clock:
            with trusted(server.output):
                _check_clocks(client, server, f"sum{suffix}", interval_s)
        for report, role in ((sender, "sent"), (receiver, "received")):
            if report is not None:
                with trusted(report.output):
                    is_timed = one_clock or report is client
                    _check_own(report, f"sum{suffix}", f"sum_{role}{suffix}", is_timed, interval_s)
        with trusted(client.output):
            _check_ends(traffic, suffix, sender or client, receiver or client)


def _check_own(report: Iperf3Report, of_interval: str, of_end: str, is_timed: bool, interval_s: float | None) -> None:
    """Compare the intervals of one end with its final sum, and with the requested time."""
    mine = _intervals(report, of_interval)
    if iperf3_json.number(report.test, "omit") or not mine:
        # The sums of some versions include the omitted part.
        return
    seconds = sum(iperf3_json.number(one, "seconds") for one in mine)
    total = report.end.get(of_end)
    if isinstance(total, Mapping):
        final = iperf3_json.count(total, "bytes")
        missed = report.missed(_bytes(mine), final, len(mine)) if of_end.startswith("sum_received") else 0
        _compare("intervals", _bytes(mine) + missed, "final sum", final, _BLOCK)
        of_sum = iperf3_json.number(total, "seconds")
        if _differ(seconds, of_sum):
            raise BadJson(f"its intervals last {seconds:.2f} s, and its final sum {of_sum:.2f} s")
    wanted = iperf3_json.number(report.test, "duration")
    timed = _timed(report, mine)
    each = _seconds(timed)
    lasted = sum(each)
    drain = seconds - lasted
    if lasted > wanted:
        # Only what is too long is explained by a late end: the last interval may be long, and yet end in time.
        lasted = max(wanted, lasted - _latest(each, wanted, interval_s))
    # What a clock adds has no bytes at the rate of the link.
    drained = (_bytes(mine) - _bytes(timed)) * sum(each) / max(_bytes(timed), 1)
    if is_timed and (_differ(lasted, wanted) or drain > max(DRAIN_S, drained * (1 + TOLERANCE))):
        raise BadJson(f"its intervals last {seconds:.2f} s of {wanted:g} s")


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


def _check_clocks(client: Iperf3Report, server: Iperf3Report, of_interval: str, interval_s: float | None) -> None:
    """Compare the clocks of both ends, which report at the same interval."""
    wanted = iperf3_json.number(client.test, "duration")
    each = [_seconds(_timed(end, _intervals(end, of_interval))) for end in (client, server)]
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


def _intervals(report: Iperf3Report, key: str) -> list[Json]:
    """Return the sums of the intervals of this name; ``-O`` omits some."""
    found = [one[key] for one in iperf3_json.members(report.json, "intervals") if key in one]
    return [one for one in found if isinstance(one, Mapping) and one.get("omitted") is not True]


def _timed(report: Iperf3Report, intervals: Sequence[Json]) -> list[Json]:
    """Return the intervals that begin within the requested time."""
    until = iperf3_json.number(report.test, "duration") - JITTER_S
    return [one for one in intervals if iperf3_json.number(one, "start") < until]


def _seconds(intervals: Sequence[Json]) -> list[float]:
    return [iperf3_json.number(one, "seconds") for one in intervals]


def _check_ends(traffic: Traffic, suffix: str, sender: Iperf3Report, receiver: Iperf3Report) -> None:
    """Compare what was sent with what was received, and what the receiver counted with what it reported."""
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


def _lost(receiver: Iperf3Report, suffix: str, sent: int) -> int:
    """Return how many of the sent bytes the receiver counted as lost; all of them if it does not say how many."""
    total = receiver.end.get(f"sum{suffix}")
    if not isinstance(total, Mapping) or not total.get("packets") or "lost_packets" not in total:
        return sent
    return int(sent * max(0, iperf3_json.lost(total)) / iperf3_json.number(total, "packets"))


def _final(report: Iperf3Report, key: str) -> int | None:
    total = report.end.get(key)
    return iperf3_json.count(total, "bytes") if isinstance(total, Mapping) else None


def _bytes(intervals: Sequence[Json]) -> int:
    return sum(iperf3_json.count(one, "bytes") for one in intervals)


def _compare(one: str, first: int, other: str, second: int, slack: int) -> None:
    if _differ(first, second, slack):
        raise BadJson(f"its {one} have {first} bytes, but the {other} has {second}")


def _differ(first: float, second: float, slack: float = 0.0) -> bool:
    return abs(first - second) > TOLERANCE * max(first, second) + slack
