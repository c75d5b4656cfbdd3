"""All tests of a board run in each of its boots, and pytest then reports each test once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.change_session import ONE_TEST, THREE_TESTS, Bench, bench_with, printed


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, ONE_TEST) as found:
        yield found


def test_an_unchanged_build_passes_and_each_boot_serves_all_tests_of_the_board(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=THREE_TESTS)
    result = bench.run()
    result.assert_outcomes(passed=4)
    assert bench.boots == "ABBABAAB"[: len(bench.boots)]
    assert 4 <= len(bench.boots) <= 8
    assert bench.log[:7] == [
        "boot one A",
        "open pi4b:onboard/pair", "measure pi4b:onboard/pair tx A",
        "open pi4b:ax88179/pair", "measure pi4b:ax88179/pair tx A",
        "open pi4b:onboard/pair", "measure pi4b:onboard/pair rx A",
    ]  # fmt: skip
    found = bench.head
    assert (found["verdict"], found["exit"], found["bisect_exit"]) == ("pass", 0, 0)
    assert found["turns"] == len(bench.boots)
    assert bench.verdicts == ["pass"] * 3
    printed(result, "new may be merged: none of 3 metrics is slower than with good.")


def test_an_assertion_of_the_test_counts_once_the_values_are_final(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE_TEST.replace('direction="tx")', 'direction="tx")\n    assert not "really"'))
    result = bench.run()
    result.assert_outcomes(failed=1)
    assert bench.verdicts == ["pass"]
    assert (bench.head["exit"], bench.head["bisect_exit"]) == (3, 125)
    printed(result, "No decision on new: no metric is slower, but 1 test failed for another reason.")


def test_an_exception_in_a_boot_ends_the_test(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE_TEST.replace("    gate.tcp", '    {}["nothing"]\n    gate.tcp'))
    result = bench.run()
    result.assert_outcomes(errors=1)
    assert bench.boots == "A"
    printed(result, "KeyError: 'nothing'")


def test_skips_and_tests_without_a_measurement_cost_one_boot(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=ONE_TEST.replace("    gate.tcp", "    pytest.skip('not today')\n    gate.tcp")
        + "\n@pytest.mark.pinet(board='pi4b', nic='onboard')\ndef test_link(link):\n    assert link.id\n"
        + "\n@pytest.mark.skip(reason='no')\n@pytest.mark.pinet(board='pi4b', nic='usb')\ndef test_no(link): pass\n"
    )
    result = bench.run()
    result.assert_outcomes(passed=1, skipped=2)
    assert bench.boots == "A"
    assert (bench.head["verdict"], bench.head["exit"]) == ("inconclusive", 3)
    printed(result, "No decision on new: nothing was measured.")


def test_session_fixtures_are_made_once_for_all_boots(bench: Bench, pytester: pytest.Pytester) -> None:
    fixtures = """
import pytest
made = []

@pytest.fixture(scope="session")
def once():
    made.append(1)
    return made

@pytest.fixture
def each():
    made.append("each")
"""
    pytester.makepyfile(
        test_it=fixtures
        + ONE_TEST.replace("(link, gate)", "(link, gate, once, each)")
        + "\ndef test_made():\n    assert made.count(1) == 1 and made.count('each') > 4\n"
    )
    bench.run().assert_outcomes(passed=2)
