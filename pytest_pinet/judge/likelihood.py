"""The likelihood ratio of two explanations of a value."""

from __future__ import annotations

import math

# Half the distance, in logarithms, between a tolerated slowdown and one that must be found. With a limit 3 % below the
# baseline these are 1 % and 5 %, 2 % on each side of the limit.
HALF_ZONE = 0.02


def certainty_threshold(error_rate: float) -> float:
    """Return the log likelihood ratio that is certain enough for equal error rates (Wald 1947): ``ln((1 - e) / e)``."""
    return math.log((1 - error_rate) / error_rate)


def likelihood(mean: float, variance: float, freedom: float, zone: float = HALF_ZONE) -> float:
    """Return the log likelihood ratio of "at least ``zone`` above the limit" to "at least ``zone`` below it".

    ``mean`` is the mean logarithm of value over limit. ``variance`` is the variance of the mean, estimated with
    ``freedom`` degrees of freedom. Each side uses its best explanation (Schwarz 1962), and the true variance is unknown
    (Student's t): ``(f + 1) / 2 * ln((f v + far^2) / (f v + near^2))``, where far and near are the distances to the two
    sides. With high freedom, inside the zone, this is Wald's ``2 d m / v``.
    """
    size = abs(mean)
    spread = freedom * variance
    far, near = size + zone, max(zone - size, 0.0)
    ratio = (far**2 - near**2) / (spread + near**2)
    return math.copysign((freedom + 1) / 2 * math.log1p(ratio), mean)


def required(variance: float, freedom: float, error_rate: float, zone: float = HALF_ZONE) -> float:
    """Return the smallest ``|mean|`` that is certain at this variance: the inverse of `likelihood`."""
    spread = freedom * variance
    rise = math.expm1(2 * certainty_threshold(error_rate) / (freedom + 1))
    outside = math.sqrt(spread * rise) - zone
    if outside >= zone:
        return outside
    half = zone * (2 + rise)
    product = rise * (spread + zone**2)
    return product / (half + math.sqrt(max(half**2 - rise * product, 0.0)))
