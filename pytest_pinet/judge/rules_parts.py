"""Rules on values other than bit rates: how flows share (minima), and what traffic costs (maxima)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_pinet.judge.rules import Rule
from pytest_pinet.model.limits import MAXIMA, Limit, Metric
from pytest_pinet.model.quantities import CpuCost, Duration, Share


def _percent(part: float) -> str:
    return f"{part * 100:.3g}%"


def _index(part: float) -> str:
    return f"{part:.3f}"


# The name of the value, the limit in words (``{}`` is the configured limit), and the format of a value.
_PARTS: dict[Metric, tuple[str, str, Callable[[float], str]]] = {
    Metric.SHARE: ("least share", "{} of its fair share for each flow", _percent),
    Metric.FAIRNESS: ("Jain's index", "Jain's index {}", _index),
    Metric.RETRANSMITS: ("retransmit rate", "at most {} of segments retransmitted", _percent),
    Metric.LOSS: ("loss", "at most {} of datagrams lost", _percent),
    Metric.LATENCY: ("mean round-trip time", "at most {} of mean round-trip time", lambda value: str(Duration(value))),
    Metric.CPU: ("processor time", "at most {}", lambda value: str(CpuCost(value))),
}


@dataclass(frozen=True)
class PartRule(Rule):
    """A rule on a share from 0 to 1, on mean seconds under load, or on percent of one core per Gbit/s."""

    metric: Metric
    bound: Share | Duration | CpuCost

    @property
    def noun(self) -> str:
        return _PARTS[self.metric][0]

    @property
    def at_most(self) -> bool:
        return self.metric in MAXIMA

    @property
    def threshold(self) -> float:
        match self.bound:
            case Share():
                return self.bound.fraction
            case Duration():
                return self.bound.seconds
            case CpuCost():
                return self.bound.percent

    @property
    def words(self) -> str:
        bound = f"{self.threshold:.3g}" if self.metric is Metric.FAIRNESS else str(self.bound)
        return _PARTS[self.metric][1].format(bound)

    def show(self, value: float) -> str:
        return _PARTS[self.metric][2](value)


def part_rule(limit: Limit) -> Rule:
    """Return the rule of a limit on a metric other than goodput. Raises TypeError for goodput."""
    if limit.metric not in _PARTS or not isinstance(limit.bound, Share | Duration | CpuCost):
        raise TypeError(f"a limit of {limit.metric} is no rule on a part")
    return PartRule(limit.source, limit.marginal, limit.metric, limit.bound)
