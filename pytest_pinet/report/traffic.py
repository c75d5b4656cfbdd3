"""Builds the records of traffic beside goodput: shared time, sockets, HTTP requests and pings; and their texts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pytest_pinet.model.measurement import Flow, HttpReport, Window
from pytest_pinet.model.ping import Ping, PingReport
from pytest_pinet.model.record.traffic import (
    HttpRecord,
    HttpRoundRecord,
    LadderRecord,
    PingRecord,
    PingRoundRecord,
    SocketsRecord,
    WindowRecord,
)


def window_record(attempt: int, window: Window) -> WindowRecord:
    """Return the record of the shared time of one attempt."""
    return WindowRecord(
        attempt=attempt,
        start_s=window.start_s,
        seconds=window.seconds,
        start_skew_s=window.skew_s,
        start_skew_within_s=window.skew_within_s,
    )


def most_apart(windows: Sequence[WindowRecord]) -> tuple[float | None, float | None]:
    """Return the largest start skew of all attempts and its uncertainty; None if no attempt has a skew."""
    known = [(skew, one.start_skew_within_s) for one in windows if (skew := one.start_skew_s) is not None]
    return max(known, key=lambda found: (found[0], found[1] or 0.0), default=(None, None))


def apart_notes(skew_s: float | None, within_s: float | None, most_s: float) -> list[str]:
    """Return a note if flows did not begin within ``most_s``, or possibly did not."""
    if skew_s is None:
        return [
            "the start times of the flows are unknown: only the time that they shared, by this host's clock, counts"
        ]
    sure_s = within_s or 0.0
    if skew_s + sure_s <= most_s:
        return []
    text = f"the flows began {skew_s * 1000:.0f} ms apart" + (f" (give or take {sure_s * 1000:.0f} ms)" * bool(sure_s))
    if skew_s > most_s:
        return [f"{text}, although they were started twice: only the time that they shared counts"]
    return [f"{text}, which can be more than {most_s * 1000:.0f} ms: only the time that they shared counts"]


def sockets_record(flow: Flow) -> SocketsRecord | None:
    """Return the kernel's data on a flow's sockets; None if it was not read or the sender's kernel did not answer."""
    sockets = flow.sockets
    if sockets is None:
        return None
    return SocketsRecord(
        connections=sockets.connections,
        mss=sockets.mss,
        rtt_s=sockets.rtt_s,
        cwnd_bytes=sockets.cwnd_bytes,
        sndbuf_bytes=sockets.sndbuf_bytes,
        rcvbuf_bytes=None if flow.far_sockets is None else flow.far_sockets.rcvbuf_bytes,
    )


def http_record(size: int, connections: int, rounds: Sequence[HttpReport]) -> HttpRecord:
    """Return the record of all rounds together. ``rounds`` must not be empty."""
    failed: dict[str, int] = {}
    for one in rounds:
        for kind, count in one.troubles.items():
            failed[kind] = failed.get(kind, 0) + count
    return HttpRecord(
        size_bytes=size,
        connections=connections,
        requests_per_s=sum(one.good for one in rounds) / sum(one.seconds for one in rounds),
        failed=failed,
        rounds=tuple(
            HttpRoundRecord(
                requests=one.requests,
                seconds=one.seconds,
                requests_per_s=one.rate,
                latency_mean_s=one.latency_mean_s,
                latency_p99_s=one.latency_p99_s,
                failed=one.troubles,
            )
            for one in rounds
        ),
    )


def ping_record(ping: Ping, rounds: Sequence[PingReport]) -> PingRecord:
    """Return the record of all series together and of each one."""
    together = pooled(rounds)
    return PingRecord(
        **_round(together).model_dump(),
        size_bytes=ping.size,
        interval_s=ping.interval_s,
        loss=together.loss,
        rounds=tuple(_round(one) for one in rounds),
    )


def _round(one: PingReport) -> PingRoundRecord:
    return PingRoundRecord(
        sent=one.sent,
        received=one.received,
        rtt_min_s=one.min_s,
        rtt_mean_s=one.mean_s,
        rtt_max_s=one.max_s,
        rtt_mdev_s=one.mdev_s,
    )


def pooled(rounds: Sequence[PingReport]) -> PingReport:
    """Return all series as one. Each returned packet has the same weight."""
    came = [one for one in rounds if one.mean_s is not None]
    means = [one.mean_s or 0.0 for one in came for _ in range(one.received)]
    return PingReport(
        sum(one.sent for one in rounds),
        sum(one.received for one in rounds),
        min((one.min_s for one in came if one.min_s is not None), default=None),
        fmean(means) if means else None,
        max((one.max_s for one in came if one.max_s is not None), default=None),
        came[-1].mdev_s if came else None,
    )


def ping_text(record: PingRecord) -> str:
    """Return a sentence: ``20 of 20 pings came back in 0.31 ms (0.20 to 1.02)``."""
    counts = f"{record.received} of {record.sent} pings came back"
    low, mean, high = record.rtt_min_s, record.rtt_mean_s, record.rtt_max_s
    if low is None or mean is None or high is None:
        return counts
    return f"{counts} in {mean * 1e3:.3g} ms ({low * 1e3:.3g} to {high * 1e3:.3g})"


def http_text(record: HttpRecord) -> str:
    """Return a sentence: ``11420 requests/s of 100000 bytes on 10 connections``."""
    failed = "".join(f", {count} {kind}" for kind, count in record.failed.items())
    rate = f"{record.requests_per_s:.0f} requests/s of {record.size_bytes} bytes"
    return f"{rate} on {record.connections} connections{failed}"


def ladder_text(record: LadderRecord) -> str:
    """Return a sentence on the highest rate that held, and on the first that did not."""
    tried = len(record.steps)
    bound = f"at most {record.loss * 100:g} % lost"
    if record.knee_bps is None:
        return f"none of {tried} rates was held with {bound}"
    last = record.steps[-1]
    text = f"{record.knee_bps / 1e6:g} Mbit/s is the highest of {tried} rates held with {bound}"
    if last.held:
        return f"{text}, and the highest that was tried"
    if not last.reached:
        return f"{text}; at {last.rate_bps / 1e6:g} Mbit/s the sender did not get rid of all"
    lost = "" if last.loss is None else f" {last.loss * 100:.3g} % were lost"
    return f"{text}; at {last.rate_bps / 1e6:g} Mbit/s{lost}"
