"""What traffic cost beside its rate, per direction: retransmits, loss, latency, processor time; and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.judge.limits import most_specific
from pytest_pinet.judge.rules_parts import part_rule
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.model.limits import MAXIMA, Limit, Metric
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict

# Why a value may be unknown, which no limit can be held against.
_UNKNOWN = {
    Metric.RETRANSMITS: "retransmits not judged: the sender does not tell them (UDP has none)",
    Metric.LOSS: "loss not judged: the receiver does not tell lost datagrams (TCP has none)",
    Metric.LATENCY: "latency not judged: the sender does not tell its round-trip time (UDP has none)",
    Metric.CPU: "cpu not judged: the tool does not tell the processor time of the device under test",
}


@dataclass(frozen=True)
class Extras:
    """Of one direction; None where nobody told: absent is not zero.

    ``retransmit_rate``: segments sent again over all sent. ``loss_rate``: datagrams lost over all sent. ``rtt_s``: mean
    round-trip time in seconds, under load. ``cpu_percent_per_gbps``: percent of one core for each Gbit/s of goodput.
    """

    retransmit_rate: float | None = None
    loss_rate: float | None = None
    rtt_s: float | None = None
    cpu_percent_per_gbps: float | None = None

    def of(self, metric: Metric) -> float | None:
        """The value that a limit of this metric (one of MAXIMA) is held against."""
        return {
            Metric.RETRANSMITS: self.retransmit_rate,
            Metric.LOSS: self.loss_rate,
            Metric.LATENCY: self.rtt_s,
            Metric.CPU: self.cpu_percent_per_gbps,
        }[metric]


def retransmit_rate(retransmits: int | None, sent_bytes: int | None, segment_bytes: int) -> float | None:
    """Retransmitted over all sent segments, each of ``segment_bytes`` of payload: 1 - TCP efficiency of RFC 6349, 4.2.

    None when nobody counted, or nothing was sent. ``sent_bytes`` counts every byte once, however often it was sent.
    """
    if retransmits is None or not sent_bytes:
        return None
    return retransmits / (sent_bytes / segment_bytes + retransmits)


def loss_rate(lost_packets: int | None, packets: int | None) -> float | None:
    """Lost over sent datagrams; None when nobody counted, or none was sent."""
    return None if lost_packets is None or not packets else lost_packets / packets


def cpu_per_gbps(cpu_percent: float | None, goodput: Bitrate) -> float | None:
    """Percent of one core for each Gbit/s; None where nobody told, or nothing arrived."""
    return None if cpu_percent is None or not goodput.bps else cpu_percent / (goodput.bps / 1e9)


def judge_extras(
    measured: Extras,
    limits: Sequence[Limit],
    board: str,
    nic: str,
    topology: str,
    direction: Direction,
    both_ways: bool = False,
) -> list[Judgement]:
    """A judgement for each metric that a limit speaks of, in the order of MAXIMA; of each the most specific holds.

    What is not known is not judged: SKIPPED, which changes no verdict that it is put together with.
    """
    found = []
    for metric in MAXIMA:
        limit = most_specific(limits, board, nic, topology, direction, both_ways, metric)
        if limit is None:
            continue
        rule = part_rule(limit)
        value = measured.of(metric)
        verdict, reason = (Verdict.SKIPPED, _UNKNOWN[metric]) if value is None else rule.judge(value)
        found.append(Judgement(verdict, None, str(rule), reason, metric))
    return found
