"""Reads the arguments of gate calls: durations, sizes, rates. All functions raise ConfigError or ValueError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.limits import most_specific
from pytest_pinet.model.limits import Limit, Origin, Scope, parse_arguments
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, Share, parse_duration, parse_size

# A rate or size is text with a unit; a duration may also be a number of seconds.
Rate = str
Size = str | int
Duration = str | int | float
RATE_FORM = "a number for each second, such as '1200/s'"


class FlowLimits(TypedDict, total=False):
    """The limits of every measurement of goodput (``docs/reference/tests.md``). None is no limit.

    ``min`` and ``sum`` are a rate (``'2.3 Gbit/s'``) or a share of the physical limit (``'94%'``). ``share``,
    ``fairness``, ``tolerance``, ``marginal``, ``retransmits`` and ``cpu`` are shares. ``latency`` is a duration.
    ``max_drops`` is a number. Each limit except ``marginal`` can be a mapping from direction to value.
    """

    min: str | Mapping[str, str] | None
    sum: str | Mapping[str, str] | None
    share: str | float | Mapping[str, str | float] | None
    fairness: str | float | Mapping[str, str | float] | None
    tolerance: str | Mapping[str, object] | None
    marginal: str | None
    retransmits: str | Mapping[str, str] | None
    latency: str | Mapping[str, str] | None
    cpu: str | Mapping[str, str] | None
    max_drops: int | Mapping[str, int] | None


class Limits(FlowLimits, total=False):
    """The limits of TCP, UDP and HTTP. ``loss`` is a share of datagrams, such as ``'0.1%'``."""

    loss: str | Mapping[str, str] | None


class PingLimits(TypedDict, total=False):
    """The limits of ``gate.ping``: the share of lost packets, and the mean round trip."""

    loss: str | None
    latency: str | None
    marginal: str | None


def parse_seconds(name: str, value: Duration) -> float:
    """Read a duration, in seconds."""
    if isinstance(value, bool) or (isinstance(value, int | float) and not 0 <= value < float("inf")):
        raise ConfigError(f"{name}={value!r}: expected a number of seconds or text such as '10 s'")
    return parse_duration(value) if isinstance(value, str) else float(value)


def parse_octets(name: str, value: Size | None) -> int | None:
    """Read a size, in bytes."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or (isinstance(value, int) and value <= 0):
        raise ConfigError(f"{name}={value!r}: expected a number of bytes or text such as '64K'")
    return parse_size(value) if isinstance(value, str) else value


def parse_count(name: str, value: object) -> int:
    """Read a number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name}={value!r}: expected a whole number, 1 or more")
    return value


def parse_rate(value: Rate | None) -> Bitrate | None:
    """Read a bit rate."""
    return None if value is None else Bitrate.parse(value)


def parse_rising_rates(values: Sequence[Rate]) -> tuple[Bitrate, ...]:
    """Read the rates of a ladder. The lowest is the first."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ConfigError(f"rates={values!r}: expected a list of rates such as ['100M', '200M']")
    return tuple(sorted({Bitrate.parse(value) for value in values}))


def parse_share(name: str, value: str) -> float:
    """Read a share of datagrams (0 to 1)."""
    match [limit.bound for limit in parse_arguments({name: value}, Origin.CALL)]:
        case [Share(fraction)] if fraction < 1:
            return fraction
    raise ConfigError(f"{name}={value!r}: expected a share such as '0.1%', less than 100%")


def with_requests(
    limits: tuple[Limit, ...], marked: Sequence[Limit], written: str, size: int, key: MetricKey
) -> tuple[Limit, ...]:
    """Add ``requests`` of ``size`` bytes as a minimum goodput, unless ``min`` of the call or the marker is higher."""
    number, slash, unit = written.partition("/") if isinstance(written, str) else ("", "", "")
    try:
        rate = Bitrate(float(number) * size * 8)
    except ValueError:
        rate = Bitrate(0.0)
    if not (slash and unit.strip() == "s" and 0 < rate.bps < float("inf")):
        raise ConfigError(f"requests={written!r}: expected {RATE_FORM}")
    minimum = most_specific((*marked, *limits), key)
    if minimum is not None:
        if not isinstance(minimum.bound, Bitrate):
            message = f"requests={written!r} needs min= as a rate such as '80 Mbit/s', got a share ({minimum.source})"
            raise ConfigError(message)
        if minimum.bound >= rate:
            return limits
    here = key.combination
    source = f"requests={written!r} of the call, {size} bytes each"
    return (*limits, Limit(rate, Origin.CALL, source, Scope(here.board, here.nic, here.topology, key.direction)))
