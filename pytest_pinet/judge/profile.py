"""How much traffic a gate may use until its verdict."""

from __future__ import annotations

from dataclasses import dataclass


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


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("fast", connection_s=3, passes_after=1, fails_after=2, budget_s=24.0),
        Profile("standard", connection_s=3, passes_after=1, fails_after=3, budget_s=60.0),
        Profile("soak", connection_s=11, passes_after=2, fails_after=3, budget_s=132.0),
        # As long as the connections of published results (tests/gate/).
        Profile("full", connection_s=65, passes_after=1, fails_after=3, budget_s=780.0),
    )
}
DEFAULT_PROFILE = "standard"
# Other names of profiles. In tests/gate/, ``quick`` stands for every profile other than ``full``.
OTHER_WORDS = {"quick": DEFAULT_PROFILE}
