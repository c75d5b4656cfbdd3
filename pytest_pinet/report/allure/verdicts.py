"""How verdicts appear in Allure: a status, and a category that says who must act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.model.verdict import Verdict, worst
from pytest_pinet.report.record import ResultRecord

# Allure's words. Grey (skipped) and green (passed) would let something unmeasured look harmless.
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
# Stands before the message, which is what the rules of categories look at in Allure 2 and 3.
PREFIX: Mapping[Verdict, str] = {
    Verdict.FAIL: "regression",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.INVALID: "invalid",
    Verdict.ERROR: "lab error",
}
UNMEASURED = "not measured"
# Of a test that is marked as one that will not get a figure, or will miss its limit; a lab is never expected to break.
EXPECTED = "expected"
_EXPECTABLE = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID)
_CATEGORIES = (
    ("Regression", PREFIX[Verdict.FAIL], "failed"),
    ("Lab error", PREFIX[Verdict.ERROR], "broken"),
    ("Inconclusive measurement", PREFIX[Verdict.INCONCLUSIVE], "broken"),
    ("Invalid measurement", PREFIX[Verdict.INVALID], "broken"),
    ("Expected to give no figure", EXPECTED, "skipped"),
    ("Nothing measured", UNMEASURED, "unknown"),
)


def categories() -> list[dict[str, object]]:
    """The rules of ``categories.json`` (Allure 2) and of ``categories.rules`` (Allure 3)."""
    return [
        # [\s\S], since Allure 2 wants the whole message to match, and a dot matches no line's end.
        {"name": name, "messageRegex": rf"^{prefix}: [\s\S]*", "matchedStatuses": [status]}
        for name, prefix, status in _CATEGORIES
    ]


def verdict_of(results: Sequence[ResultRecord]) -> Verdict | None:
    """The worst of a test's results; None when there is none."""
    return worst([Verdict(result["verdict"]) for result in results]) if results else None


def status_of(results: Sequence[ResultRecord], pytest_status: str | None, expected: bool = False) -> tuple[str, str]:
    """Allure's status, and the prefix of the message (empty: none), from our verdicts and what pytest made of the test.

    Never better than either: a test may fail by an assertion of its own after a good measurement, and pytest calls a
    broken kernel found in the set-up something that Allure shows as skipped. ``expected``: the test is marked to end as
    it did (``xfail``), which is no trouble to look after, and nothing measured either.
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
