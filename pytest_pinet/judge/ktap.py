"""Reads the TAP of the kernel's selftests, and judges it. The exit code of run_kselftest.sh says nothing: it is 0.

Documentation/dev-tools/ktap.rst. run_kselftest.sh puts ``# `` before each line that a test prints, also before its TAP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_pinet.model.measurement import KtapOutcome, KtapResult
from pytest_pinet.model.verdict import Verdict

_RESULT = re.compile(
    r"(?P<depth>(?:# |  )*)(?P<no>not )?ok (?P<number>\d+)(?: -)?(?: (?P<name>[^#]*?))?(?: *# *(?P<note>.*))?"
)
_PLAN = re.compile(r"(?P<depth>(?:# |  )*)1\.\.(?P<count>\d+)(?: *#.*)?")
_SKIP, _EXPECTED = re.compile(r"SKIP\b", re.IGNORECASE), re.compile(r"(?:XFAIL|TODO)\b", re.IGNORECASE)
_STEP = 2
# The runner ignores what becomes of the test's output: on a board without /dev/stdout, it prints its own line only.
_EMPTY = (
    "only the runner printed 'ok'. No result of the test itself arrived, so nothing shows what was tested: the test "
    "prints no TAP, or the board lost its output. Run the test on the board by hand"
)


@dataclass(frozen=True)
class KtapReport:
    """What a selftest printed: its own ``results``, how many it ``planned``, and the line that the runner added."""

    results: tuple[KtapResult, ...]
    planned: int | None
    whole: KtapResult

    @property
    def failed(self) -> list[KtapResult]:
        return [one for one in self.results if one.outcome is KtapOutcome.FAIL]

    @property
    def verdict(self) -> Verdict:
        """The verdict by all lines. A pass names at least one result of the test itself."""
        if self.failed or self.missing or self.whole.outcome is KtapOutcome.FAIL:
            return Verdict.FAIL
        if self.whole.outcome is KtapOutcome.SKIP:
            return Verdict.SKIPPED
        if not self.results:
            return Verdict.INCONCLUSIVE
        return Verdict.SKIPPED if all(one.outcome is KtapOutcome.SKIP for one in self.results) else Verdict.PASS

    @property
    def missing(self) -> int:
        """The number of planned results that the test did not print: it ended early."""
        return max(0, (self.planned or 0) - len(self.results))

    @property
    def sentence(self) -> str:
        """What the test found, as part of a sentence."""
        if self.verdict is Verdict.INCONCLUSIVE:
            return _EMPTY
        skipped = sum(one.outcome is KtapOutcome.SKIP for one in self.results)
        parts = [f"{len(self.failed)} of {len(self.results)} failed: {', '.join(one.name for one in self.failed)}"]
        parts = parts if self.failed else []
        if self.missing:
            parts.append(f"printed {len(self.results)} of {self.planned} results and then ended")
        if self.whole.outcome is KtapOutcome.FAIL:
            parts.append(self.whole.note or "the test failed")
        if not parts:
            passed = len(self.results) - skipped
            parts = [f"{passed} passed"] if passed or not skipped else []
            parts += [f"{skipped} skipped ({self._why_skipped})"] if skipped else []
            parts = parts if self.results else [f"{self.whole.outcome} {self.whole.note}".strip()]
        return ", ".join(parts)

    @property
    def _why_skipped(self) -> str:
        notes = (_SKIP.sub("", one.note).strip() for one in self.results if one.outcome is KtapOutcome.SKIP)
        return "; ".join(dict.fromkeys(filter(None, notes))) or "no reason"


def read_ktap(text: str) -> KtapReport | None:
    """Return the report of one test that run_kselftest.sh ran; None if the text has no result."""
    results: list[KtapResult] = []
    planned: int | None = None
    whole: KtapResult | None = None
    for line in text.splitlines():
        if (plan := _PLAN.fullmatch(line.rstrip())) and len(plan["depth"]) == _STEP:
            planned = int(plan["count"])
        found = _RESULT.fullmatch(line.rstrip())
        if found is None:
            continue
        # Deeper lines are parts of the result that follows them.
        if len(found["depth"]) == _STEP:
            results.append(_result(found))
        elif not found["depth"]:
            whole = _result(found)
    return None if whole is None else KtapReport(tuple(results), planned, whole)


def _result(found: re.Match[str]) -> KtapResult:
    note = (found["note"] or "").strip()
    outcome = KtapOutcome.FAIL if found["no"] else KtapOutcome.PASS
    if _SKIP.match(note):
        outcome = KtapOutcome.SKIP
    elif _EXPECTED.match(note):
        outcome = KtapOutcome.PASS
    return KtapResult((found["name"] or found["number"]).strip(), outcome, note)
