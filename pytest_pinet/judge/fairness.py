"""The fair rate of each of several flows, and an index of fairness."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

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
