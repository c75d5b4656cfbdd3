"""The plan of a self-test: reductions, repetitions, order, and approximate duration."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.judge.profile import Profile
from pytest_pinet.model.traffic import Direction

# Connections for the baseline of each direction. Its error is then less than half of one connection's error.
BASELINE_CONNECTIONS = 5
# Time of a connection besides traffic, of adding and removing a shaper, and of opening the link (s, virtual lab).
SET_UP_S = 0.4
SHAPER_S = 0.4
OPENING_S = 5.0
# For a reduction this near to the tolerance, both pass and fail are right.
AT_THE_LIMIT = 0.002


@dataclass(frozen=True)
class SelftestCase:
    """One gate: traffic in one direction of a link that is slower by ``reduction`` (0.05 = 5 %)."""

    way: Direction
    reduction: float


@dataclass(frozen=True)
class SelftestPlan:
    """The reductions to test, with ``repeats`` gates for each reduction and for none, in alternating directions.

    ``seed`` sets the random order.
    """

    reductions: tuple[float, ...]
    repeats: int
    profile: Profile
    seed: int

    def order(self, ways: Sequence[Direction]) -> list[SelftestCase]:
        """Return all gates in random order, so that slow drift of the lab cannot look like a reduction."""
        cases = [
            SelftestCase(ways[index % len(ways)], reduction)
            for reduction in (0.0, *self.reductions)
            for index in range(self.repeats)
        ]
        random.Random(self.seed).shuffle(cases)
        return cases

    def seconds(self, ways: int, tolerance: float) -> float:
        """Return the approximate duration for one combination (s).

        Gates near the limit take up to half of the budget.
        """
        connection_s = self.profile.connection_s + SET_UP_S
        total = OPENING_S + ways * BASELINE_CONNECTIONS * connection_s
        for reduction in (0.0, *self.reductions):
            margin = abs(reduction - tolerance)
            if margin <= AT_THE_LIMIT:
                connections = self.profile.budget_s / self.profile.connection_s / 2
            else:
                connections = self.profile.fails_after if reduction > tolerance else self.profile.passes_after
            total += self.repeats * (connections * connection_s + (SHAPER_S if reduction else 0.0))
        return total
