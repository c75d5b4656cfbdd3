"""The words in which a result is given."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What was found; only PASS, MARGINAL and IMPROVED are good, and only FAIL blames the change under test."""

    PASS = "pass"
    MARGINAL = "marginal"
    IMPROVED = "improved"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    ERROR = "error"
    SKIPPED = "skipped"

    def __str__(self) -> str:
        return self.value


# Worst first: the order of tables and of the verdict of a result with several directions.
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
    """The verdict that stands for several; SKIPPED when there is none."""
    return min(verdicts, key=SEVERITY.index, default=Verdict.SKIPPED)
