"""Events of traffic, such as stalls: reported separately from goodput, and never averaged into it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """The kinds of events, by their names in reports."""

    STALL = "stall"  # nothing, or nearly nothing, arrived
    DIP = "dip"  # far below the rest of the run
    SLOW_START = "slow start"  # the warm-up took longer than its cap
    LINK_DOWN = "link down"  # the carrier was lost
    RESTART = "restart"  # a counter or a process restarted

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Event:
    """An event during traffic.

    ``start_s`` counts from the start of the traffic, ``seconds`` is its length. ``text`` is a sentence for readers
    (``link dropped for 2.1 s at 14:03:07, sw1/p5``).
    """

    kind: EventKind
    start_s: float
    seconds: float
    text: str
