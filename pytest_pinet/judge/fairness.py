"""What each of several flows should get, and how evenly they got it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Resource = TypeVar("Resource", bound=Hashable)


def max_min_shares(capacities: Mapping[Resource, float], flows: Sequence[Sequence[Resource]]) -> list[float]:
    """The max-min fair rate of each flow, in the unit of ``capacities`` (Bertsekas and Gallager, Data Networks, 6.5.2).

    ``flows`` names the resources that each flow uses. Progressive filling: all rates grow together until a resource is
    full; its flows stay, the others grow on.
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
        # A rounding error must not keep a full resource open.
        full = {r for r, count in users.items() if count and left[r] <= 1e-9 * max(capacities[r], 1e-300)}
        growing -= {index for index in growing if any(r in full for r in flows[index])}
    return rates


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index ``(sum x)^2 / (n sum x^2)``: 1 when all are equal, 1/n when one has it all (Jain 1984).

    0 where nobody got anything.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0
