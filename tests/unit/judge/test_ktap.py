"""The TAP of the kernel's selftests is believed, not the exit code of their runner."""

from __future__ import annotations

import pytest

from pytest_pinet.judge.ktap import read_ktap
from pytest_pinet.model.measurement import KtapOutcome
from pytest_pinet.model.verdict import Verdict

# Printed by run_kselftest.sh of Linux 6.12.
PING = """\
TAP version 13
1..1
# overriding timeout to 45
# selftests: drivers/net: ping.py
# KTAP version 1
# 1..3
# ok 1 ping.test_v4
# ok 2 ping.test_v6 # SKIP Test requires IPv6 connectivity
# not ok 3 ping.test_tcp
# # Totals: pass:1 fail:1 xfail:0 xpass:0 skip:1 error:0
not ok 1 selftests: drivers/net: ping.py # exit=1
"""


def test_each_line_counts() -> None:
    found = read_ktap(PING)
    assert found is not None
    assert [(one.name, one.outcome) for one in found.results] == [
        ("ping.test_v4", KtapOutcome.PASS),
        ("ping.test_v6", KtapOutcome.SKIP),
        ("ping.test_tcp", KtapOutcome.FAIL),
    ]
    assert (found.verdict, found.planned, found.missing) == (Verdict.FAIL, 3, 0)
    assert found.sentence == "1 of 3 failed: ping.test_tcp, exit=1"


@pytest.mark.parametrize(
    ("old", "new", "verdict", "sentence"),
    [
        ("", "", Verdict.FAIL, "1 of 3 failed: ping.test_tcp, exit=1"),
        # A part failed, although the runner says ok.
        ("not ok 1", "ok 1", Verdict.FAIL, "1 of 3 failed: ping.test_tcp"),
        ("# not ok 3 ping.test_tcp\n", "", Verdict.FAIL, "printed 2 of 3 results and then ended, exit=1"),
        ("not ok", "ok", Verdict.PASS, "2 passed, 1 skipped (Test requires IPv6 connectivity)"),
        ("exit=1", "TIMEOUT 45 seconds", Verdict.FAIL, "1 of 3 failed: ping.test_tcp, TIMEOUT 45 seconds"),
        ("# not ok 3 ping.test_tcp", "# not ok 3 ping.test_tcp # XFAIL slow machine", Verdict.FAIL, "exit=1"),
    ],
)
def test_the_verdict(old: str, new: str, verdict: Verdict, sentence: str) -> None:
    found = read_ktap(PING.replace(old, new) if old else PING)
    assert found is not None
    assert (found.verdict, found.sentence) == (verdict, sentence)


def test_a_test_that_skips_itself() -> None:
    text = "TAP version 13\n1..1\n# ok 1 ynl # SKIP\nok 1 selftests: drivers/net: x.py # SKIP\n"
    found = read_ktap(text)
    assert found is not None
    assert (found.verdict, found.sentence) == (Verdict.SKIPPED, "1 skipped (no reason)")


# Printed by run_kselftest.sh of Linux 6.12 on a board without /dev/stdout: the three results of the test are missing.
LOST = "TAP version 13\n1..1\n# selftests: drivers/net: ping.py\nok 1 selftests: drivers/net: ping.py\n"


@pytest.mark.parametrize(
    "text", [LOST, LOST.replace("ok 1", "# hello\nok 1"), LOST.replace("ok 1", "# KTAP version 1\n# 1..0\nok 1")]
)
def test_a_pass_without_a_test_inside_is_no_pass(text: str) -> None:
    found = read_ktap(text)
    assert found is not None
    assert (found.verdict, found.results) == (Verdict.INCONCLUSIVE, ())
    assert found.sentence == (
        "only the runner printed 'ok'. No result of the test itself arrived, so nothing shows what was tested: the "
        "test prints no TAP, or the board lost its output. Run the test on the board by hand"
    )


@pytest.mark.parametrize(
    ("line", "verdict", "sentence"),
    [("not ok 1 selftests: x # exit=1", Verdict.FAIL, "exit=1"), ("ok 1 x # SKIP no NIC", Verdict.SKIPPED, "skip")],
)
def test_a_test_without_results_can_fail_and_skip(line: str, verdict: Verdict, sentence: str) -> None:
    found = read_ktap(f"TAP version 13\n1..1\n{line}\n")
    assert found is not None
    assert found.verdict is verdict
    assert found.sentence.startswith(sentence)


def test_deeper_tap_belongs_to_the_result_that_follows() -> None:
    text = "TAP version 13\n# 1..1\n# # 1..2\n# # ok 1 a\n# # not ok 2 b\n# ok 1 whole\nok 1 selftests: x\n"
    found = read_ktap(text)
    assert found is not None
    assert [one.name for one in found.results] == ["whole"]


def test_no_tap() -> None:
    assert read_ktap("No such test 'drivers/net:x'\n") is None
