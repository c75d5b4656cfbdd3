"""Several flows at once: their fair rates, and how evenly they shared the link."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.judge.fairness import jain, max_min_shares
from pytest_pinet.judge.rules import part_rule
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict, worst


def fair_rates(
    capacities: Mapping[Hashable, float], flows: Sequence[Sequence[Hashable]], offered: Bitrate | None
) -> list[Bitrate]:
    """Return the max-min fair rate of each flow, at most the rate that it offers.

    ``capacities`` (bit/s of goodput) are for each direction of each NIC, and for everything between the NICs. ``flows``
    names what each flow crosses.
    """
    limits = dict(capacities)
    crossed: list[list[Hashable]] = []
    for index, names in enumerate(flows):
        own = [*names]
        if offered is not None:
            limits["offered", index] = offered.bps
            own.append(("offered", index))
        crossed.append(own)
    return [Bitrate(rate) for rate in max_min_shares(limits, crossed)]


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
