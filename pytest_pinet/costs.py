"""What traffic cost beside its rate: retransmits, loss, latency, processor time; per try and judged over all."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pytest_pinet.judge.confirm import confirm
from pytest_pinet.judge.extras import Extras, cpu_per_gbps, judge_extras, loss_rate, retransmit_rate
from pytest_pinet.judge.oracle import IPV4_TCP_HEADERS, TIMESTAMP_OPTION
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.lab.link import Link
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.record import ExtraRecord
from pytest_pinet.tries import Try, sum_of


def judged_extras(
    link: Link,
    traffic: Traffic,
    tries: Sequence[Try],
    chosen: Sequence[int],
    way: Direction,
    limits: Sequence[Limit],
    profile: Profile,
) -> tuple[list[ExtraRecord], bool]:
    """Every limit on what the flows of one direction cost, and whether one of them asks for another try.

    What one try misses is a suspicion, as for goodput: others must miss it, too.
    """
    here = link.combination
    both_ways = traffic.direction is Direction.BIDIR
    each = [
        judge_extras(
            extras_of(link, traffic, one, chosen), limits, here.board, here.nic, here.topology.name, way, both_ways
        )
        for one in tries
        if not one.excluded
    ]
    records, unsettled = [], False
    for judgements in zip(*each, strict=True):
        verdict = _verdict(judgements, profile)
        unsettled |= verdict is None
        worst = next((j for j in judgements if j.verdict in (Verdict.FAIL, Verdict.INVALID)), judgements[-1])
        record: ExtraRecord = {
            "metric": str(worst.metric),
            "rule": worst.rule or "",
            "verdict": (verdict or Verdict.FAIL).value,
            "reason": worst.reason,
        }
        records.append(record)
    return records, unsettled


def _verdict(judgements: Sequence[Judgement], profile: Profile) -> Verdict | None:
    known = [judged.verdict for judged in judgements if judged.verdict is not Verdict.SKIPPED]
    if not known:
        return Verdict.SKIPPED
    verdict = confirm([one in (Verdict.PASS, Verdict.MARGINAL) for one in known], profile)
    return Verdict.MARGINAL if verdict is Verdict.PASS and Verdict.MARGINAL in known else verdict


def extras_of(link: Link, traffic: Traffic, one: Try, chosen: Sequence[int]) -> Extras:
    """Of one try; what one of several flows does not know nobody knows."""
    flows = [one.flows[index].flow for index in chosen]
    path = link.path_between(one.flows[chosen[0]].sender, one.flows[chosen[0]].receiver)
    # A larger MSS than the MTU allows is not what was sent.
    segment = min(traffic.mss or path.mtu, path.mtu - IPV4_TCP_HEADERS)
    segment -= TIMESTAMP_OPTION if path.timestamps else 0
    rtts = [flow.rtt_s for flow in flows if flow.rtt_s is not None]
    return Extras(
        retransmit_rate(
            _total([f.retransmits for f in flows]), sum(s.bytes for f in flows for s in f.samples), segment
        ),
        loss_rate(_total([f.lost_packets for f in flows]), _total([f.packets for f in flows])),
        fmean(rtts) if len(rtts) == len(flows) else None,
        # Both directions at once share the processor, which nobody tells apart; it knows no scale.
        cpu_per_gbps(_dut_cpu(one.measurements), Bitrate(sum_of([f.flow for f in one.flows]).bps * link.scale)),
    )


def _dut_cpu(measurements: Sequence[Measurement]) -> float | None:
    """Percent of one core that the tool used on the device under test; of several runs only the first one's is it."""
    return measurements[0].cpu_percent.get("dut") if len(measurements) == 1 else None


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
