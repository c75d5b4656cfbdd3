"""Mean and variance that do not depend on the order of the values, and quantiles that the standard library lacks.

The functions of the standard library for mean and variance are exact but slow. These round each sum once
(``math.fsum``), so that a permutation of the values gives the same bits. The quantiles are accurate to 1 % from 3
degrees of freedom on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median


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


def normal(probability: float) -> float:
    """Return the value that a standard normal variable stays below with this probability."""
    return NormalDist().inv_cdf(probability)


def chi_square(probability: float, freedom: float) -> float:
    """Return the same for a chi-square variable (Wilson and Hilferty 1931)."""
    part = 2 / (9 * freedom)
    cube: float = max(1 - part + normal(probability) * math.sqrt(part), 0.0) ** 3
    return freedom * cube


def student(probability: float, freedom: float) -> float:
    """Return the same for Student's t.

    Exact for 1 and 2 degrees of freedom, else Hill's expansion (CACM algorithm 396).
    """
    if freedom <= 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom <= 2:
        return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
    z = normal(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))
