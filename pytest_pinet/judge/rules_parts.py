"""Rules on what is no bit rate: how flows share (minima), and what traffic costs (maxima)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_pinet.judge.rules import Rule
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.quantities import CpuCost, Duration, Share


@dataclass(frozen=True)
class LeastShare(Rule):
    """The least part of its fair rate that a flow got."""

    least: Share
    noun: ClassVar[str] = "least share"

    @property
    def threshold(self) -> float:
        return self.least.fraction

    @property
    def words(self) -> str:
        return f"{self.least} of its fair share for each flow"

    def show(self, value: float) -> str:
        return f"{value * 100:.3g}%"


@dataclass(frozen=True)
class LeastFairness(Rule):
    """Jain's index over what flows got of their fair rates, from 0 to 1."""

    least: Share
    noun: ClassVar[str] = "Jain's index"

    @property
    def threshold(self) -> float:
        return self.least.fraction

    @property
    def words(self) -> str:
        return f"Jain's index {self.least.fraction:.3g}"

    def show(self, value: float) -> str:
        return f"{value:.3f}"


@dataclass(frozen=True)
class MostRetransmits(Rule):
    """Segments sent again, as a part of all segments sent."""

    most: Share
    noun: ClassVar[str] = "retransmit rate"
    at_most: ClassVar[bool] = True

    @property
    def threshold(self) -> float:
        return self.most.fraction

    @property
    def words(self) -> str:
        return f"at most {self.most} of segments retransmitted"

    def show(self, value: float) -> str:
        return f"{value * 100:.3g}%"


@dataclass(frozen=True)
class MostLoss(Rule):
    """Datagrams that never arrived, as a part of all that were sent."""

    most: Share
    noun: ClassVar[str] = "loss"
    at_most: ClassVar[bool] = True

    @property
    def threshold(self) -> float:
        return self.most.fraction

    @property
    def words(self) -> str:
        return f"at most {self.most} of datagrams lost"

    def show(self, value: float) -> str:
        return f"{value * 100:.3g}%"


@dataclass(frozen=True)
class MostLatency(Rule):
    """The mean round-trip time under load, in seconds."""

    most: Duration
    noun: ClassVar[str] = "mean round-trip time"
    at_most: ClassVar[bool] = True

    @property
    def threshold(self) -> float:
        return self.most.seconds

    @property
    def words(self) -> str:
        return f"at most {self.most} of mean round-trip time"

    def show(self, value: float) -> str:
        return str(Duration(value))


@dataclass(frozen=True)
class MostCpu(Rule):
    """Processor time for the traffic, in percent of one core for each Gbit/s."""

    most: CpuCost
    noun: ClassVar[str] = "processor time"
    at_most: ClassVar[bool] = True

    @property
    def threshold(self) -> float:
        return self.most.percent

    @property
    def words(self) -> str:
        return f"at most {self.most}"

    def show(self, value: float) -> str:
        return str(CpuCost(value))


_OF_SHARES: dict[Metric, type[LeastShare | LeastFairness | MostRetransmits | MostLoss]] = {
    Metric.SHARE: LeastShare,
    Metric.FAIRNESS: LeastFairness,
    Metric.RETRANSMITS: MostRetransmits,
    Metric.LOSS: MostLoss,
}


def part_rule(limit: Limit) -> Rule:
    """The rule of a limit on anything but goodput. Raises TypeError for one on that."""
    bound = limit.bound
    if isinstance(bound, Share) and limit.metric in _OF_SHARES:
        return _OF_SHARES[limit.metric](limit.source, limit.marginal, bound)
    if isinstance(bound, Duration):
        return MostLatency(limit.source, limit.marginal, bound)
    if isinstance(bound, CpuCost):
        return MostCpu(limit.source, limit.marginal, bound)
    raise TypeError(f"a limit of {limit.metric} is no rule on a part")
