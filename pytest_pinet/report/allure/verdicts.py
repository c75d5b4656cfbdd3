"""Maps verdicts to an Allure status and to a category that says who must act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict, worst

# Allure's status words. A result without a measurement must not look harmless: not grey (skipped), not green (passed).
STATUS: Mapping[Verdict, str] = {
    Verdict.PASS: "passed",
    Verdict.MARGINAL: "passed",
    Verdict.IMPROVED: "passed",
    Verdict.FAIL: "failed",
    Verdict.INCONCLUSIVE: "broken",
    Verdict.INVALID: "broken",
    Verdict.ERROR: "broken",
    Verdict.SKIPPED: "skipped",
}
# Prefix of the message. The category rules of Allure 2 and 3 match it.
PREFIX: Mapping[Verdict, str] = {
    Verdict.FAIL: "regression",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.INVALID: "invalid",
    Verdict.ERROR: "lab error",
}
UNMEASURED = "not measured"
# For a test marked xfail: no valid result, or goodput below the limit. A lab error is never expected.
EXPECTED = "expected"
_EXPECTABLE = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID)
_CATEGORIES = (
    ("Regression", PREFIX[Verdict.FAIL], "failed"),
    ("Lab error", PREFIX[Verdict.ERROR], "broken"),
    ("Inconclusive measurement", PREFIX[Verdict.INCONCLUSIVE], "broken"),
    ("Invalid measurement", PREFIX[Verdict.INVALID], "broken"),
    ("Expected to give no result", EXPECTED, "skipped"),
    ("Nothing measured", UNMEASURED, "unknown"),
)


def categories() -> list[dict[str, object]]:
    """Return the rules of ``categories.json`` (Allure 2) and ``categories.rules`` (Allure 3)."""
    return [
        # [\s\S]: Allure 2 requires a match of the whole message, and a dot does not match a line end.
        {"name": name, "messageRegex": rf"^{prefix}: [\s\S]*", "matchedStatuses": [status]}
        for name, prefix, status in _CATEGORIES
    ]


def verdict_of(results: Sequence[ResultRecord]) -> Verdict | None:
    """Return the worst verdict of a test's results; None without results."""
    return worst([result.verdict for result in results]) if results else None


def status_of(results: Sequence[ResultRecord], pytest_status: str | None, expected: bool = False) -> tuple[str, str]:
    """Return Allure's status and the message prefix (empty: none), from our verdicts and pytest's status.

    The status is never better than either of them: a test may fail by its own assertion after a good measurement, and
    Allure shows a broken kernel found during setup as skipped, because pytest reports it so. With ``expected`` (the
    test is marked ``xfail``) a bad verdict needs no attention, but the status is not green either.
    """
    verdict = verdict_of(results)
    if verdict is None:
        return ("unknown", UNMEASURED) if pytest_status == "passed" else (pytest_status or "unknown", "")
    if expected and pytest_status == "skipped" and verdict in _EXPECTABLE:
        return "skipped", EXPECTED
    status = STATUS[verdict]
    if status == "passed" and pytest_status in ("failed", "broken", "skipped"):
        return pytest_status, ""
    return status, PREFIX.get(verdict, "")
