"""Exports the verdicts of a run as the signals of a LAVA test shell, one line for each metric.

A LAVA job prints these lines on the console of its device or container.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.export.cases import Case, cases_of, result_word, settings_of

UNDECIDED = "unknown"


def lava(run: RunRecord, settings: Mapping[str, str]) -> str:
    """Return one line for each metric. LAVA splits it at blanks, and each word has exactly one ``=``."""
    settings_of("lava", settings)
    return "".join(f"<LAVA_SIGNAL_TESTCASE {_words(case)}>\n" for case in cases_of(run))


def _words(case: Case) -> str:
    words = [f"TEST_CASE_ID={case.name}", f"RESULT={result_word(case.verdict, UNDECIDED)}"]
    if case.instructions is not None:
        words += ["UNITS=instructions", f"MEASUREMENT={case.instructions:.2f}"]
    elif case.goodput_gbit is not None:
        words += ["UNITS=Gbit/s", f"MEASUREMENT={case.goodput_gbit:.6f}"]
    return " ".join(words)
