"""How much a figure varies when nothing changed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_pinet.model.attempt import Fresh


@dataclass(frozen=True)
class Noise:
    """Relative standard deviations (0.01 = 1 %) of one combination and direction, and how well they are known.

    ``connections``: between connections of one session, from ``freedom`` degrees of freedom. ``sessions``: of the level
    between sessions (link-ups, boots, days), which no averaging inside one session removes. ``source`` names where they
    came from. ``links``: the part of ``sessions`` that a fresh link-up draws anew. ``assumed``: nobody measured them.
    ``session_freedom``: how well ``sessions`` is known (None: as well as ``connections``).
    """

    connections: float
    freedom: float
    sessions: float
    source: str
    links: float = 0.0
    assumed: bool = False
    session_freedom: float | None = None

    def level_variance(self, fresh: Iterable[Fresh]) -> float:
        """Variance of the level that attempts, begun like these, have in common; more link-ups average their part."""
        lasting = max(self.sessions**2 - self.links**2, 0.0)
        link_ups = 1 + sum(kind is not Fresh.CONNECTION for kind in fresh)
        return lasting + min(self.links, self.sessions) ** 2 / link_ups

    def __str__(self) -> str:
        return f"{_percent(self.connections)} between connections, {_percent(self.sessions)} between sessions"


def _percent(value: float) -> str:
    return f"{value * 100:.2g} %"


def combined(own: float, freedom: float, known: Noise) -> float:
    """Pool the variance between connections seen now, of ``freedom`` degrees of freedom, with the known one."""
    total = known.freedom + freedom
    return (known.freedom * known.connections**2 + freedom * own) / total if total > 0 else math.inf


# Without any history: what an ordinary bench stays within (facts/measuring.md 5.3), and nothing that is trusted much.
UNKNOWN = Noise(connections=0.0055, freedom=2, sessions=0.003, source="no history", assumed=True)
