"""Rules: each judges one value by one limit, from one side, and formats itself with values and units."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pytest_pinet.model.limits import MAXIMA, Limit, Metric
from pytest_pinet.model.quantities import Bitrate, CpuCost, Duration, Share, Tolerance
from pytest_pinet.model.verdict import Verdict

# In the text of a rule that is relative to a baseline.
BELOW_BASELINE = "below the baseline"


def _percent(part: float) -> str:
    return f"{part * 100:.3g}%"


# For metrics other than goodput: the name of the value, the limit in words (``{}`` is the configured limit), and the
# format of a value.
_PARTS: dict[Metric, tuple[str, str, Callable[[float], str]]] = {
    Metric.SHARE: ("least share", "{} of its fair share for each flow", _percent),
    Metric.FAIRNESS: ("Jain's index", "Jain's index {}", lambda value: f"{value:.3f}"),
    Metric.RETRANSMITS: ("retransmit rate", "at most {} of segments retransmitted", _percent),
    Metric.LOSS: ("loss", "at most {} of datagrams lost", _percent),
    Metric.LATENCY: ("mean round-trip time", "at most {} of mean round-trip time", lambda value: str(Duration(value))),
    Metric.CPU: ("processor time", "at most {}", lambda value: str(CpuCost(value))),
}


@dataclass(frozen=True)
class Rule:
    """A limit with its values filled in; its text in reports is ``94% of 941.5 Mbit/s (lab.yaml:9)``.

    ``threshold`` is the last value that meets the limit, in the unit of the judged value. ``words`` is the limit with
    its unit, as it was configured. ``baseline`` is the accepted value that the limit is relative to, if there is one.
    """

    limit: Limit
    threshold: float
    words: str
    baseline: Bitrate | None = None

    def __str__(self) -> str:
        return f"{self.words} ({self.limit.source})"

    def judge(self, value: float) -> tuple[Verdict, str]:
        """Return PASS, MARGINAL or FAIL, with a sentence; INVALID for a value that is not finite."""
        noun, _, show = _PARTS.get(self.limit.metric, ("", "", lambda bps: str(Bitrate(bps))))
        noun = f"{noun} " if noun else ""
        if not math.isfinite(value):
            return Verdict.INVALID, f"{noun}{value} is not a finite number: a measurement error"
        at_most = self.limit.metric in MAXIMA
        misses = value > self.threshold if at_most else value < self.threshold
        relation = f"is {'above' if at_most else 'below'}" if misses else "meets"
        reason = f"{noun}{show(value)} {relation} the limit {show(self.threshold)}{self._difference(value)}"
        verdict = Verdict.FAIL if misses else Verdict.PASS
        if not misses and self._is_close(value):
            verdict, reason = Verdict.MARGINAL, f"{reason}, within the marginal band of {self.limit.marginal}"
        if self.baseline is not None and self.baseline.bps:
            reason += f"; the baseline is {self.baseline} ({(value / self.baseline.bps - 1) * 100:+.1f} %)"
        return verdict, reason

    def _difference(self, value: float) -> str:
        """Return how far a bit rate is from the limit, in brackets; percents of percents would confuse."""
        if self.limit.metric in _PARTS:
            return ""
        difference = (value / self.threshold - 1) * 100 if self.threshold else 0.0
        return f" ({difference:+.1f} %)"

    def _is_close(self, value: float) -> bool:
        """Return whether a value that meets the limit lies inside the marginal band; a limit of zero has no band."""
        marginal = self.limit.marginal
        return marginal is not None and abs(value - self.threshold) < marginal.fraction * self.threshold


def goodput_rule(limit: Limit, most: Bitrate, baseline: Bitrate | None) -> Rule | None:
    """Return the rule of a limit on goodput; None for a tolerance without a baseline, which cannot be judged.

    ``most`` is the physical limit, or the sent rate if it is lower. A regression exceeds both parts of a tolerance.
    """
    if isinstance(limit.bound, Tolerance):
        if baseline is None:
            return None
        words = f"{limit.bound} {BELOW_BASELINE} {baseline}"
        return Rule(limit, limit.bound.lowest(baseline).bps, words, baseline)
    minimum = limit.minimum
    if isinstance(minimum, Share):
        return Rule(limit, minimum.fraction * most.bps, f"{minimum} of {most}")
    return Rule(limit, minimum.bps, str(minimum))


def part_rule(limit: Limit) -> Rule:
    """Return the rule of a limit on a metric other than goodput. Raises TypeError for goodput."""
    bound = limit.bound
    if limit.metric not in _PARTS or isinstance(bound, Bitrate | Tolerance | int):
        raise TypeError(f"a limit of {limit.metric} is not a limit on a part")
    match bound:
        case Share():
            threshold = bound.fraction
        case Duration():
            threshold = bound.seconds
        case CpuCost():
            threshold = bound.percent
    words = f"{threshold:.3g}" if limit.metric is Metric.FAIRNESS else str(bound)
    return Rule(limit, threshold, _PARTS[limit.metric][1].format(words))
