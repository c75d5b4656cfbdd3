"""The verdicts, and what a gate of two builds says of them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """The verdict on a result. Only PASS, MARGINAL and IMPROVED are good. Only FAIL blames the change under test."""

    PASS = "pass"
    MARGINAL = "marginal"
    IMPROVED = "improved"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    ERROR = "error"
    SKIPPED = "skipped"


GOOD = (Verdict.PASS, Verdict.MARGINAL, Verdict.IMPROVED)

# Worst first: the order of tables, and the order that gives a result with several directions its verdict.
SEVERITY: tuple[Verdict, ...] = (
    Verdict.FAIL,
    Verdict.ERROR,
    Verdict.INVALID,
    Verdict.INCONCLUSIVE,
    Verdict.MARGINAL,
    Verdict.IMPROVED,
    Verdict.PASS,
    Verdict.SKIPPED,
)


def worst(verdicts: list[Verdict]) -> Verdict:
    """Return the worst verdict; SKIPPED if there is none."""
    return min(verdicts, key=SEVERITY.index, default=Verdict.SKIPPED)


class GateWords(NamedTuple):
    """What a gate of two builds says of a verdict: of one metric, of the whole change, and its exit code."""

    metric: str
    change: str
    exit: int


# A gate has only these verdicts. A FAIL of a build that does not boot, breaks, or brings its NIC up wrongly has the
# kind of this finding as its word.
GATE: dict[Verdict, GateWords] = {
    Verdict.FAIL: GateWords("regression", "regression", 1),
    Verdict.ERROR: GateWords("lab error", "lab error", 2),
    Verdict.INCONCLUSIVE: GateWords("undecided", "undecided", 3),
    Verdict.IMPROVED: GateWords("improved", "pass", 0),
    Verdict.PASS: GateWords("unchanged", "pass", 0),
}


# What the verdict on B says of B in comparison with A.
COMPARED: dict[Verdict, str] = {
    Verdict.FAIL: "slower",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.IMPROVED: "faster",
    Verdict.PASS: "same",
}
# For `git bisect run` this exit code means "this commit cannot be tested".
SKIP = 125
# This exit code ends `git bisect run`: no commit can be judged on this machine.
STOP = 131


def gated(verdict: Verdict) -> Verdict:
    """Return the verdict of GATE with the same meaning for a change."""
    if verdict is Verdict.MARGINAL:
        return Verdict.PASS
    return verdict if verdict in GATE else Verdict.INCONCLUSIVE


def change_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a change from the verdicts on its metrics: PASS, FAIL, ERROR or INCONCLUSIVE.

    PASS: it may be merged. A certain regression counts, whatever else went wrong. Without a metric, the change is
    undecided.
    """
    found = gated(worst(list(verdicts)))
    return Verdict.PASS if found in GOOD else found
