"""Mean, variance and a robust deviation that do not depend on the order of the values.

The functions of the standard library are exact but slow. These round each sum once (``math.fsum``), so that a
permutation of the values gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean of at least one value."""
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """Return the sample variance (n - 1) of at least two values."""
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def robust_sd(values: Sequence[float], middle: float) -> float:
    """Return 1.4826 times the median absolute deviation from ``middle``, their median.

    For a normal distribution this is the standard deviation.
    """
    return 1.4826 * median(abs(value - middle) for value in values)
