"""How much more likely one explanation of a figure is than the other."""

from __future__ import annotations

import math

# Half the distance, in logarithms, between the slowdown that is tolerated and the one that must be caught: with a limit
# 3 % below the baseline these are 1 % and 5 %, 2 % on each side of it.
HALF_ZONE = 0.02


def needed(error_rate: float) -> float:
    """The log likelihood ratio that is certain enough, both errors alike (Wald 1947): ``ln((1 - e) / e)``."""
    return math.log((1 - error_rate) / error_rate)


def likelihood(mean: float, variance: float) -> float:
    """Log likelihood ratio of "at least HALF_ZONE above the limit" to "at least HALF_ZONE below it".

    ``mean`` is the mean logarithm of figure over limit, normal with ``variance``. Within the zone it is Wald's ratio
    ``2 d m / v`` (1947), beyond it Schwarz's ``(|m| + d)^2 / 2v`` (1962), which takes the best of all explanations on
    either side and so sees a large difference sooner.
    """
    size = abs(mean)
    ratio = (size + HALF_ZONE) ** 2 / 2 if size > HALF_ZONE else 2 * HALF_ZONE * size
    return math.copysign(ratio / variance, mean)


def required(variance: float, error_rate: float) -> float:
    """The smallest ``|mean|`` that is certain at this variance: the inverse of `likelihood`."""
    inside = needed(error_rate) * variance / (2 * HALF_ZONE)
    return inside if inside <= HALF_ZONE else math.sqrt(2 * needed(error_rate) * variance) - HALF_ZONE
