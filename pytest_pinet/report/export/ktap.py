"""Exports the verdicts of a run as KTAP, in the flat form that all readers of kernel selftests take.

``kunit.py parse``, NIPA, Linaro's ``parse-output.py`` (LAVA) and openQA read it: one selftest for each combination, and
in comments below it one subtest for each metric. The form of ktap.rst with indented subtests is read by kunit.py only.
KTAP has no field for numbers, so the goodput is diagnostic data; of exact boards, the instructions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.verdict import GOOD, Verdict
from pytest_pinet.report.export.cases import Case, by_group, cases_of, settings_of

# `#` begins a directive. NIPA takes [FAIL], FAIL: and SKIP: anywhere in the text for a result.
_DIRECTIVE = str.maketrans("#[]", "-()")
_RESULT = re.compile(r"\b(fail|skip)(ped|ed)?:", re.IGNORECASE)
_NO_DECISION = (Verdict.ERROR, Verdict.INVALID, Verdict.INCONCLUSIVE)


def ktap(run: RunRecord, settings: Mapping[str, str]) -> str:
    """Return the whole text. A metric without a decision is ``not ok # ERROR``, which most readers count as failed.

    With ``--set undecided=skip`` it is ``ok # SKIP``: then only a slower or broken build fails.
    """
    skips = settings_of("ktap", settings, "undecided")["undecided"] == "skip"
    groups = by_group(cases_of(run))
    lines = ["TAP version 13", f"1..{len(groups)}"]
    for number, (group, cases) in enumerate(groups.items(), 1):
        lines += [f"# selftests: pinet: {group}", "# TAP version 13", f"# 1..{len(cases)}"]
        for place, case in enumerate(cases, 1):
            lines += [f"# # {_text(case)}", f"# {_status(case, place, skips)}"]
        lines += [f"# # {_totals(cases, skips)}", _of_group(group, number, cases, skips)]
    return "\n".join(lines) + "\n"


def _text(case: Case) -> str:
    words = [case.label, case.value_text, f"{case.verdict}{f', {case.text}' if case.text else ''}"]
    return _RESULT.sub(lambda match: match[0][:-1], " ".join(filter(None, words)).translate(_DIRECTIVE))


def _status(case: Case, number: int, skips: bool) -> str:
    word, directive = _word(case, skips)
    data = [f"time={case.result.seconds * 1000:.0f}ms"]
    if case.instructions is not None:
        data.append(f"instructions={case.instructions:.2f}")
    elif case.goodput_gbit is not None:
        data.append(f"goodput={case.goodput_gbit:.4f}Gbit/s")
    return f"{word} {number} {case.label} # {' '.join([*directive, *data])}"


def _word(case: Case, skips: bool) -> tuple[str, list[str]]:
    """Return ``ok`` or ``not ok``, and the directive. Linaro's parser makes its text part of the name: no text."""
    if case.verdict is Verdict.SKIPPED or (skips and case.verdict in _NO_DECISION):
        return "ok", ["SKIP"]
    if case.verdict in _NO_DECISION:
        return "not ok", ["ERROR"]
    return ("ok" if case.verdict in GOOD else "not ok"), []


def _totals(cases: Sequence[Case], skips: bool) -> str:
    words = [_word(case, skips) for case in cases]
    skipped = sum("SKIP" in directive for _, directive in words)
    errors = sum("ERROR" in directive for _, directive in words)
    passed = sum(word == "ok" for word, _ in words) - skipped
    failed = len(cases) - passed - skipped - errors
    return f"Totals: pass:{passed} fail:{failed} xfail:0 xpass:0 skip:{skipped} error:{errors}"


def _of_group(group: str, number: int, cases: Sequence[Case], skips: bool) -> str:
    words = [_word(case, skips) for case in cases]
    if any(word == "not ok" for word, _ in words):
        return f"not ok {number} selftests: pinet: {group} # exit=1"
    skipped = all("SKIP" in directive for _, directive in words)
    return f"ok {number} selftests: pinet: {group}{' # SKIP' if skipped else ''}"
