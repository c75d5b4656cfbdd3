"""How much traffic a gate may use until its verdict, and which limits apply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.traffic import WARMUP_CAP_S
from pytest_pinet.model.verdict import Verdict


def most_specific(limits: Iterable[Limit], key: MetricKey, metric: Metric = Metric.GOODPUT) -> Limit | None:
    """Return the limit that applies to one direction of a run, or None.

    Limits of the command line and of a call apply to this run, so they override files and markers. Below them the most
    specific selectors win, then the marker over the lab file, then the limit that was written last.
    """
    matching = [limit for limit in limits if limit.metric is metric and limit.scope.matches(key)]
    # Of equal limits, max returns the first.
    return max(
        reversed(matching), key=lambda limit: (_tier(limit), limit.scope.specificity, limit.origin), default=None
    )


def tolerance_of(limits: Iterable[Limit], key: MetricKey, default: float, metric: Metric = Metric.TOLERANCE) -> float:
    """Return the share by which a value may be worse, or a Gbit dearer, by the most specific limit."""
    found = most_specific(limits, key, metric)
    match found and found.bound:
        case Tolerance(Share(fraction)) | Share(fraction):
            return fraction
    return default


def _tier(limit: Limit) -> Origin:
    """Return the rank of the origin: files and markers are equal; calls and the command line are above them."""
    return max(limit.origin, Origin.MARKER)


def drops_limit(limits: Sequence[Limit], keys: Iterable[MetricKey]) -> Limit | None:
    """Return the strictest limit on link drops of all directions, since they share the link; None without a limit."""
    found = [limit for key in keys if (limit := most_specific(limits, key, Metric.MAX_DROPS)) is not None]
    return min(found, key=lambda limit: limit.bound if isinstance(limit.bound, int) else 0, default=None)


def goodput_limit(
    limits: Sequence[Limit],
    key: MetricKey,
    most: Bitrate,
    baseline: Bitrate | None = None,
    metrics: Sequence[Metric] = (Metric.GOODPUT,),
) -> Limit | None:
    """Return the one limit that judges a bit rate: the most specific minimum or tolerance below the baseline, or None.

    The first of ``metrics`` with a limit counts. If both a minimum and a tolerance apply, both must be met, so the
    stricter one judges. But a call or the command line overrides the other limit in files and markers. ``most`` is the
    physical limit, or the sent rate if it is lower. Without a ``baseline`` no tolerance applies.
    """

    def holding(metric: Metric) -> Limit | None:
        return most_specific(limits, key, metric)

    minimum = next((found for metric in metrics if (found := holding(metric)) is not None), None)
    tolerance = None if baseline is None else holding(Metric.TOLERANCE)
    if minimum is None or tolerance is None:
        return minimum or tolerance
    if _tier(minimum) != _tier(tolerance):
        return max(minimum, tolerance, key=_tier)

    def threshold(limit: Limit) -> float:
        found = limit.threshold(most, baseline)
        return 0.0 if found is None else found.number

    return max(minimum, tolerance, key=threshold)


@dataclass(frozen=True)
class Profile:
    """The budget of one gate.

    ``connection_s`` is the seconds of traffic of each connection, including its warm-up. ``passes_after`` and
    ``fails_after`` are the fewest connections for each verdict. ``budget_s`` is the seconds of traffic of one
    measurement over all connections; then an undecided gate is inconclusive.
    """

    name: str
    connection_s: int
    passes_after: int
    fails_after: int
    budget_s: float

    @property
    def least_counted_s(self) -> float:
        """The seconds that count in the shortest pass: a start may take the first second of each connection."""
        return self.passes_after * (self.connection_s - WARMUP_CAP_S)

    def more(self, spent_s: float, next_s: float) -> int:
        """Return how many more connections the budget allows, if each lasts ``next_s`` or as long as usual."""
        return max(int((self.budget_s - spent_s + 1e-6) / max(self.connection_s, next_s)), 0)


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("fast", connection_s=3, passes_after=1, fails_after=2, budget_s=24.0),
        Profile("standard", connection_s=3, passes_after=1, fails_after=3, budget_s=60.0),
        Profile("soak", connection_s=12, passes_after=2, fails_after=3, budget_s=144.0),
        # As long as the connections of published results (pytest_pinet/suites/).
        Profile("full", connection_s=65, passes_after=1, fails_after=3, budget_s=780.0),
    )
}
DEFAULT_PROFILE = "standard"
# Other names of profiles. In pytest_pinet/suites/, ``quick`` stands for every profile other than ``full``.
OTHER_WORDS = {"quick": DEFAULT_PROFILE}
# A rule is missed if at least this share of the connections missed it.
CONFIRMED = 2 / 3


def confirm(held: Sequence[bool], profile: Profile) -> Verdict | None:
    """Return the verdict on a rule that each connection held or missed, in any order; None requires another connection.

    PASS if all of ``passes_after`` connections held the rule. After a miss, ``fails_after`` connections decide: FAIL if
    two of three missed it, else MARGINAL. Without any connection: None.
    """
    missed = sum(not one for one in held)
    if not missed:
        return Verdict.PASS if len(held) >= profile.passes_after else None
    if len(held) < max(profile.fails_after, profile.passes_after):
        return None
    return Verdict.FAIL if missed >= CONFIRMED * len(held) else Verdict.MARGINAL
