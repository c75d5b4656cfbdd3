"""From the verdict on each metric to the verdict on the change, and to exit codes for scripts."""

from __future__ import annotations

import pytest

from pytest_pinet.model.record.change import ChangeEntryRecord
from pytest_pinet.model.verdict import GATE, Verdict, change_verdict
from pytest_pinet.report.change_head import bisect_code


def metric(verdict: Verdict, finding: str = "") -> ChangeEntryRecord:
    return ChangeEntryRecord(id="pi4b:onboard/pair/tcp-P1-tx", direction="", verdict=verdict, text="", finding=finding)


SLOWER, SAME, FASTER = metric(Verdict.FAIL), metric(Verdict.PASS), metric(Verdict.IMPROVED)
UNDECIDED, LAB = metric(Verdict.INCONCLUSIVE), metric(Verdict.ERROR)


@pytest.mark.parametrize(
    ("came", "word", "code", "bisect"),
    [
        ([SAME, FASTER], "pass", 0, 0),
        ([SAME, SLOWER], "regression", 1, 1),
        ([SLOWER, LAB, UNDECIDED], "regression", 1, 1),
        ([SAME, LAB, UNDECIDED], "lab error", 2, 125),
        ([SAME, UNDECIDED], "undecided", 3, 125),
        ([], "undecided", 3, 125),
        ([metric(Verdict.FAIL, "panic")], "regression", 1, 125),
        ([metric(Verdict.FAIL, "no driver"), SAME], "regression", 1, 125),
        ([metric(Verdict.FAIL, "slow link")], "regression", 1, 1),
        ([metric(Verdict.FAIL, "panic"), SLOWER], "regression", 1, 1),
    ],
)
def test_the_verdict_on_a_change_has_a_word_and_exit_codes(
    came: list[ChangeEntryRecord], word: str, code: int, bisect: int
) -> None:
    found = change_verdict(one.verdict for one in came)
    assert (GATE[found].change, GATE[found].exit) == (word, code)
    assert bisect_code(found, came) == bisect


def test_a_broken_exact_board_ends_a_bisection() -> None:
    assert bisect_code(Verdict.ERROR, [SAME, LAB, UNDECIDED], exact=True) == 131
    assert bisect_code(Verdict.FAIL, [LAB, SLOWER], exact=True) == 1
    assert bisect_code(Verdict.INCONCLUSIVE, [UNDECIDED], exact=True) == 125
