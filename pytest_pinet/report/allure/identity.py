"""What a test is in Allure: one permanent id for each combination and test, its status, and a category.

Allure's own id is a hash of file name, function and parameters without separators. A moved file, another working
directory or an object among the parameters cuts a trend, and two combinations may get the same id. A category says who
must act.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict, worst

# The only parameter that is not excluded, so Allure 3 includes it in its hash.
PARAMETER = "combination"
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


@dataclass(frozen=True)
class Subject:
    """What a test measures: a combination, the test's name, and its parameters other than the link.

    ``test`` is the name without file and parameters. ``path`` is the file; it becomes part of the key only if two tests
    would have the same key.
    """

    combination: CombinationId
    test: str
    parameters: Mapping[str, object]
    path: str
    told_apart: str = ""

    @property
    def key(self) -> str:
        """Return a JSON text of all stable parts, without ambiguity."""
        of = self.combination
        parts = [of.board, of.nic, of.topology, self.test, {k: repr(v) for k, v in self.parameters.items()}]
        # Omit empty parts, so that tests from before tunings existed keep their id.
        tuning = [{"tuning": of.tuning}] if of.tuning else []
        return json.dumps([*parts, *tuning, *([self.told_apart] if self.told_apart else [])], sort_keys=True)

    @property
    def id(self) -> str:
        """Return the test case id and history id of Allure 2. Allure 3 derives its own id from it."""
        return _md5(f"pinet:{self.key}")


def allure3_id(test_case_id: str, combination: str) -> str:
    """Return the history id of Allure 3 (3.18: ``md5(testCaseId).md5(name:value)``)."""
    return f"{_md5(test_case_id)}.{_md5(f'{PARAMETER}:{combination}')}"


def tell_apart(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the subjects. Where tests of several files have the same key, the file becomes part of the key."""
    keys = Counter(subject.key for subject in subjects)
    return [replace(s, told_apart=s.path) if keys[s.key] > 1 else s for s in subjects]


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


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
