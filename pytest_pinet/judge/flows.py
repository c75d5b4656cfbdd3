"""Several flows at once: their fair rates, and how evenly they shared the link."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_pinet.judge.rules import part_rule
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict, worst

Resource = TypeVar("Resource", bound=Hashable)


def max_min_shares(capacities: Mapping[Resource, float], flows: Sequence[Sequence[Resource]]) -> list[float]:
    """Return the max-min fair rate of each flow, in the unit of ``capacities`` (Bertsekas and Gallager, 6.5.2).

    ``flows`` names the resources that each flow uses. The method (Data Networks, 6.5.2) is progressive filling: all
    rates grow together until a resource is full. Its flows then keep their rate, and the other flows grow on.
    """
    left = dict(capacities)
    rates = [0.0] * len(flows)
    growing = {index for index, used in enumerate(flows) if used}
    while growing:
        users = {r: sum(r in flows[i] for i in growing) for r in left}
        step = min(left[r] / count for r, count in users.items() if count)
        for index in growing:
            rates[index] += step
        for resource, count in users.items():
            left[resource] -= step * count
        # Rounding errors must not keep a full resource open.
        full = {r for r, count in users.items() if count and left[r] <= 1e-9 * max(capacities[r], 1e-300)}
        growing -= {index for index in growing if any(r in full for r in flows[index])}
    return rates


def jain(values: Sequence[float]) -> float:
    """Return Jain's fairness index ``(sum x)^2 / (n sum x^2)`` (Jain 1984).

    1 if all are equal, 1/n if one has everything, 0 if all are 0.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


@dataclass(frozen=True)
class Evenness:
    """How evenly flows shared: the goodput of each flow over its fair rate, and Jain's index over these shares.

    ``least`` is the smallest share and ``least_flow`` the index of its flow.
    """

    parts: tuple[float, ...]
    jain: float

    @property
    def least_flow(self) -> int:
        return min(range(len(self.parts)), key=lambda index: self.parts[index])

    @property
    def least(self) -> float:
        return self.parts[self.least_flow]


def evenness(goodputs: Iterable[Bitrate], fair: Iterable[Bitrate]) -> Evenness:
    """Compare the goodput of flows with their fair rates, which must be above 0."""
    parts = tuple(got.bps / should.bps for got, should in zip(goodputs, fair, strict=True))
    return Evenness(parts, jain(parts))


def judge_evenness(found: Evenness, names: Sequence[str], share: Limit | None, fairness: Limit | None) -> Judgement:
    """Judge the least share and Jain's index by their limits; without a limit any value passes."""
    least = f"{names[found.least_flow]} got {found.least * 100:.3g} % of its fair share"
    index = f"Jain's index {found.jain:.3f}"
    verdicts, reasons, rules = [Verdict.PASS], [], []
    for limit, value, what in ((share, found.least, f"{least},"), (fairness, found.jain, f"{index} is")):
        if limit is None:
            continue
        rule = part_rule(limit)
        verdict, _ = rule.judge(value)
        verdicts.append(verdict)
        rules.append(limit.source)
        wanted = f"{rule.threshold:.3g}" if limit.metric is Metric.FAIRNESS else str(limit.bound)
        if verdict is Verdict.MARGINAL:
            reasons.append(f"{what} within the marginal band of {limit.marginal} above the limit {wanted}")
        elif verdict is not Verdict.PASS:
            reasons.append(f"{what} below the limit {wanted}")
    return Judgement(worst(verdicts), None, "; ".join(rules) or None, "; ".join(reasons) or f"{least}, {index}")
