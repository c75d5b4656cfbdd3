"""Makes attempts for tests of ``judge`` from rates."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.attempt import Attempt, Fresh
from pytest_pinet.model.measurement import Event, Sample

MBIT = 1e6


def attempt_of(
    rates_mbps: Sequence[float],
    seconds: float = 0.1,
    warmup: int = 3,
    fresh: Fresh = Fresh.CONNECTION,
    events: tuple[Event, ...] = (),
    excluded: str = "",
) -> Attempt:
    """Return an attempt with one sample of ``seconds`` per rate. The first ``warmup`` samples do not count."""
    samples = tuple(
        Sample(index * seconds, seconds, round(rate * MBIT / 8 * seconds), index < warmup)
        for index, rate in enumerate(rates_mbps)
    )
    return Attempt(samples, fresh, events, excluded)


def steady(mbps: float, seconds: float = 3.0, fresh: Fresh = Fresh.CONNECTION) -> Attempt:
    """Return a connection at one rate, in samples of 0.1 s."""
    return attempt_of([mbps] * round(seconds / 0.1), fresh=fresh)


def with_dips(mbps: float, dips: Sequence[tuple[float, float, float]], seconds: float = 3.0) -> Attempt:
    """Return a steady connection with dips, each given as (start, length, remaining share)."""
    rates = []
    for index in range(round(seconds / 0.1)):
        at = index * 0.1 + 0.05
        left = min((part for start, length, part in dips if start <= at < start + length), default=1.0)
        rates.append(mbps * left)
    return attempt_of(rates)
