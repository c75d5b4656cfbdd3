"""The records of a comparison of two states.

Rates are bit/s, durations seconds, times ISO 8601 in UTC, changes are fractions (-0.05 = 5 % slower).
"""

from __future__ import annotations

from pytest_pinet.model.record.base import Later, Record


class ConnectionRecord(Record):
    """One connection: its state, its start (seconds after the start of the comparison), and goodput by direction.

    ``seconds`` is its whole time, with set-up; ``counted_s`` is the part of its traffic that counts. ``excluded`` is
    the reason why the connection belongs to no pair; empty if it belongs to one.
    """

    side: str
    started_s: float
    seconds: float
    goodput_bps: dict[str, float]
    counted_s: float
    excluded: str
    events: tuple[str, ...]


class SideRecord(Record):
    """One direction: its goodput in both states, and the difference.

    ``change`` is B over A minus one, without drift; ``interval`` is its interval at the error rate (null: not known).
    """

    a_bps: float
    b_bps: float
    change: float | None
    interval: tuple[float, float] | None
    result: str
    why: str


class ComparisonRecord(Record):
    """A whole comparison. ``result`` is that of its worst direction. ``runs`` has all connections in their order.

    ``builds`` is the build of the device under test in each state (``A``, ``B``). ``error_rate`` is the accepted
    probability of a wrong result; runs of release 0.1 do not have this key and were judged at 0.01.
    """

    id: str
    a: str
    b: str
    result: str
    why: str
    tolerance: float
    error_rate: Later[float] = 0.01
    pairs: int
    directions: dict[str, SideRecord]
    runs: tuple[ConnectionRecord, ...]
    started: str
    seconds: float
    builds: dict[str, dict[str, str | None]]
    traffic_seconds: float
