"""Yes-or-no rules over several attempts: one miss is a suspicion, several are a finding."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.judge.profile import Profile
from pytest_pinet.model.verdict import Verdict

# Of the attempts, the part that must miss a rule before it is called missed.
CONFIRMED = 2 / 3


def confirm(held: Sequence[bool], profile: Profile) -> Verdict | None:
    """The verdict on a rule that each attempt held or missed, in any order; None asks for another attempt.

    PASS when all of ``passes_after`` attempts held it. After a miss ``fails_after`` attempts decide: FAIL when two of
    three missed it, else MARGINAL. Without any attempt: None.
    """
    missed = sum(not one for one in held)
    if not missed:
        return Verdict.PASS if len(held) >= profile.passes_after else None
    if len(held) < max(profile.fails_after, profile.passes_after):
        return None
    return Verdict.FAIL if missed >= CONFIRMED * len(held) else Verdict.MARGINAL
