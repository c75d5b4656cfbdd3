"""Axes: where values lie on paper, and which of them get a tick."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_pinet.model.quantities import Bitrate

_UNITS = (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0))


@dataclass(frozen=True)
class Scale:
    """Linear: from ``low`` to ``high`` of what is shown lies from ``start`` to ``end`` in pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (value - self.low) / span * (self.end - self.start) if span else (self.start + self.end) / 2

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the scale, at most about so many."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        step = _step(span / most)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _step(least: float) -> float:
    """The round number (1, 2 or 5 times a power of ten) that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


@dataclass(frozen=True)
class RateUnit:
    """The unit of a whole axis, so that its numbers can be compared."""

    name: str
    factor: float

    @classmethod
    def of(cls, most_bps: float) -> RateUnit:
        name, factor = next((unit for unit in _UNITS if most_bps >= unit[1]), _UNITS[-1])
        return cls(name, factor)

    def number(self, bps: float, step_bps: float) -> str:
        """With as many digits as tell two neighbouring ticks apart."""
        digits = max(0, -math.floor(math.log10(step_bps / self.factor) + 1e-9)) if step_bps > 0 else 0
        return f"{bps / self.factor:.{digits}f}"


def rate_range(values: Iterable[float], room: float = 0.06, least: float = 0.02) -> tuple[float, float]:
    """The range that shows all of these rates (bit/s) with some room.

    Not from zero where they lie close together, so that a step of a few percent is seen; but never less than ``least``
    of the largest, or noise would look like steps.
    """
    known = list(values)
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    lacking = high * least - (high - low)
    if lacking > 0:
        low, high = low - lacking / 2, high + lacking / 2
    margin = (high - low) * room or 1.0
    low = low - margin if low > 0 else 0.0
    # Next to zero an axis that does not begin there only puzzles.
    return (0.0 if low < high * 0.25 else low), high + margin


def rate_text(bps: float) -> str:
    """A rate with its unit."""
    return str(Bitrate(bps))
