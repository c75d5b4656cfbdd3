"""What a self-test does: which reductions, how often, in which order, and about how long that takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.judge.profile import Profile
from pytest_pinet.model.traffic import Direction

# Connections for the baseline of each direction: its error is then less than half of what one connection has.
BASELINE_CONNECTIONS = 5
# Beside its traffic a connection takes this long, and a shaper this long to come and go (seconds, virtual lab).
SET_UP_S = 0.4
SHAPER_S = 0.4
OPENING_S = 5.0
# A reduction this near to the tolerance is neither a regression nor none.
AT_THE_LIMIT = 0.002


@dataclass(frozen=True)
class Case:
    """One gate: traffic in one direction of a link that is slower by ``reduction`` (0.05 = 5 %)."""

    way: Direction
    reduction: float


@dataclass(frozen=True)
class Plan:
    """What to inject, ``repeats`` gates for each reduction and for none, their directions in turn.

    The limit lies ``tolerance`` (0.03 = 3 %) below the baseline. ``seed`` makes the order.
    """

    reductions: tuple[float, ...]
    repeats: int
    profile: Profile
    seed: int

    def order(self, ways: Sequence[Direction]) -> list[Case]:
        """Every gate, in an order that drift of the lab cannot take for a reduction."""
        cases = [
            Case(ways[index % len(ways)], reduction)
            for reduction in (0.0, *self.reductions)
            for index in range(self.repeats)
        ]
        random.Random(self.seed).shuffle(cases)
        return cases

    def seconds(self, ways: int, tolerance: float) -> float:
        """About how long it takes for one combination: what is near the limit costs up to half of the budget."""
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
