"""Series of receiver samples, for tests that detect features in them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pytest_pinet.model.measurement import Sample


def series(rates: Sequence[float], seconds: float = 0.1) -> tuple[Sample, ...]:
    """Return consecutive samples of these rates (Mbit/s)."""
    return tuple(
        Sample(round(index * seconds, 6), seconds, round(rate * 1e6 * seconds / 8)) for index, rate in enumerate(rates)
    )


def noisy(rate: float, count: int, noise: float, seed: int) -> list[float]:
    """Return ``count`` rates with a relative standard deviation."""
    source = random.Random(seed)
    return [rate * max(0.01, source.gauss(1.0, noise)) for _ in range(count)]
