"""The one verdict on a change, from the outcome of each value, and the exit codes for scripts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_pinet.model.verdict import ChangeVerdict, MetricOutcome

# For `git bisect run` this exit code means "this commit cannot be tested".
SKIP = 125
# This exit code ends `git bisect run`: no commit can be judged on this machine.
STOP = 131
# A build with these findings comes up and moves packets, so a bisection can judge it. Other builds are skipped.
MEASURABLE = ("slow link", "link drops", "no traffic")


_EXIT = {ChangeVerdict.PASS: 0, ChangeVerdict.REGRESSION: 1, ChangeVerdict.LAB_ERROR: 2, ChangeVerdict.UNDECIDED: 3}


@dataclass(frozen=True)
class MetricSummary:
    """The outcome of one metric; ``finding`` is the kind of a FINDING (``panic``, ``no driver`` and so on)."""

    outcome: MetricOutcome
    finding: str = ""


def answer(came: Collection[MetricSummary]) -> ChangeVerdict:
    """Return the verdict. Certain regressions count, whatever else went wrong. Without any outcome it is undecided."""
    outcomes = {one.outcome for one in came}
    if outcomes & {MetricOutcome.REGRESSION, MetricOutcome.FINDING}:
        return ChangeVerdict.REGRESSION
    if MetricOutcome.LAB_ERROR in outcomes:
        return ChangeVerdict.LAB_ERROR
    if MetricOutcome.UNDECIDED in outcomes or not outcomes:
        return ChangeVerdict.UNDECIDED
    return ChangeVerdict.PASS


def exit_code(found: ChangeVerdict) -> int:
    """Return 0 pass, 1 regression, 2 lab error, 3 undecided."""
    return _EXIT[found]


def bisect_code(came: Sequence[MetricSummary], exact: bool = False) -> int:
    """Return the code for ``git bisect run``: 0 good, 1 bad, 125 if this commit cannot be judged.

    ``exact``: the values are of exact boards. Such a board breaks for a reason that no commit changes (two boots of the
    known-good build differ), so 131 ends the bisection, which would skip one commit after the other.
    """
    found = answer(came)
    if found is ChangeVerdict.PASS:
        return 0
    bad = any(
        one.outcome is MetricOutcome.REGRESSION or (one.outcome is MetricOutcome.FINDING and one.finding in MEASURABLE)
        for one in came
    )
    broken = exact and any(one.outcome is MetricOutcome.LAB_ERROR for one in came)
    return 1 if bad else STOP if broken else SKIP
