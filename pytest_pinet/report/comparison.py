"""The record types of a comparison of two states: plain dicts, lists and numbers, as in ``record``.

Rates are bit/s, durations seconds, times ISO 8601 in UTC, changes are fractions (-0.05 = 5 % slower).
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class ConnectionRecord(TypedDict):
    """One connection: its state, when it began (seconds since the comparison did), and its figures by direction.

    ``seconds`` is what it took with its set-up, ``counted_s`` the part of its traffic that counts.

    ``excluded`` says why it stands in no pair (empty: it does).
    """

    side: str
    started_s: float
    seconds: float
    goodput_bps: dict[str, float]
    counted_s: float
    excluded: str
    events: list[str]


class SideRecord(TypedDict):
    """What one direction was in the two states, and B against A.

    ``change`` is B over A minus one, drift taken out, within ``interval`` at the set error rate (None: not known).
    """

    a_bps: float
    b_bps: float
    change: float | None
    interval: list[float] | None
    result: str
    why: str


class ComparisonRecord(TypedDict):
    """A whole comparison; ``result`` is that of its worst direction. ``runs`` are all connections, in their order.

    ``builds`` is what the device under test ran in each state (``A``, ``B``). ``error_rate`` is how often the result
    may be wrong; runs of release 0.1 do not have it, and were judged at 0.01.
    """

    id: str
    a: str
    b: str
    result: str
    why: str
    tolerance: float
    error_rate: NotRequired[float]
    pairs: int
    directions: dict[str, SideRecord]
    runs: list[ConnectionRecord]
    started: str
    seconds: float
    builds: dict[str, dict[str, str | None]]
    traffic_seconds: float
