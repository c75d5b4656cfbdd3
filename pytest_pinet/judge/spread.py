"""Mean and variance of the values of connections, the smallest margin that they can decide, and a tolerance for it.

The variance comes from the differences between the connections and from the known noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.judge.noise import Noise, combined
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.statistics import HALF_ZONE, lasting_bound, required, sequential_bound, variance
from pytest_pinet.judge.text import counted, percent
from pytest_pinet.model.connection import Fresh

# The lowest standard deviation between connections.
FLOOR = 0.0025
# From so many connections on, their own differences count more than assumptions.
FEW = 5
# Without measured noise, a link that is rough within or between connections is assumed to vary as much from day to day.
# The factors were chosen on the tuning half of benchmarks/verdicts (models s1 to s3).
ROUGH_WITHIN = 4.0
ROUGH_BETWEEN = 1.5
# A rough link may also have several levels, and a few connections may show only one of them: each of the rates that
# iperf3 finds without a shaper persists for several connections. So rougher links need more connections: this many if
# the standard deviation of a connection's mean is ROUGH, and fewer with its square below that.
ROUGH = 0.0055
ROUGH_CONNECTIONS = 10
# Nine of ten gates must reach a verdict within the budget: 1.28 standard deviations of the mean.
NINE_OF_TEN = 1.28


@dataclass(frozen=True)
class Spread:
    """The ``mean`` of n logarithms of value over limit; its variance is ``between / n + level``.

    More connections average ``between`` out. They do not reduce ``level``, the variance that all of them share (this
    session, this boot, this day). ``freedom`` and ``level_freedom`` are their degrees of freedom (None: ``level`` is an
    assumption that counts as part of ``between``). ``least`` is the number of connections that any certain result
    needs. ``zone`` is half the distance between the slowdown that may pass and the one that must be found.
    """

    mean: float
    between: float
    level: float
    n: int
    freedom: float
    level_freedom: float | None = None
    least: int = 1
    zone: float = HALF_ZONE

    @property
    def variance(self) -> float:
        return self.variance_after(self.n)

    def variance_after(self, connections: int) -> float:
        return self.between / connections + self.level

    def needed(self, error_rate: float, connections: int | None = None, share: float = 1.0) -> float:
        """Return the smallest ``|mean|`` that is certain after so many connections (default: those seen).

        The part that more connections reduce is tested again after each of them; the common part is drawn once.
        ``share`` scales all variances.
        """
        count = self.n if connections is None else connections
        freedom = self.freedom + count - self.n
        part, level = share * self.between / count, share * self.level
        if self.level_freedom is None:
            return required(part + level, freedom, error_rate, self.zone)
        lasting = lasting_bound(self.level_freedom, error_rate) ** 2 * level
        both = math.sqrt(lasting + sequential_bound(freedom, error_rate) ** 2 * part) - self.zone
        return max(required(part, freedom, error_rate, self.zone), both)

    def needed_at_last(self, error_rate: float, connections: int | None = None, share: float = 1.0) -> float:
        """Return the same for the last look of a budget, which guards against no further looks.

        It is a test of one sample: Student's quantile of the whole variance. Its degrees of freedom come from both
        parts (Satterthwaite 1946).
        """
        earlier = self.needed(error_rate, connections, share)
        if self.level_freedom is None:
            return earlier
        count = self.n if connections is None else connections
        part, level = share * self.between / count, share * self.level
        freedom = (part + level) ** 2 / (part**2 / (self.freedom + count - self.n) + level**2 / self.level_freedom)
        return min(earlier, max(lasting_bound(freedom, error_rate) * math.sqrt(part + level) - self.zone, 0.0))

    def needed_at_best(self, error_rate: float) -> float:
        """Return the part of `needed` that no number of connections removes; 0 if nothing is known about it."""
        if self.level_freedom is None:
            return 0.0
        return max(lasting_bound(self.level_freedom, error_rate) * math.sqrt(self.level) - self.zone, 0.0)

    def margin_after(self, connections: int, error_rate: float) -> float:
        """Return the least relative margin at which nine of ten gates reach a verdict after so many connections."""
        scatter = NINE_OF_TEN * math.sqrt(self.variance_after(connections))
        return math.expm1(self.needed(error_rate, connections) + scatter)


def spread_of(
    logs: Sequence[float], own: Sequence[float], noise: Noise, level: float, zone: float = HALF_ZONE
) -> Spread:
    """Pool the variance of ``logs`` with the known noise.

    ``own`` is the variance within each of them, which is a lower bound of the variance between them. ``level`` is the
    known variance of their common level.
    """
    n = len(logs)
    seen = variance(logs) if n > 1 else 0.0
    within = math.fsum(own) / n
    between = combined(seen, n - 1, noise)
    if n >= 3:
        # A higher variance than the known one counts at once, a lower one only gradually.
        between = max(between, seen)
    if noise.assumed and not noise.days_known:
        level = max(
            level + (ROUGH_WITHIN * within if n < FEW else 0.0), ROUGH_BETWEEN * _apart_from_one(logs, seen) - within
        )
    between = max(between, within, FLOOR**2)
    least = least_connections(own) if noise.assumed else 1
    return Spread(math.fsum(logs) / n, between, level, n, noise.freedom + n - 1, noise.session_freedom, least, zone)


def least_connections(own: Sequence[float]) -> int:
    """Return how many connections any verdict needs on a link of unknown noise; ``own`` is as in `spread_of`."""
    rough = min(math.fsum(own) / max(len(own), 1) / ROUGH**2, 1.0)
    return int(1 + (ROUGH_CONNECTIONS - 1) * rough)


def _apart_from_one(logs: Sequence[float], seen: float) -> float:
    """Return the variance without the oddest connection, corrected for leaving it out.

    One bad connection among good ones says nothing about other days. The correction is the factor by which leaving out
    the oddest of n normal values reduces the variance (simulated: 2.7 at 4, 1.9 at 6, 1.5 at 10, 1.27 at 20).
    """
    n = len(logs)
    if n < 4:
        return seen
    ranked = sorted(logs)
    return min(seen, (1 + 5.5 / n) * min(variance(ranked[1:]), variance(ranked[:-1])))


def smallest_margin(noise: Noise, profile: Profile, error_rate: float = 0.01) -> float:
    """Return the least relative margin between value and limit at which nine of ten gates reach a verdict (0.02 = 2 %).

    The margin is what the test requires of the mean after the whole budget (`Spread.needed`) plus the scatter of
    the mean.
    """
    connections = max(int(profile.budget_s / profile.connection_s), 1)
    return margin_after(connections, noise, error_rate)


def margin_after(connections: int, noise: Noise, error_rate: float) -> float:
    """Return the same margin after so many connections of one link-up."""
    level = noise.level_variance([Fresh.CONNECTION])
    between = max(noise.connections, FLOOR) ** 2
    spread = Spread(0.0, between, level, connections, noise.freedom + connections - 1, noise.session_freedom)
    return spread.margin_after(connections, error_rate)


# A change of the link by this much is no regression; the tolerance leaves room for it.
TOLERATED = 0.01
# Steps finer than half a per cent are not distinguishable.
STEP = 0.005
LEAST_TOLERANCE = 0.03


@dataclass(frozen=True)
class Proposal:
    """A proposal at ``error_rate``: the ``tolerance`` below the baseline, and ``repeats`` connections for a verdict.

    Nine of ten gates reach a verdict with so many connections. ``margin`` is the least distance between value and limit
    that can be judged (see `smallest_margin`).
    """

    error_rate: float
    tolerance: float
    repeats: int
    margin: float

    def __str__(self) -> str:
        return (
            f"tolerance {percent(self.tolerance)} with {counted(self.repeats)} at error rate "
            f"{percent(self.error_rate)} (least margin {percent(self.margin)})"
        )


def propose(noise: Noise, profile: Profile, error_rates: Sequence[float] = (0.01, 0.05)) -> tuple[Proposal, ...]:
    """Return the tolerance and repeats that this noise requires, for each error rate.

    A link 1 % slower than its baseline must still pass. The tolerance is this 1 % plus the least margin, rounded up to
    half per cents, and at least 3 %.
    """
    found = []
    most = max(int(profile.budget_s / profile.connection_s), 1)
    for rate in error_rates:
        margin = smallest_margin(noise, profile, rate)
        tolerance = max(LEAST_TOLERANCE, math.ceil((TOLERATED + margin) / STEP - 1e-9) * STEP)
        room = tolerance - TOLERATED
        enough = (n for n in range(1, most) if margin_after(n, noise, rate) <= room)
        repeats = max(next(enough, most), profile.passes_after)
        found.append(Proposal(rate, round(tolerance, 4), repeats, margin))
    return tuple(found)
