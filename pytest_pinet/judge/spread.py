"""Mean and variance of what attempts gave, from their own differences and from what is known of the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.judge.likelihood import likelihood
from pytest_pinet.judge.moments import variance
from pytest_pinet.judge.noise import Noise, combined

# No link repeats better than this.
FLOOR = 0.0025
# From so many connections on, their own differences count more than anything assumed.
FEW = 5
# Where nobody measured the noise: a link that is rough within a connection, or between them, is taken to differ as much
# from day to day. Chosen on the tuning half of benchmarks/verdicts (models s1 to s3).
ROUGH_WITHIN = 4.0
ROUGH_BETWEEN = 1.5
# It may also have more than one level, of which a few connections show one alone: each of the rates that iperf3 finds
# without a shaper holds for connections in a row. So it takes more connections the rougher they are: this many where
# the standard deviation of one's mean is that large, fewer by its square.
ROUGH = 0.0055
ROUGH_CONNECTIONS = 10


@dataclass(frozen=True)
class Spread:
    """``mean`` of n logarithms of figure over limit; its variance is ``between / n + level``.

    ``between`` falls with every connection, ``level`` (what they have in common: this session, this boot) does not.
    ``freedom`` and ``level_freedom``: how well these are known, in degrees of freedom (None: alike). ``least``: how
    many connections it takes before anything is certain.
    """

    mean: float
    between: float
    level: float
    n: int
    freedom: float
    level_freedom: float | None = None
    least: int = 1

    @property
    def variance(self) -> float:
        return self.variance_after(self.n)

    def variance_after(self, connections: int) -> float:
        return self.between / connections + self.level

    def freedom_after(self, connections: int) -> float:
        """Degrees of freedom of the variance, its two parts weighed (Satterthwaite 1946)."""
        freedom = self.freedom + connections - self.n
        if self.level_freedom is None or self.level <= 0:
            return freedom
        part = self.between / connections
        return (part + self.level) ** 2 / (part**2 / freedom + self.level**2 / self.level_freedom)

    @property
    def certainty(self) -> float:
        return likelihood(self.mean, self.variance, self.freedom_after(self.n))


def spread_of(logs: Sequence[float], own: Sequence[float], noise: Noise, level: float) -> Spread:
    """Pool the variance of ``logs`` with the known noise.

    ``own``: the variance that each of them shows within itself, which the variance between them cannot be less than;
    ``level``: the known variance of what they have in common.
    """
    n = len(logs)
    seen = variance(logs) if n > 1 else 0.0
    within = math.fsum(own) / n
    between = combined(seen, n - 1, noise)
    if n >= 3:
        # Worse than known is believed at once, better only by and by.
        between = max(between, seen)
    if noise.assumed:
        level = max(
            level + (ROUGH_WITHIN * within if n < FEW else 0.0), ROUGH_BETWEEN * _apart_from_one(logs, seen) - within
        )
    between = max(between, within, FLOOR**2)
    rough = min(within / ROUGH**2, 1.0) if noise.assumed else 0.0
    least = int(1 + (ROUGH_CONNECTIONS - 1) * rough)
    return Spread(math.fsum(logs) / n, between, level, n, noise.freedom + n - 1, noise.session_freedom, least)


def _apart_from_one(logs: Sequence[float], seen: float) -> float:
    """The variance without the oddest connection, as it would be with it if that were not odd.

    One bad connection among good ones says nothing about other days. The factor is what leaving out the oddest of n
    normal values takes away (simulated: 2.7 at 4, 1.9 at 6, 1.5 at 10, 1.27 at 20).
    """
    n = len(logs)
    if n < 4:
        return seen
    ranked = sorted(logs)
    return min(seen, (1 + 5.5 / n) * min(variance(ranked[1:]), variance(ranked[:-1])))
