"""Sentences on single facts of a result, which all reports and messages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_pinet.model.record.measurement import HttpRecord, LadderRecord, PingRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.report.text_wrap import rate, rates


def limited_by_text(result: ResultRecord) -> str:
    """Return the bottleneck with its numbers; empty if it was not determined."""
    limited = result.limited_by
    return f"{limited.cause}: {limited.text}" if limited is not None else ""


def evenness_note(result: ResultRecord) -> str:
    """Return how evenly several flows shared the link, in one sentence."""
    even, goodputs = result.evenness, [flow.goodput_bps for flow in result.flows]
    assert even is not None, "only several flows share"
    least, most = rates(min(goodputs), max(goodputs))
    return (
        f"{len(goodputs)} flows, {least} to {most}; the worst got {even.least_share * 100:.1f} % of its fair share "
        f"({even.least_flow}), Jain's index {even.jain:.3f}"
    )


def scale_text(results: Iterable[ResultRecord]) -> str:
    """Return a note on all these results; empty if every link ran at full rate."""
    return scales_text(result.scale or 1.0 for result in results)


def scales_text(scales: Iterable[float]) -> str:
    """Return the note for these shares of the full link rate."""
    shares = sorted({share for share in scales if share != 1})
    if not shares:
        return ""
    listed = " and ".join(f"{share:g}" for share in shares)
    return f"links ran at {listed} of their rate; values are converted to full rate"


def tuning_notes(tunings: Iterable[Tuned]) -> list[str]:
    """Return a note for each setting without effect."""
    return [f"{one} (measured without this setting)" for one in dict.fromkeys(tunings) if not one.outcome.holds]


def ineffective(results: Sequence[ResultRecord]) -> list[str]:
    """Return a line for each setting without effect, once per run."""
    tunings = [tuned for result in results for tuned in result.tunings or ()]
    return list(dict.fromkeys(str(one) for one in tunings if not one.outcome.holds))


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


def traffic_notes(result: ResultRecord, most_s: float) -> list[str]:
    """Return a note on flows that did not begin within ``most_s``, on a ladder, and on requests."""
    apart = apart_notes(result.start_skew_s, result.start_skew_within_s, most_s) if result.windows else []
    ladder = [ladder_text(result.ladder)] if result.ladder is not None else []
    return [*apart, *ladder, *([http_text(result.http)] if result.http is not None else [])]


def versions_text(result: ResultRecord) -> str:
    """Return the versions of the tool at each end, and of kernel, driver and firmware of the device under test."""
    versions = [*result.versions.items(), *((f"dut {name}", value) for name, value in result.build.items())]
    return "".join(f"{name}: {value}\n" for name, value in versions if value)


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
    requests = f"{record.requests_per_s:.0f} requests/s of {record.size_bytes} bytes"
    return f"{requests} on {record.connections} connections{failed}"


def ladder_text(record: LadderRecord) -> str:
    """Return a sentence on the highest rate that held, and on the first that did not."""
    tried = len(record.steps)
    bound = f"at most {record.loss * 100:g} % lost"
    if record.knee_bps is None:
        return f"none of {tried} rates was held with {bound}"
    last = record.steps[-1]
    text = f"{rate(record.knee_bps)} is the highest of {tried} rates held with {bound}"
    if last.held:
        return f"{text}, and also the highest rate tried"
    if not last.reached:
        return f"{text}; at {rate(last.rate_bps)} the sender could not send all packets"
    lost = "" if last.loss is None else f" {last.loss * 100:.3g} % were lost"
    return f"{text}; at {rate(last.rate_bps)}{lost}"
