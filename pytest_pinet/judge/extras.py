"""The costs of traffic in one direction: retransmits, loss, latency, processor time; and their verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.judge.limits import most_specific
from pytest_pinet.judge.rules import part_rule
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.model.limits import MAXIMA, Limit, Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict

# Why a value may be unknown, so that its limit cannot be judged.
_UNKNOWN = {
    Metric.RETRANSMITS: "retransmits not judged: the sender does not tell them (UDP has none)",
    Metric.LOSS: "loss not judged: the receiver does not tell lost datagrams (TCP has none)",
    Metric.LATENCY: "latency not judged: the sender does not tell its round-trip time (UDP has none)",
    Metric.CPU: "cpu not judged: the tool does not tell the processor time of the device under test",
}


@dataclass(frozen=True)
class Extras:
    """The costs of one direction; None is a value that is not known, which is not zero.

    ``retransmit_rate`` is segments sent again over all sent. ``loss_rate`` is datagrams lost over all sent. ``rtt_s``
    is the mean round-trip time under load in seconds. ``cpu_percent_per_gbps`` is percent of one core per Gbit/s of
    goodput.
    """

    retransmit_rate: float | None = None
    loss_rate: float | None = None
    rtt_s: float | None = None
    cpu_percent_per_gbps: float | None = None

    def of(self, metric: Metric) -> float | None:
        """Return the value for a limit on this metric (one of MAXIMA)."""
        return {
            Metric.RETRANSMITS: self.retransmit_rate,
            Metric.LOSS: self.loss_rate,
            Metric.LATENCY: self.rtt_s,
            Metric.CPU: self.cpu_percent_per_gbps,
        }[metric]


def retransmit_rate(retransmits: int | None, sent_bytes: int | None, segment_bytes: int) -> float | None:
    """Return retransmitted over all sent segments: 1 - TCP efficiency of RFC 6349, 4.2.

    ``segment_bytes`` is the payload of a segment. ``sent_bytes`` counts every byte once, however often it was sent.
    None if retransmits were not counted, or nothing was sent.
    """
    if retransmits is None or not sent_bytes:
        return None
    return retransmits / (sent_bytes / segment_bytes + retransmits)


def loss_rate(lost_packets: int | None, packets: int | None) -> float | None:
    """Return lost over sent datagrams; None if they were not counted, or none was sent."""
    return None if lost_packets is None or not packets else lost_packets / packets


def cpu_per_gbps(cpu_percent: float | None, goodput: Bitrate) -> float | None:
    """Return percent of one core per Gbit/s; None if it is not known, or nothing arrived."""
    return None if cpu_percent is None or not goodput.bps else cpu_percent / (goodput.bps / 1e9)


def judge_extras(measured: Extras, limits: Sequence[Limit], key: MetricKey) -> list[Judgement]:
    """Return a judgement for each metric with a limit, in the order of MAXIMA. The most specific limit applies.

    An unknown value gives SKIPPED, which does not change a combined verdict.
    """
    found = []
    for metric in MAXIMA:
        limit = most_specific(limits, key, metric)
        if limit is None:
            continue
        rule = part_rule(limit)
        value = measured.of(metric)
        verdict, reason = (Verdict.SKIPPED, _UNKNOWN[metric]) if value is None else rule.judge(value)
        found.append(Judgement(verdict, None, str(rule), reason, metric))
    return found
