"""What happened to traffic, apart from its rate: told by itself, and never averaged into a figure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """Kinds of events, as reports name them."""

    STALL = "stall"  # nothing, or nearly nothing, arrived
    DIP = "dip"  # far below the rest of the run
    SLOW_START = "slow start"  # the warm-up took longer than its cap
    LINK_DOWN = "link down"  # the carrier was lost
    RESTART = "restart"  # a counter or a process began anew

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Event:
    """Something that happened while traffic ran.

    ``start_s`` counts from the start of that traffic, ``seconds`` is how long it lasted; ``text`` is a sentence for a
    reader (``link dropped for 2.1 s at 14:03:07, sw1/p5``).
    """

    kind: EventKind
    start_s: float
    seconds: float
    text: str
