"""Several flows at once: their fair rates, and how evenly they shared the link."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from pytest_pinet.model.judgement import EvennessJudgement
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.quantities import Bitrate, Share
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
    """Return Jain's index ``(sum x)^2 / (n sum x^2)`` (1984): 1 if all are equal, 1/n if one has all, 0 for zeros."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def judge_evenness(
    goodputs: Sequence[Bitrate], fair: Sequence[Bitrate], names: Sequence[str], *limits: Limit | None
) -> EvennessJudgement:
    """Judge how evenly flows shared, by ``limits`` on the least share and Jain's index; without one any value passes.

    The shares are the goodputs of the flows over their ``fair`` rates, which must be above 0.
    """
    parts = [got.bps / should.bps for got, should in zip(goodputs, fair, strict=True)]
    least, flow = min(zip(parts, names, strict=True), key=lambda part: part[0])
    text, index = f"{flow} got {least * 100:.3g} % of its fair share", jain(parts)
    thresholds = tuple(one for limit in limits if limit is not None and (one := limit.threshold()) is not None)
    verdicts, reasons = [Verdict.PASS], []
    for one in thresholds:
        is_index = one.metric is Metric.FAIRNESS
        verdict, _ = one.judge(index if is_index else least)
        verdicts.append(verdict)
        what = f"Jain's index {index:.3f} is" if is_index else f"{text},"
        wanted = f"{one.number:.3g}" if is_index else str(Share(one.number))
        if one.marginal is not None and verdict is Verdict.MARGINAL:
            reasons.append(f"{what} within the marginal band of {Share(one.marginal)} above the limit {wanted}")
        elif verdict is not Verdict.PASS:
            reasons.append(f"{what} below the limit {wanted}")
    reason = "; ".join(reasons) or f"{text}, Jain's index {index:.3f}"
    return EvennessJudgement(least, flow, index, thresholds, worst(verdicts), reason)
