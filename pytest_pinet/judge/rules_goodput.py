"""Rules on goodput, in bit/s: an absolute minimum, a share of the physical limit, a share of the accepted baseline."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.judge.rules import Rule
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.tolerance import Tolerance
from pytest_pinet.model.verdict import Verdict


@dataclass(frozen=True)
class GoodputRule(Rule):
    """The common part of all rules on a bit rate."""

    def show(self, value: float) -> str:
        return str(Bitrate(value))

    def _difference(self, value: float) -> str:
        difference = (value / self.threshold - 1) * 100 if self.threshold else 0.0
        return f" ({difference:+.1f} %)"


@dataclass(frozen=True)
class AbsoluteMinimum(GoodputRule):
    """A configured bit rate."""

    minimum: Bitrate

    @property
    def threshold(self) -> float:
        return self.minimum.bps

    @property
    def words(self) -> str:
        return str(self.minimum)


@dataclass(frozen=True)
class ShareOfOracle(GoodputRule):
    """A share of the physical limit, or of the sent rate if it is lower (``most``)."""

    share: Share
    most: Bitrate

    @property
    def threshold(self) -> float:
        return self.share.fraction * self.most.bps

    @property
    def words(self) -> str:
        return f"{self.share} of {self.most}"


@dataclass(frozen=True)
class ShareOfBaseline(GoodputRule):
    """The accepted baseline minus the tolerance; a regression exceeds both the relative and the absolute tolerance."""

    tolerance: Tolerance
    baseline: Bitrate

    @property
    def threshold(self) -> float:
        return self.tolerance.lowest(self.baseline).bps

    @property
    def words(self) -> str:
        return f"{self.tolerance} below the baseline {self.baseline}"

    def judge(self, value: float) -> tuple[Verdict, str]:
        """Judge as any rule, and add the difference from the baseline."""
        verdict, reason = super().judge(value)
        if verdict is not Verdict.INVALID and self.baseline.bps:
            difference = (value / self.baseline.bps - 1) * 100
            reason += f"; the baseline is {self.baseline} ({difference:+.1f} %)"
        return verdict, reason


def goodput_rule(limit: Limit, most: Bitrate, baseline: Bitrate | None = None) -> GoodputRule | None:
    """Return the rule of a limit on goodput; None for a tolerance without a baseline, which cannot be judged.

    ``most`` is the physical limit, or the sent rate if it is lower.
    """
    if isinstance(limit.bound, Tolerance):
        return None if baseline is None else ShareOfBaseline(limit.source, limit.marginal, limit.bound, baseline)
    minimum = limit.minimum
    if isinstance(minimum, Share):
        return ShareOfOracle(limit.source, limit.marginal, minimum, most)
    return AbsoluteMinimum(limit.source, limit.marginal, minimum)
