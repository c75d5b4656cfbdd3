"""The verdicts of a result, and the verdicts on a change from one build to another."""

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


class MetricOutcome(StrEnum):
    """The outcome of one metric, the worst first."""

    REGRESSION = "regression"
    FINDING = "finding"  # the build does not boot, breaks, or brings its NIC up wrongly
    LAB_ERROR = "lab error"
    UNDECIDED = "undecided"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"


class ChangeVerdict(StrEnum):
    """Whether the change may be merged."""

    PASS = "pass"
    REGRESSION = "regression"
    LAB_ERROR = "lab error"
    UNDECIDED = "undecided"
