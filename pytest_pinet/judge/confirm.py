"""Yes-or-no rules over several attempts: one miss is a suspicion, several are a finding."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.judge.profile import Profile
from pytest_pinet.model.verdict import Verdict

# A rule is missed if at least this share of the attempts missed it.
CONFIRMED = 2 / 3


def confirm(held: Sequence[bool], profile: Profile) -> Verdict | None:
    """Return the verdict on a rule that each attempt held or missed, in any order; None requires another attempt.

    PASS if all of ``passes_after`` attempts held the rule. After a miss, ``fails_after`` attempts decide: FAIL if two
    of three missed it, else MARGINAL. Without any attempt: None.
    """
    missed = sum(not one for one in held)
    if not missed:
        return Verdict.PASS if len(held) >= profile.passes_after else None
    if len(held) < max(profile.fails_after, profile.passes_after):
        return None
    return Verdict.FAIL if missed >= CONFIRMED * len(held) else Verdict.MARGINAL
