"""How much a figure varies when nothing changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """Relative standard deviations (0.01 = 1 %) of one combination and direction, and how well they are known.

    ``connections``: between connections of one session, from ``freedom`` degrees of freedom. ``sessions``: of the level
    between sessions (link-ups, boots, days), which no averaging inside one session removes. ``source`` names where they
    came from.
    """

    connections: float
    freedom: float
    sessions: float
    source: str


# Without any history: what an ordinary bench stays within (facts/measuring.md 5.3), and nothing that is trusted much.
UNKNOWN = Noise(connections=0.015, freedom=2, sessions=0.005, source="no history")
