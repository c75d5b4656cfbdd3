"""How long traffic may run before a verdict must be there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """What one gate may spend.

    ``connection_s``: seconds of traffic of each connection, its warm-up included. ``passes_after`` and ``fails_after``:
    the fewest connections for each verdict. ``budget_s``: seconds of traffic of one measurement, all connections
    together; at its end an undecided gate is inconclusive.
    """

    name: str
    connection_s: int
    passes_after: int
    fails_after: int
    budget_s: float


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("fast", connection_s=3, passes_after=1, fails_after=2, budget_s=24.0),
        Profile("standard", connection_s=3, passes_after=1, fails_after=3, budget_s=60.0),
        Profile("soak", connection_s=11, passes_after=2, fails_after=3, budget_s=132.0),
        # Connections as long as those behind published figures (tests/gate/).
        Profile("full", connection_s=65, passes_after=1, fails_after=3, budget_s=780.0),
    )
}
DEFAULT_PROFILE = "standard"
# Other words for them: what is not ``full`` in the suites of tests/gate/ is ``quick``.
OTHER_WORDS = {"quick": DEFAULT_PROFILE}
