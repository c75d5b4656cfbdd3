"""One figure against one limit and the physical limit."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.judge.limits import resolve
from pytest_pinet.judge.oracle import TOLERANCE, Oracle
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.verdict import Verdict


@dataclass(frozen=True)
class Judgement:
    """A verdict on one direction: the limit as a bit rate (None: none was set), the rule in words, and why."""

    verdict: Verdict
    limit: Bitrate | None
    rule: str | None
    reason: str


def judge(
    goodput: Bitrate,
    oracle: Oracle,
    limit: Limit | None,
    offered: Bitrate | None = None,
    since_start: Bitrate | None = None,
) -> Judgement:
    """Judge a receiver's goodput; ``offered`` is what the senders were told to send at most, if they were.

    Above the physical limit by more than TOLERANCE is a measurement error, whatever the limit says; where the rate
    ``since_start`` of the traffic is known, it must be above as well. A limit that
    nothing could meet blames nobody: it is invalid too. Without a limit any figure passes, and says so.
    """
    most = oracle.goodput if offered is None else min(oracle.goodput, offered)
    if limit is None:
        threshold, rule = None, None
    else:
        threshold = resolve(limit.minimum, most)
        what = f"{limit.minimum} of {most}" if isinstance(limit.minimum, Share) else f"{limit.minimum}"
        rule = f"{what} ({limit.source})"
    if min(goodput, since_start or goodput).bps > oracle.goodput.bps * (1 + TOLERANCE):
        reason = f"{goodput} is above the physical limit {oracle.goodput} ({oracle.because}): a measurement error"
        return Judgement(Verdict.INVALID, threshold, rule, reason)
    if threshold is None:
        return Judgement(Verdict.PASS, None, None, "no limit was set for this combination")
    if threshold > most:
        possible = f"the {most} that were sent" if most < oracle.goodput else f"what this link can carry, {most}"
        reason = f"the limit {threshold} is above {possible}: it can never be met"
        return Judgement(Verdict.INVALID, threshold, rule, reason)
    difference = (goodput.bps / threshold.bps - 1) * 100 if threshold.bps else 0.0
    if goodput < threshold:
        reason = f"{goodput} is below the limit {threshold} ({difference:+.1f} %)"
        return Judgement(Verdict.FAIL, threshold, rule, reason)
    return Judgement(Verdict.PASS, threshold, rule, f"{goodput} holds the limit {threshold} ({difference:+.1f} %)")
