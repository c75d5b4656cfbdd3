"""How much traffic a gate may use until its verdict, and how many connections confirm a suspicion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.model.traffic import WARMUP_CAP_S
from pytest_pinet.model.verdict import Verdict


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
