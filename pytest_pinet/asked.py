"""What a call of the gate may say, read into values: durations, sizes, rates. All of it raises ConfigError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limit_values import parse_bound
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.quantities import Bitrate, Share, parse_duration, parse_size
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict

# A rate or size is text with a unit; a duration may also be a number of seconds.
Rate = str
Size = str | int
Duration = str | int | float
RATE_FORM = "a number for each second, such as '1200/s'"
T = TypeVar("T")


@dataclass(frozen=True)
class HttpFigures:
    """What requests gave a test that goes on: payload of good responses, and how many came each second."""

    verdict: Verdict
    goodput: Bitrate
    requests_per_s: float


@dataclass(frozen=True)
class LadderFigures:
    """What a ladder of UDP rates gave a test that goes on; ``knee`` is the highest rate that was held."""

    verdict: Verdict
    knee: Bitrate
    goodput: Bitrate


@dataclass(frozen=True)
class PingFigures:
    """Round trips in seconds, and the part (0 to 1) that was lost; ``mdev_s`` is None where the tool does not tell."""

    verdict: Verdict
    loss: float
    min_s: float
    mean_s: float
    max_s: float
    mdev_s: float | None


def seconds(name: str, value: Duration) -> float:
    """A duration."""
    if isinstance(value, bool) or (isinstance(value, int | float) and not 0 <= value < float("inf")):
        raise ConfigError(f"{name}={value!r}: expected a number of seconds or text such as '10 s'")
    return parse_duration(value) if isinstance(value, str) else float(value)


def octets(name: str, value: Size | None) -> int | None:
    """A size in bytes."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or (isinstance(value, int) and value <= 0):
        raise ConfigError(f"{name}={value!r}: expected a number of bytes or text such as '64K'")
    return parse_size(value) if isinstance(value, str) else value


def count(name: str, value: object) -> int:
    """How many."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name}={value!r}: expected a whole number, 1 or more")
    return value


def rate(value: Rate | None) -> Bitrate | None:
    """A bit rate."""
    return None if value is None else Bitrate.parse(value)


def rising(values: Sequence[Rate]) -> tuple[Bitrate, ...]:
    """The rates of a ladder, the lowest first."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ConfigError(f"rates={values!r}: expected a list of rates such as ['100M', '200M']")
    return tuple(sorted({Bitrate.parse(value) for value in values}))


def part(name: str, value: str) -> float:
    """A share of datagrams (0 to 1)."""
    bound = parse_bound(Metric.LOSS, value)
    if not isinstance(bound, Share) or not 0 <= bound.fraction < 1:
        raise ConfigError(f"{name}={value!r}: expected a share such as '0.1%', less than 100%")
    return bound.fraction


def requests_limit(value: str, size: int) -> Limit:
    """So many requests each second are so much payload: a limit of goodput like any other."""
    number, slash, unit = value.partition("/") if isinstance(value, str) else ("", "", "")
    try:
        per_second = float(number)
    except ValueError:
        per_second = 0.0
    if not (slash and unit.strip() == "s" and 0 < per_second < float("inf")):
        raise ConfigError(f"requests={value!r}: expected {RATE_FORM}")
    source = f"requests={value!r} of the call, {size} bytes each"
    return Limit(Bitrate(per_second * size * 8), Origin.CALL, source)


def with_requests(
    limits: tuple[Limit, ...], marked: Sequence[Limit], requests: Limit, here: Combination, way: Direction
) -> tuple[Limit, ...]:
    """The limits of a call together with that of requests: both minima must be met, so the harder one judges.

    ``marked`` are the marker's, which hold where the call sets no minimum.
    """
    board, nic, topology = here.board, here.nic, here.topology.name

    def minima(of: Sequence[Limit]) -> list[Limit]:
        return [one for one in of if one.metric is Metric.GOODPUT and one.matches(board, nic, topology, way, False)]

    own = minima(limits) or minima(marked)
    rates = [one.bound.bps for one in own if isinstance(one.bound, Bitrate)]
    if len(rates) < len(own):
        raise ConfigError("requests= and a share as min= cannot both be asked for; expected min= as a rate")
    if isinstance(requests.bound, Bitrate) and max(rates, default=0.0) >= requests.bound.bps:
        return limits
    rest = (one for one in limits if one not in own)
    return (*rest, replace(requests, board=board, nic=nic, topology=topology))
