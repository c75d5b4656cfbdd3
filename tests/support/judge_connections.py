"""Makes connections for tests of ``judge`` from rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.model.connection import Connection, Fresh, MeasuredFlow
from pytest_pinet.model.measurement import Event, Flow, Sample
from pytest_pinet.model.topology import TopologyFlow
from pytest_pinet.model.traffic import Direction

MBIT = 1e6


def connection_of(
    rates_mbps: Sequence[float],
    seconds: float = 0.1,
    warmup: int = 3,
    fresh: Fresh = Fresh.CONNECTION,
    events: tuple[Event, ...] = (),
    excluded: str = "",
) -> Connection:
    """Return a connection with one sample of ``seconds`` per rate. The first ``warmup`` samples do not count."""
    samples = tuple(
        Sample(index * seconds, seconds, round(rate * MBIT / 8 * seconds), index < warmup)
        for index, rate in enumerate(rates_mbps)
    )
    return single(samples, fresh, events, excluded)


def single(
    samples: tuple[Sample, ...],
    fresh: Fresh = Fresh.CONNECTION,
    events: tuple[Event, ...] = (),
    excluded: str = "",
) -> Connection:
    """Return a connection of one flow with these samples at its receiver."""
    flow = MeasuredFlow(0, 1, TopologyFlow(0, 1, Direction.TX), Direction.TX, Flow(Direction.TX, samples))
    return Connection((flow,), fresh, events, excluded)


def with_samples(one: Connection, samples: tuple[Sample, ...]) -> Connection:
    """Return the connection with other samples of its one flow."""
    (measured,) = one.flows
    return replace(one, flows=(replace(measured, flow=replace(measured.flow, samples=samples)),))


def steady(mbps: float, seconds: float = 3.0, fresh: Fresh = Fresh.CONNECTION) -> Connection:
    """Return a connection at one rate, in samples of 0.1 s."""
    return connection_of([mbps] * round(seconds / 0.1), fresh=fresh)


def with_dips(mbps: float, dips: Sequence[tuple[float, float, float]], seconds: float = 3.0) -> Connection:
    """Return a steady connection with dips, each given as (start, length, remaining share)."""
    rates = []
    for index in range(round(seconds / 0.1)):
        at = index * 0.1 + 0.05
        left = min((part for start, length, part in dips if start <= at < start + length), default=1.0)
        rates.append(mbps * left)
    return connection_of(rates)
