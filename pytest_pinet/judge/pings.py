"""Judge pings by their limits, and the pings of two builds measured alternately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.judge.extras import STRICT_REASON, judge_extras
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.judge.profile import Profile, confirm
from pytest_pinet.model.judgement import ExtraJudgement
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.traffic import PingReport
from pytest_pinet.model.verdict import SEVERITY, Verdict, worst

# A miss in so many turns of the build under test, and in none of the known-good build, is the fault of the build.
OFTEN = 2
_HELD = (Verdict.PASS, Verdict.MARGINAL)
_GOOD = (*_HELD, Verdict.IMPROVED)


@dataclass(frozen=True)
class PingJudgement:
    """A verdict on pings; None requires another series. ``reasons`` has a sentence for each judged limit."""

    verdict: Verdict | None
    reasons: tuple[str, ...] = ()


def judge_pings(
    rounds: Sequence[PingReport], limits: Sequence[Limit], key: MetricKey, profile: Profile, strict: bool = False
) -> PingJudgement:
    """Judge the limits on loss and latency (the mean round trip); other limits are not judged.

    A limit that one series misses is a suspicion, which other series must confirm. ``strict``: what would be marginal
    fails.
    """
    judged = [_judge(report, limits, key) for report in rounds]
    each = [confirm([j.verdict in _HELD for j in judgements], profile) for judgements in zip(*judged, strict=True)]
    if None in each:
        return PingJudgement(None)
    verdict = worst([one for one in each if one is not None] or [Verdict.PASS])
    last = min(judged[-1], key=lambda j: SEVERITY.index(j.verdict), default=None)
    missed = [j for judgements in judged for j in judgements if j.verdict not in _HELD]
    if verdict is Verdict.PASS and last is not None:
        verdict = last.verdict
    shown = missed[:1] if verdict is not Verdict.PASS and missed else judged[-1]
    reasons = tuple(j.reason for j in shown)
    if strict and verdict is Verdict.MARGINAL:
        return PingJudgement(Verdict.FAIL, (*reasons, STRICT_REASON))
    return PingJudgement(verdict, reasons)


def _judge(report: PingReport, limits: Sequence[Limit], key: MetricKey) -> list[ExtraJudgement]:
    judgements = judge_extras({Metric.LOSS: report.loss, Metric.LATENCY: report.mean_s}, limits, key)
    return [one for one in judgements if one.verdict is not Verdict.SKIPPED]


@dataclass(frozen=True)
class PingTurns:
    """The verdicts of all turns so far, in their order. After ``given_up`` there are no more turns."""

    turns: tuple[tuple[Side, Verdict], ...]
    given_up: bool = False

    def of(self, side: Side) -> list[Verdict]:
        return [verdict for one, verdict in self.turns if one is side]

    def missed(self, side: Side) -> int:
        return sum(verdict not in _GOOD for verdict in self.of(side))

    @property
    def decided(self) -> bool:
        """Whether more turns would add nothing."""
        if self.given_up or self.missed(Side.A):
            return True
        of_b, missed = len(self.of(Side.B)), self.missed(Side.B)
        # After the second miss, the known-good build gets another turn.
        return bool(of_b) and (missed < of_b or (missed >= OFTEN and self.turns[-1][0] is Side.A))

    def judge(self) -> tuple[Verdict, str]:
        """Return the verdict on the build under test, and why: it fails only if it alone misses a limit repeatedly.

        Until the turns are decided, the verdict is good.
        """
        of_b, missed = len(self.of(Side.B)), self.missed(Side.B)
        if self.missed(Side.A):
            return Verdict.INCONCLUSIVE, "the known-good build misses the limit, too"
        if of_b and missed == of_b and self.decided:
            if of_b < OFTEN:
                return Verdict.INCONCLUSIVE, "too few turns to decide which build is the cause"
            turns = f"{of_b} of {of_b} turns of the build under test, 0 of {len(self.of(Side.A))} turns of the other"
            return Verdict.FAIL, f"missed in {turns}"
        if missed:
            return Verdict.PASS, f"missed in {missed} of {of_b} turns of the build under test"
        return Verdict.PASS, ""
