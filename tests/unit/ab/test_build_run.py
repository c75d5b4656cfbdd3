"""A run with a build under test: its baseline, and the results that Ctrl-C keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.change_session import ONE_TEST, THREE_TESTS, Bench, bench_with, printed


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, ONE_TEST) as found:
        yield found


def test_a_build_without_a_lab_is_a_mistake(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PINET_LAB", raising=False)
    result = bench.run("--pinet-lab=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--pinet-build: no lab is configured for the build; pass --pinet-lab FILE*"])


def test_the_default_baseline_is_the_own_build_of_the_boards(bench: Bench) -> None:
    result = bench.run(builds=("new.yaml",))
    result.assert_outcomes(passed=1)
    sentence = "new may be merged: the metric is not slower than with the boards' own build."
    printed(result, "A: the build that is installed on the boards", sentence)


def test_after_ctrl_c_the_results_of_earlier_boots_are_kept(bench: Bench) -> None:
    bench.plan("def stop(side, boot):\n    if boot == 3:\n        raise KeyboardInterrupt\n\nPLAN = Plan(traffic=stop)")
    result = bench.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert bench.boots == "ABB"
    # The results of earlier turns are not lost.
    assert bench.verdicts == ["inconclusive"]
    (entry,) = bench.head["entries"]
    assert (entry["a_bps"], entry["b_bps"]) == (pytest.approx(940e6, rel=0.01), pytest.approx(940e6, rel=0.01))
    turns = bench.record["results"][0]["change"]["turns"]
    assert [one["side"] for one in turns if one["connections"]] == ["A", "B"]
    printed(result, "No decision on new: 1 of 1 metrics are undecided.")


def test_after_ctrl_c_the_answer_is_undecided_because_a_test_is_not_measured(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=ONE_TEST.replace('board="pi4b", nic="onboard"', 'board=["pi4b", "cm4"], nic="onboard"'))
    plan = """
first_boots = []
def stop(side, boot):
    first_boots.append(boot)
    if first_boots.count(1) == 2:
        raise KeyboardInterrupt

PLAN = Plan(start=stop)
"""
    bench.plan(plan)
    result = bench.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert bench.verdicts == ["pass"]
    assert (bench.head["verdict"], bench.record["complete"]) == ("inconclusive", False)
    printed(result, "No decision on new: no metric is slower, but the run was interrupted.")


def test_a_finding_before_ctrl_c_is_reported(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=THREE_TESTS)
    plan = """
of_b = []
def stop(side, boot):
    of_b.append(side)
    if of_b.count(Side.B) == 1:
        raise KernelError("kernel oops on one", "Oops!")
    if of_b.count(Side.B) == 2:
        raise KeyboardInterrupt

PLAN = Plan(traffic=stop)
"""
    bench.plan(plan)
    assert bench.run().ret == pytest.ExitCode.INTERRUPTED
    assert sorted(bench.verdicts) == ["fail", "inconclusive", "inconclusive"]
    assert (bench.head["verdict"], bench.head["entries"][0]["text"]) == ("fail", "kernel oops on one")
