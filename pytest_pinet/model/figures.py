"""Values beside goodput that are measured on fresh connections, each with its unit and its good side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_pinet.model.quantities import Bitrate, Duration, PerGbit, PerSecond, Quantity, Share, amount

# A value of 0 has no logarithm. No other value is as small.
_NOTHING = 1e-9
# A connection of the judge has a rate: so many bit/s are a level of 1, so that small levels are not rounded.
SCALE = 1e6
_UNITS: Mapping[str, Callable[[float], Quantity]] = {
    "bit/s": Bitrate,
    "/s": PerSecond,
    "s": Duration,
    "share": Share,
    "/Gbit": PerGbit,
    "ms/Gbit": lambda value: PerGbit(value, " ms"),
}


def unit_of_quantity(of: Quantity) -> str:
    """Return the unit of a quantity as `Figure.unit`."""
    return next(unit for unit, make in _UNITS.items() if make(amount(of)) == of)


class Better(StrEnum):
    """The side on which a value is better: high values or low ones."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True)
class Figure:
    """A kind of value. ``unit`` is ``bit/s``, ``/s``, ``s``, ``share`` (0 to 1), ``ms/Gbit`` or ``/Gbit``.

    ``least`` is added before a value is judged by its logarithm. It is the smallest difference that can be seen, such
    as the share of one probe. ``tolerance`` is the share by which build B may be worse if the test sets none.
    """

    name: str
    unit: str
    better: Better
    least: float = 0.0
    tolerance: float = 0.1

    def level(self, value: float) -> float:
        """Return the value as it is judged: higher is better, and above 0."""
        found = max(value + self.least, _NOTHING)
        return found if self.better is Better.UP else 1 / found

    def of_level(self, level: float) -> float:
        """Return the value with this level."""
        value = (level if self.better is Better.UP else 1 / max(level, _NOTHING)) - self.least
        return 0.0 if abs(value) < 2 * _NOTHING else value

    def rate(self, value: float) -> float:
        """Return the rate (bit/s) that the judges of goodput take in place of this value. Goodput is its own rate."""
        return value if self.unit == GOODPUT.unit else self.level(value) * SCALE

    def of_rate(self, bps: float) -> float:
        """Return the value with this rate: the inverse of `rate`."""
        return bps if self.unit == GOODPUT.unit else self.of_level(bps / SCALE)

    def quantity(self, value: float) -> Quantity:
        """Return the value with its unit, as files have it."""
        return _UNITS[self.unit](value)

    def show(self, value: float) -> str:
        """Return the value with its unit, as limits are written."""
        return str(self.quantity(float(f"{value:.3g}") if self.unit == "share" else value))


GOODPUT = Figure("goodput", "bit/s", Better.UP)
TRANSACTIONS = Figure("transactions", "/s", Better.UP)
CONNECTIONS = Figure("connections", "/s", Better.UP)
PACKETS = Figure("packets", "/s", Better.UP)
P50, P90, P99 = (Figure(name, "s", Better.DOWN) for name in ("p50", "p90", "p99"))
# One probe in 5 s, a thousand each second.
LATE = Figure("late", "share", Better.DOWN, least=0.0002)
# After an idle time. Differences below a millisecond do not count.
IDLE_LOSS = Figure("idle_loss", "share", Better.DOWN)
FIRST_ANSWER = Figure("first_answer", "s", Better.DOWN, least=0.001)
FIRST_SECOND = Figure("first_second", "share", Better.UP)
_AFTER_IDLE = (IDLE_LOSS, FIRST_ANSWER, FIRST_SECOND)
# Single packets on an idle link: round trips differ by half between connections. Traffic has a loss and a latency, too,
# with the same words for the limits. The other values have no limit.
LOSS = Figure("loss", "share", Better.DOWN, least=0.01, tolerance=0.5)
LATENCY = Figure("latency", "s", Better.DOWN, tolerance=0.5)
RTT_MIN, RTT_MAX, RTT_MDEV = (Figure(name, "s", Better.DOWN) for name in ("rtt_min", "rtt_max", "rtt_mdev"))
# Values with a limit, by the word for it in lab files, markers and calls.
FIGURES = {figure.name: figure for figure in (TRANSACTIONS, CONNECTIONS, PACKETS, P50, P90, P99, LATE, *_AFTER_IDLE)}


@dataclass(frozen=True)
class Sample:
    """One value of each kind, by its name, from one fresh connection (or one flap, one boot).

    ``raw`` is the output of the tool. ``excluded`` says why the values do not count; empty if they count. ``tool``
    names the tool with its version, such as ``sockperf 3.7``.
    """

    values: Mapping[str, float]
    raw: str
    excluded: str = ""
    notes: tuple[str, ...] = ()
    tool: str = field(default="", kw_only=True)
