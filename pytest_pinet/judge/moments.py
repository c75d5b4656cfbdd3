"""Mean and variance, whatever the order of the values; the standard library's are exact, and too slow for each sample.

Sums are rounded once (``math.fsum``), so that a permutation of the values gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean of at least one value."""
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """The sample variance (n - 1) of at least two values."""
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)
