"""The noise of a value: how much it varies when nothing changed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_pinet.model.connection import Fresh


@dataclass(frozen=True)
class Noise:
    """Relative standard deviations (0.01 = 1 %) of one combination and direction, and how well they are known.

    ``connections`` is between connections of one session, with ``freedom`` degrees of freedom. ``sessions`` is between
    the levels of sessions (link-ups, boots, days), which more connections in a session do not reduce. ``source`` says
    where the values come from. ``links`` is the part of ``sessions`` that changes with each link-up. ``assumed``: the
    noise was not measured. ``session_freedom`` is that of ``sessions`` (None: the same as for ``connections``).
    ``days_known``: several days of the unchanged link were seen, so that nothing is guessed about other days.
    """

    connections: float
    freedom: float
    sessions: float
    source: str
    links: float = 0.0
    assumed: bool = False
    session_freedom: float | None = None
    days_known: bool = False

    def level_variance(self, fresh: Iterable[Fresh]) -> float:
        """Return the variance of the common level of such connections. More link-ups average the part of links."""
        lasting = max(self.sessions**2 - self.links**2, 0.0)
        link_ups = 1 + sum(kind is not Fresh.CONNECTION for kind in fresh)
        return lasting + min(self.links, self.sessions) ** 2 / link_ups

    def __str__(self) -> str:
        return f"{_percent(self.connections)} between connections, {_percent(self.sessions)} between sessions"


def _percent(value: float) -> str:
    return f"{value * 100:.2g} %"


def combined(own: float, freedom: float, known: Noise) -> float:
    """Pool the variance between connections seen now, with ``freedom`` degrees of freedom, with the known one."""
    total = known.freedom + freedom
    return (known.freedom * known.connections**2 + freedom * own) / total if total > 0 else math.inf


# Without any history: the noise that was seen on quiet virtual links, with few degrees of freedom.
UNKNOWN = Noise(connections=0.0055, freedom=2, sessions=0.003, source="no history", assumed=True)
