"""Boots in A/B comparisons: builds or links that fail, refused builds, and the cause of each failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.change_session import ONE_TEST, THREE_TESTS, Bench, bench_with, printed


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, ONE_TEST) as found:
        yield found


def test_a_board_that_was_under_test_boots_its_known_good_build_before_it_is_a_peer(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=ONE_TEST.replace('board="pi4b", nic="onboard"', 'board=["pi4b", "cm4"], nic="onboard"'))
    bench.run().assert_outcomes(passed=2)
    boots = [line for line in bench.log if line.startswith(("boot", "known-good"))]
    # When both boards were leased, it still ran the build of its measurement.
    of_two = boots.index("known-good one")
    assert all(line.startswith("boot one") for line in boots[:of_two])
    assert all(line.startswith("boot two") for line in boots[of_two + 1 :])


def test_a_build_that_does_not_boot_is_a_finding_of_the_build_and_ends_all_tests_of_the_board(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=THREE_TESTS)
    bench.plan(
        'PLAN = Plan(start=lambda side, boot: BuildError("kernel panic on one while it booted new", "panic", "Oops!")'
        " if side is Side.B else None)"
    )
    result = bench.run()
    result.assert_outcomes(passed=1, failed=3)
    assert bench.boots == "AB"
    assert {entry["finding"] for entry in bench.head["entries"]} == {"panic"}
    assert (bench.head["exit"], bench.head["bisect_exit"]) == (1, 125)
    printed(result, "kernel panic on one while it booted new", "PANIC", "new must not be merged: panic (3 of 3")


def test_a_known_good_build_that_does_not_boot_is_a_lab_error(bench: Bench) -> None:
    bench.plan('PLAN = Plan(start=lambda side, boot: BuildError("no login on one", "no login"))')
    result = bench.run()
    result.assert_outcomes(errors=1)
    assert bench.boots == "A"
    assert (bench.head["verdict"], bench.head["exit"], bench.head["bisect_exit"]) == ("error", 2, 125)
    printed(result, "the known-good build good: no login on one", "name another build with --against")


@pytest.mark.parametrize(
    ("what", "missing", "kind", "bisect"),
    [
        ('LinkError("no link on one:onboard after 12 s", "cable")', False, "no link", 125),
        ('LinkError("no such device: eth0", "driver")', True, "no driver", 125),
        ('InvalidMeasurement("one:onboard negotiated 100 Mbit/s instead of 1000 Mbit/s")', False, "slow link", 1),
    ],
)
def test_a_link_that_fails_twice_and_only_with_the_new_build_is_a_finding(
    bench: Bench, what: str, missing: bool, kind: str, bisect: int
) -> None:
    bench.plan(f"PLAN = Plan(opening=lambda side, boot: {what} if side is Side.B else None, missing={missing})")
    result = bench.run()
    result.assert_outcomes(failed=1)
    assert bench.boots == "ABBA"
    assert [entry["finding"] for entry in bench.head["entries"]] == [kind]
    assert (bench.head["exit"], bench.head["bisect_exit"]) == (1, bisect)
    printed(result, "all 2 turns")


@pytest.mark.parametrize(
    ("of", "outcome", "boots"), [("side is Side.B", {"failed": 1}, "ABBA"), ("True", {"skipped": 1}, "A")]
)
def test_tagged_frames_that_only_the_new_build_loses_are_a_finding(
    bench: Bench, of: str, outcome: dict[str, int], boots: str
) -> None:
    lost = 'TagsLostError("vlan=7: tagged frames of one:onboard do not arrive at two:fast")'
    bench.plan(f"PLAN = Plan(traffic=lambda side, boot: {lost} if {of} else None)")
    result = bench.run()
    result.assert_outcomes(**outcome)
    assert bench.boots == boots
    printed(result, "vlan=7: tagged frames of one:onboard do not arrive at two:fast")


def test_a_link_that_fails_with_the_known_good_build_too_is_a_lab_error(bench: Bench) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link on one:onboard", "cable"))')
    result = bench.run()
    result.assert_outcomes(errors=1)
    assert bench.boots == "A"
    assert bench.head["verdict"] == "error"


def test_a_link_that_fails_in_all_boots_after_the_first_is_a_lab_error(bench: Bench) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link on one:onboard", "x") if boot > 1 else None)')
    bench.run()
    assert bench.boots == "ABBA"
    assert bench.head["verdict"] == "error"


def test_after_one_bad_boot_of_the_new_build_its_other_boots_are_judged(bench: Bench) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link", "x") if boot == 2 else None)')
    bench.run().assert_outcomes(passed=1)
    assert bench.verdicts == ["pass"]


def test_a_kernel_that_breaks_under_traffic_is_a_finding_at_once(bench: Bench) -> None:
    bench.plan(
        'PLAN = Plan(traffic=lambda side, boot: KernelError("kernel oops on one (device under test)")'
        " if side is Side.B else None)"
    )
    bench.run().assert_outcomes(failed=1)
    assert bench.boots == "AB"
    assert [entry["finding"] for entry in bench.head["entries"]] == ["kernel"]
    assert (bench.head["exit"], bench.head["bisect_exit"]) == (1, 125)


@pytest.mark.parametrize("baseline", ["good.yaml", "accepted"])
def test_a_board_that_cannot_run_the_build_ends_the_run_with_one_sentence(bench: Bench, baseline: str) -> None:
    sentence = "node one has no boot partition: a kernel takes a board of lab/emulated.yaml"
    bench.plan(f'PLAN = Plan(check=lambda build: UnsupportedError("{sentence}"))')
    result = bench.run(builds=("new.yaml", baseline))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert " ".join(result.stdout.str().split()).count(sentence) == 1
    assert bench.head["sentence"] == f"No decision on new: {sentence}."
    assert not any(line.startswith("boot") for line in bench.log)


def test_a_board_that_cannot_boot_for_a_trial_ends_the_run_and_is_tried_once(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=THREE_TESTS)
    sentence = "one cannot boot a build for a trial"
    bench.plan(f'PLAN = Plan(start=lambda side, boot: UnsupportedError("{sentence}") if side is Side.B else None)')
    result = bench.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert " ".join(result.stdout.str().split()).count(sentence) == 1
    assert bench.head["sentence"] == f"No decision on new: {sentence}."
    assert bench.boots == "AB"


@pytest.mark.parametrize("when", ["start", "opening"])
def test_a_build_whose_files_change_during_the_run_ends_the_run(bench: Bench, when: str) -> None:
    sentence = f"{'/a/long/path' * 10}/Image changed during this run, so the results would be of two different builds"
    bench.plan(f'PLAN = Plan({when}=lambda side, boot: ChangedBuildError("{sentence}") if boot == 3 else None)')
    result = bench.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert bench.boots == "ABB"
    assert bench.head["sentence"] == f"No decision on new: {sentence}."
    assert bench.verdicts == ["inconclusive"]


def test_a_regression_stays_certain_if_the_build_changes_after_it(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE_TEST + "\n" + ONE_TEST.replace("pi4b", "cm4").replace("test_tx", "test_other"))
    bench.plan(
        'PLAN = Plan(ratio={"onboard": 0.9}, start=lambda side, boot: ChangedBuildError("/x/Image changed")'
        " if boot > 6 else None)"
    )
    assert bench.run().ret == pytest.ExitCode.USAGE_ERROR
    assert bench.verdicts == ["fail"]
    assert bench.head["sentence"].startswith("new must not be merged: 1 of 1 metrics slower")
    assert bench.head["sentence"].endswith(". The run ended early: /x/Image changed.")


def test_a_board_that_does_not_answer_after_a_boot_is_a_lab_error_at_once(bench: Bench) -> None:
    bench.plan('PLAN = Plan(start=lambda side, boot: SshError("one does not answer", "x") if boot == 2 else None)')
    bench.run().assert_outcomes(errors=1)
    assert bench.boots == "AB"
    assert bench.head["verdict"] == "error"


@pytest.mark.parametrize(("fresh", "boots"), [(True, "BBGBGGB"), (False, "GBBGBGGB")])
def test_a_board_that_just_booted_its_own_build_is_not_booted_again_for_the_first_turn(
    bench: Bench, fresh: bool, boots: str
) -> None:
    bench.plan(f"PLAN = Plan(fresh={fresh})")
    bench.run(builds=("new.yaml", "running"))
    assert boots.startswith(bench.boots)
    assert len(bench.head["entries"]) == 1
    (result,) = bench.record["results"]
    assert {turn["running"]["version"] for turn in result["change"]["turns"]} == {"Linux version 6.12.1"}
    assert len(result["change"]["turns"]) == len(bench.boots) + fresh


def test_builds_are_booted_without_power_control_only_with_a_yes(bench: Bench) -> None:
    risk = "one has no power control: then you must unplug it"
    bench.plan(f'PLAN = Plan(risk="{risk}")')
    result = bench.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert bench.boots == ""
    sentence = f"{risk}. To boot builds there, add --yes"
    assert bench.head["sentence"] == f"No decision on new: {sentence}."
    bench.run("--pinet-yes").assert_outcomes(passed=1)
    assert bench.boots.startswith("AB")
