"""The one answer on a change, from what came of each figure; and what scripts are told."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

# What `git bisect run` takes for "this commit cannot be tested".
SKIP = 125
# Of a build that comes up and moves packets something can be said; of any other a bisection learns nothing.
MEASURABLE = ("slow link", "no traffic")


class Outcome(StrEnum):
    """What came of one figure, the worst first."""

    REGRESSION = "regression"
    FINDING = "finding"  # the build does not boot, breaks, or brings its NIC up wrongly
    LAB_ERROR = "lab error"
    UNDECIDED = "undecided"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"

    def __str__(self) -> str:
        return self.value


class Answer(StrEnum):
    """Whether the change may go in."""

    PASS = "pass"
    REGRESSION = "regression"
    LAB_ERROR = "lab error"
    UNDECIDED = "undecided"

    def __str__(self) -> str:
        return self.value


_EXIT = {Answer.PASS: 0, Answer.REGRESSION: 1, Answer.LAB_ERROR: 2, Answer.UNDECIDED: 3}


@dataclass(frozen=True)
class Came:
    """What came of one figure; ``finding`` is the kind of a FINDING (``panic``, ``no driver`` and so on)."""

    outcome: Outcome
    finding: str = ""


def answer(came: Collection[Came]) -> Answer:
    """What is certain counts, whatever else went wrong; without any figure nothing is known."""
    outcomes = {one.outcome for one in came}
    if outcomes & {Outcome.REGRESSION, Outcome.FINDING}:
        return Answer.REGRESSION
    if Outcome.LAB_ERROR in outcomes:
        return Answer.LAB_ERROR
    if Outcome.UNDECIDED in outcomes or not outcomes:
        return Answer.UNDECIDED
    return Answer.PASS


def exit_code(found: Answer) -> int:
    """0 pass, 1 regression, 2 lab error, 3 undecided."""
    return _EXIT[found]


def bisect_code(came: Sequence[Came]) -> int:
    """What ``git bisect run`` is told: 0 good, 1 bad, 125 where this commit says nothing."""
    found = answer(came)
    if found is Answer.PASS:
        return 0
    bad = any(
        one.outcome is Outcome.REGRESSION or (one.outcome is Outcome.FINDING and one.finding in MEASURABLE)
        for one in came
    )
    return 1 if bad else SKIP
