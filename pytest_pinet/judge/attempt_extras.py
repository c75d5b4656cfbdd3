"""Judge the costs of traffic besides goodput over all tries: retransmits, loss, latency, processor time."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pytest_pinet.judge.attempts import Try, sum_of
from pytest_pinet.judge.confirm import confirm
from pytest_pinet.judge.extras import Extras, cpu_per_gbps, judge_extras, loss_rate, retransmit_rate
from pytest_pinet.judge.oracle import IPV4_TCP_HEADERS, TIMESTAMP_OPTION
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.model.judgement import ExtraJudgement
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.link_facts import LinkFacts
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.verdict import Verdict


def judged_extras(
    link: LinkFacts,
    key: MetricKey,
    tries: Sequence[Try],
    chosen: Sequence[int],
    limits: Sequence[Limit],
    profile: Profile,
) -> tuple[tuple[ExtraJudgement, ...], bool]:
    """Judge every limit on the costs of one direction. Return the judgements, and whether another try is needed.

    As for goodput, one try that misses a limit is only a suspicion, which other tries must confirm.
    """
    each = [judge_extras(extras_of(link, key.traffic, one, chosen), limits, key) for one in tries if not one.excluded]
    found, unsettled = [], False
    for judgements in zip(*each, strict=True):
        verdict = _verdict(judgements, profile)
        unsettled |= verdict is None
        worst = next((j for j in judgements if j.verdict in (Verdict.FAIL, Verdict.INVALID)), judgements[-1])
        found.append(ExtraJudgement(worst.metric, worst.rule or "", verdict or Verdict.FAIL, worst.reason))
    return tuple(found), unsettled


def _verdict(judgements: Sequence[Judgement], profile: Profile) -> Verdict | None:
    known = [judged.verdict for judged in judgements if judged.verdict is not Verdict.SKIPPED]
    if not known:
        return Verdict.SKIPPED
    verdict = confirm([one in (Verdict.PASS, Verdict.MARGINAL) for one in known], profile)
    return Verdict.MARGINAL if verdict is Verdict.PASS and Verdict.MARGINAL in known else verdict


def extras_of(link: LinkFacts, traffic: Traffic, one: Try, chosen: Sequence[int]) -> Extras:
    """Return the costs of one try. A value is None if one of several flows does not know it."""
    flows = [one.flows[index].flow for index in chosen]
    path = link.path_between(one.flows[chosen[0]].sender, one.flows[chosen[0]].receiver)
    # The kernel never sends segments larger than the MTU allows.
    segment = min(traffic.mss or path.mtu, path.mtu - IPV4_TCP_HEADERS)
    segment -= TIMESTAMP_OPTION if path.timestamps else 0
    rtts = [flow.rtt_s for flow in flows if flow.rtt_s is not None]
    return Extras(
        retransmit_rate(
            _total([f.retransmits for f in flows]), sum(s.bytes for f in flows for s in f.samples), segment
        ),
        loss_rate(_total([f.lost_packets for f in flows]), _total([f.packets for f in flows])),
        fmean(rtts) if len(rtts) == len(flows) else None,
        # Both directions at once share the processor, and their shares are not known. Processor time is not scaled.
        cpu_per_gbps(_dut_cpu(one.measurements), Bitrate(sum_of([f.flow for f in one.flows]).bps * link.scale)),
    )


def _dut_cpu(measurements: Sequence[Measurement]) -> float | None:
    """Return the percent of one core that the tool used on the device under test; None for several runs at once."""
    return measurements[0].cpu_percent.get("dut") if len(measurements) == 1 else None


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
