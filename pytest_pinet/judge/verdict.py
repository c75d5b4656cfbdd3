"""Judge one goodput by one limit and by the physical limit."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.judge.oracle import TOLERANCE, Oracle
from pytest_pinet.judge.rules import goodput_rule
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict

# Paced senders stay this near to their rate limit (facts: 400.6 of 400 Mbit/s).
CAP_TOLERANCE = 0.05


@dataclass(frozen=True)
class Judgement:
    """A verdict on one direction, the limit as a bit rate, the rule in words, and the reason.

    ``limit`` is None if no limit was set, or if the limit is not a bit rate. ``metric`` is the judged metric.
    """

    verdict: Verdict
    limit: Bitrate | None
    rule: str | None
    reason: str
    metric: Metric = Metric.GOODPUT


def judge(
    goodput: Bitrate,
    oracle: Oracle,
    limit: Limit | None,
    offered: Bitrate | None = None,
    since_start: Bitrate | None = None,
    baseline: Bitrate | None = None,
) -> Judgement:
    """Judge a receiver's goodput; ``offered`` is the rate limit of the senders, if they have one.

    A value above the physical limit by more than TOLERANCE, or above the sent rate by more than CAP_TOLERANCE, is a
    measurement error, whatever the limit. If the rate ``since_start`` of the traffic is known, it must be above as
    well. A limit that can never be met is invalid, not a failure. Without a limit any value passes, and the reason says
    so. ``baseline`` is the accepted value for a limit of TOLERANCE; without a baseline such a limit is ignored.
    """
    most = oracle.goodput if offered is None else min(oracle.goodput, offered)
    rule = None if limit is None else goodput_rule(limit, most, baseline)
    threshold = None if rule is None else Bitrate(rule.threshold)
    words = None if rule is None else str(rule)
    metric = Metric.GOODPUT if rule is None or limit is None else limit.metric
    if min(goodput, since_start or goodput).bps > oracle.goodput.bps * (1 + TOLERANCE):
        reason = f"{goodput} is above the physical limit {oracle.goodput} ({oracle.because}): a measurement error"
        return Judgement(Verdict.INVALID, threshold, words, reason, metric)
    if offered is not None and min(goodput, since_start or goodput).bps > offered.bps * (1 + CAP_TOLERANCE):
        reason = f"{goodput} is above the sender's rate limit {offered}: a measurement error"
        return Judgement(Verdict.INVALID, threshold, words, reason, metric)
    if rule is None or threshold is None:
        return Judgement(Verdict.PASS, None, None, "no limit was set for this combination")
    if threshold > most:
        possible = f"the {most} that were sent" if most < oracle.goodput else f"the capacity of this link, {most}"
        reason = f"the limit {threshold} is above {possible}: it can never be met"
        return Judgement(Verdict.INVALID, threshold, words, reason, metric)
    verdict, reason = rule.judge(goodput.bps)
    return Judgement(verdict, threshold, words, reason, metric)
