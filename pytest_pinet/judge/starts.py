"""Slow starts over several connections: which connections show their level, and how long the next one must be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from pytest_pinet.model.connection import Connection
from pytest_pinet.model.measurement import Event, EventKind, Sample

# Times of samples that are this near are equal.
EDGE_S = 0.15
# More bytes are no sample of traffic.
POSSIBLE = 10**18
# After a slow start, a connection must still show its level for so long (s).
AFTER_START_S = 2.0
# A connection may lie within its slow start as a whole if it is this much slower than connections with a level.
WITHIN_START = 0.9


@dataclass(frozen=True)
class Started:
    """How one connection started: the length of its slow start (0: an ordinary start), and whether it ended at all.

    ``level`` is the median rate after the start in bit/s, ``seconds`` the length of the connection.
    """

    slow_s: float
    ended: bool
    level: float
    seconds: float


def started(events: Sequence[Event], samples: Sequence[Sample]) -> Started:
    """Return how the connection with these events and samples started."""
    usable = [s for s in samples if math.isfinite(s.seconds) and s.seconds > 0 and abs(s.bytes) < POSSIBLE]
    seconds = sum(s.seconds for s in usable)
    level = median([s.bps for s in usable if not s.warmup] or [0.0])
    slow = [event for event in events if event.kind is EventKind.SLOW_START]
    slow_s = sum(s.seconds for s in usable if s.warmup) if slow else 0.0
    return Started(slow_s, all(event.seconds < seconds - EDGE_S for event in slow), level, seconds)


@lru_cache(maxsize=128)
def start_of(connection: Connection) -> Started:
    """Return how a connection started. The start of one that does not count says nothing about the others: it is none.

    Cached, since the gate decides again after each connection, over all so far.
    """
    if connection.excluded:
        return Started(0.0, True, 0.0, 0.0)
    return started(connection.events, connection.samples)


def shows_level(connections: Sequence[Started]) -> list[bool]:
    """Return, for each connection, whether it shows its level.

    It does not if it ended before its slow start did. If starts are slow, a much slower connection that is hardly
    longer than the longest start may lie within its own.
    """
    shown = [one.level for one in connections if one.slow_s and one.ended]
    least = WITHIN_START * max(shown, default=0.0)
    longest = max((one.slow_s for one in connections), default=0.0)
    return [
        one.ended and bool(one.slow_s or not shown or one.seconds > longest + AFTER_START_S or one.level >= least)
        for one in connections
    ]


def next_seconds(connections: Sequence[Started], usual_s: float) -> int:
    """Return the length of the next connection if it must be longer than usual, so that its start ends; else 0."""
    slow = [one for one in connections if one.slow_s]
    wanted = max((one.slow_s + AFTER_START_S if one.ended else 2 * one.seconds for one in slow), default=0.0)
    return math.ceil(wanted - 1e-6) if wanted > usual_s else 0
