"""The verdicts of a result."""

from __future__ import annotations

from enum import StrEnum


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
