"""Mean, variance, quantiles, the likelihood ratio of two explanations of a value, and numbers in sentences.

The functions of the standard library for mean and variance are exact but slow. These round each sum once
(``math.fsum``), so that the order of the values does not matter. The quantiles are accurate to 1 % from 3
degrees of freedom on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean, median


def percent(value: float) -> str:
    """Return ``3.2 %``, ``0.25 %`` or ``43 %`` for a fraction, with no more digits than are useful."""
    size = abs(value) * 100
    digits = 0 if size >= 9.95 else 1 if size >= 0.95 else 2
    return f"{size:.{digits}f} %"


def counted(connections: int, of: int | None = None) -> str:
    """Return ``1 connection``, ``3 of 3 connections``."""
    shown = connections if of is None else of
    return f"{'' if of is None else f'{connections} of '}{shown} connection{'' if shown == 1 else 's'}"


# Half the distance, in logarithms, between a tolerated slowdown and one that must be found. With a limit 3 % below the
# baseline these are 1 % and 5 %, 2 % on each side of the limit.
HALF_ZONE = 0.02


def logarithms(values: Iterable[float]) -> list[float]:
    """Return the logarithms of the values that are finite and above 0."""
    return [math.log(value) for value in values if math.isfinite(value) and value > 0]


def variance(values: Sequence[float]) -> float:
    """Return the sample variance (n - 1) of at least two values."""
    middle = fmean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def robust_sd(values: Sequence[float], middle: float) -> float:
    """Return 1.4826 times the median absolute deviation from ``middle``, their median.

    For a normal distribution this is the standard deviation.
    """
    return 1.4826 * median([abs(value - middle) for value in values])


def normal(probability: float) -> float:
    """Return the value that a standard normal variable stays below with this probability."""
    return NormalDist().inv_cdf(probability)


def chi_square(probability: float, freedom: float) -> float:
    """Return the same for a chi-square variable (Wilson and Hilferty 1931)."""
    part = 2 / (9 * freedom)
    cube: float = max(1 - part + normal(probability) * math.sqrt(part), 0.0) ** 3
    return freedom * cube


def student(probability: float, freedom: float) -> float:
    """Return the same for Student's t: exact for 1 and 2 degrees of freedom, else by Hill (CACM algorithm 396)."""
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


def certainty_threshold(error_rate: float) -> float:
    """Return the log likelihood ratio that is certain enough for equal error rates (Wald 1947): ``ln((1 - e) / e)``."""
    return math.log((1 - error_rate) / error_rate)


def least_error(log_likelihood: float) -> float:
    """Return the smallest error rate at which this log likelihood ratio is certain: ``1 / (1 + exp(|L|))``.

    It is the inverse of `certainty_threshold`.
    """
    return 1 / (1 + math.exp(min(abs(log_likelihood), 700.0)))


def likelihood(log_mean: float, of_mean: float, freedom: float, zone: float = HALF_ZONE) -> float:
    """Return the log likelihood ratio of "at least ``zone`` above the limit" to "at least ``zone`` below it".

    ``log_mean`` is the mean logarithm of value over limit. ``of_mean`` is the variance of this mean, estimated with
    ``freedom`` degrees of freedom. Each side uses its best explanation (Schwarz 1962), and the true variance is unknown
    (Student's t): ``(f + 1) / 2 * ln((f v + far^2) / (f v + near^2))``, where far and near are the distances to the two
    sides. With high freedom, inside the zone, this is Wald's ``2 d m / v``.
    """
    size = abs(log_mean)
    spread = freedom * of_mean
    far, near = size + zone, max(zone - size, 0.0)
    ratio = (far**2 - near**2) / (spread + near**2)
    return math.copysign((freedom + 1) / 2 * math.log1p(ratio), log_mean)


def sequential_bound(freedom: float, error_rate: float) -> float:
    """Return how many standard errors a mean must lie from the wrong side of the zone, however often the test looks.

    It is where `likelihood` reaches `certainty_threshold` for a mean at the edge of the zone or beyond.
    """
    return math.sqrt(freedom * math.expm1(2 * certainty_threshold(error_rate) / (freedom + 1)))


# The share of the error rate that is left for what more connections do not reduce.
LASTING_SHARE = 0.7


def lasting_bound(freedom: float, error_rate: float) -> float:
    """Return the same for an error that is drawn once, such as the level of the day: Student's quantile."""
    return student(1 - LASTING_SHARE * error_rate, freedom)


def required(of_mean: float, freedom: float, error_rate: float, zone: float = HALF_ZONE) -> float:
    """Return the smallest ``|log_mean|`` that is certain at this variance: the inverse of `likelihood`."""
    spread = freedom * of_mean
    rise = math.expm1(2 * certainty_threshold(error_rate) / (freedom + 1))
    outside = math.sqrt(spread * rise) - zone
    if outside >= zone:
        return outside
    half = zone * (2 + rise)
    product = rise * (spread + zone**2)
    return product / (half + math.sqrt(max(half**2 - rise * product, 0.0)))
