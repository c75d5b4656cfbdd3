"""Limits on costs of traffic: retransmits, loss, latency, CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pytest_pinet.judge.flows import sum_of, total
from pytest_pinet.judge.oracle import PacketSizes
from pytest_pinet.judge.profile import Profile, confirm, most_specific
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.judgement import ExtraJudgement
from pytest_pinet.model.limits import MAXIMA, Limit, Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.verdict import Verdict

# Why a marginal result fails.
STRICT_REASON = "marginal results fail (--pinet-strict)"

# The costs of one direction by metric (MAXIMA): segments sent again over all sent, datagrams lost over all sent, mean
# round-trip time under load in seconds, percent of one core per Gbit/s of goodput. A value that is not known is None or
# missing, which is not zero.
Extras = Mapping[Metric, float | None]


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


def judge_extras(measured: Extras, limits: Sequence[Limit], key: MetricKey) -> list[ExtraJudgement]:
    """Return a judgement for each metric with a limit, in the order of MAXIMA. The most specific limit applies.

    An unknown value gives SKIPPED, which does not change a combined verdict.
    """
    found = []
    for metric in MAXIMA:
        limit = most_specific(limits, key, metric)
        threshold = None if limit is None else limit.threshold()
        if threshold is None:
            continue
        value = measured.get(metric)
        verdict, reason = (Verdict.SKIPPED, threshold.unknown) if value is None else threshold.judge(value)
        found.append(ExtraJudgement(threshold, verdict, reason))
    return found


def judged_extras(
    link: LinkFacts,
    key: MetricKey,
    connections: Sequence[Connection],
    chosen: Sequence[int],
    limits: Sequence[Limit],
    profile: Profile,
) -> tuple[tuple[ExtraJudgement, ...], bool]:
    """Judge every limit on the costs of one direction. Return the judgements, and whether another connection is needed.

    As for goodput, one connection that misses a limit is only a suspicion, which other connections must confirm.
    """
    each = [
        judge_extras(extras_of(link, key.traffic, one, chosen), limits, key) for one in connections if not one.excluded
    ]
    found, unsettled = [], False
    for judgements in zip(*each, strict=True):
        verdict = _verdict(judgements, profile)
        unsettled |= verdict is None
        worst = next((j for j in judgements if j.verdict in (Verdict.FAIL, Verdict.INVALID)), judgements[-1])
        found.append(replace(worst, verdict=verdict or Verdict.FAIL))
    return tuple(found), unsettled


def _verdict(judgements: Sequence[ExtraJudgement], profile: Profile) -> Verdict | None:
    known = [judged.verdict for judged in judgements if judged.verdict is not Verdict.SKIPPED]
    if not known:
        return Verdict.SKIPPED
    verdict = confirm([one in (Verdict.PASS, Verdict.MARGINAL) for one in known], profile)
    return Verdict.MARGINAL if verdict is Verdict.PASS and Verdict.MARGINAL in known else verdict


def extras_of(link: LinkFacts, traffic: Traffic, one: Connection, chosen: Sequence[int]) -> Extras:
    """Return the costs of one connection. A value is None if one of several flows does not know it."""
    flows = [one.flows[index].flow for index in chosen]
    path = link.path_between(one.flows[chosen[0]].sender, one.flows[chosen[0]].receiver)
    segment = PacketSizes.of(path, traffic).payload
    rtts = [flow.rtt_s for flow in flows if flow.rtt_s is not None]
    sent_bytes = sum(sample.bytes for flow in flows for sample in flow.samples)
    # Both directions at once share the processor, and their shares are not known. Processor time is not scaled.
    moved = Bitrate(sum_of([each.flow for each in one.flows]).bps * link.scale)
    cpu_percent = one.measurements[0].cpu_percent.get("dut") if len(one.measurements) == 1 else None
    return {
        Metric.RETRANSMITS: retransmit_rate(total([flow.retransmits for flow in flows]), sent_bytes, segment),
        Metric.LOSS: loss_rate(total([flow.lost_packets for flow in flows]), total([flow.packets for flow in flows])),
        Metric.LATENCY: fmean(rtts) if len(rtts) == len(flows) else None,
        Metric.CPU: cpu_per_gbps(cpu_percent, moved),
    }
