"""A/B comparisons from options to verdict: the boots, the report of each test, and the final summary."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.ping import Ping, PingReport
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import ResultParts, result_record
from pytest_pinet.report.traffic import ping_record
from tests.support.change_session import Bench, bench_with

TESTS = """
import pytest

@pytest.mark.pinet(board="pi4b")
def test_tx(link, gate):
    figures = gate.tcp(link, direction="tx")
    assert figures["tx"].bps > 0

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_rx(link, gate):
    gate.tcp(link, direction="rx")

def test_of_something_else():
    pass
"""
ONE = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_tx(link, gate):
    gate.tcp(link, direction="tx")
"""

ACCEPTED = ("new.yaml", "accepted")


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, ONE) as found:
        yield found


def head(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = bench.record["change"]
    return found


def outcomes(bench: Bench) -> list[str]:
    return [entry["outcome"] for entry in head(bench)["entries"]]


def told(result: pytest.RunResult, *lines: str) -> None:
    result.stdout.fnmatch_lines([f"*{line}*" for line in lines])


def test_an_unchanged_build_passes_and_each_boot_serves_all_tests_of_the_board(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=TESTS)
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
    found = head(bench)
    assert (found["answer"], found["exit"], found["bisect_exit"]) == ("pass", 0, 0)
    assert found["turns"] == len(bench.boots)
    assert outcomes(bench) == ["unchanged"] * 3
    told(result, "new may go in: none of 3 figures is slower than with good.")


def test_a_slower_build_fails_only_where_it_is_slower_and_names_what_to_look_at_first(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=TESTS)
    bench.plan('PLAN = Plan(ratio={"ax88179": 0.98})')
    result = bench.run()
    result.assert_outcomes(passed=3, failed=1)
    found = head(bench)
    assert (found["answer"], found["exit"], found["bisect_exit"]) == ("regression", 1, 1)
    first, *rest = found["entries"]
    assert (first["id"], first["direction"]) == ("pi4b:ax88179/pair/tcp-P1-tx", "tx")
    assert first["change"] == pytest.approx(-0.02, abs=0.004)
    assert first["suspect"] == "tcp-segmentation-offload: on -> off"
    assert {entry["outcome"] for entry in rest} == {"unchanged"}
    told(
        result,
        "below the limit 931.* Mbit/s",
        "= 1% below good, measured alternately",
        "slower, certain after * turns: B is -* % against A",
        "REGRESSION",
        "look first at: tcp-segmentation-offload: on -> off",
        "new must not go in: 1 of 3 figures slower, by * % in",
    )
    begin = next(place for place, line in enumerate(result.outlines) if " pinet throughput " in line)
    # Only our warnings: pytest names its own by its installation path.
    ours = list(itertools.takewhile(lambda line: not line.startswith("==="), result.outlines[begin + 1 :]))
    assert len(ours) > 10
    assert all(len(line) <= 80 for line in ours)


def test_a_result_holds_both_sides_their_boots_and_what_ran(bench: Bench) -> None:
    bench.plan('PLAN = Plan(ratio={"onboard": 0.95})')
    bench.run()
    (result,) = bench.record["results"]
    change = result["change"]
    assert (change["a"], change["b"], change["tolerance"]) == ("good", "new", 0.01)
    assert change["directions"]["tx"]["a_bps"] == pytest.approx(940e6, rel=0.01)
    assert change["directions"]["tx"]["b_bps"] == pytest.approx(893e6, rel=0.01)
    assert result["directions"]["tx"]["goodput_bps"] == change["directions"]["tx"]["b_bps"]
    assert "".join(boot["side"] for boot in change["turns"]) == bench.boots
    assert {one["turn"] for one in change["connections"]} == {turn["number"] for turn in change["turns"]}
    assert result["build"]["uname"] == "Linux 6.12.1 aarch64"
    assert [file["name"] for file in (head(bench)["a"], head(bench)["b"])] == ["good", "new"]


def test_a_board_that_was_under_test_is_a_peer_with_its_known_good_build(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=ONE.replace('board="pi4b", nic="onboard"', 'board=["pi4b", "cm4"], nic="onboard"'))
    bench.run().assert_outcomes(passed=2)
    boots = [line for line in bench.log if line.startswith(("boot", "known-good"))]
    # When both boards were leased, it still ran the build of its measurement.
    of_two = boots.index("known-good one")
    assert all(line.startswith("boot one") for line in boots[:of_two])
    assert all(line.startswith("boot two") for line in boots[of_two + 1 :])


def test_boots_that_differ_too_much_leave_it_undecided(bench: Bench) -> None:
    bench.plan("PLAN = Plan(boot_noise=0.03)")
    result = bench.run()
    assert result.ret == 1
    assert (head(bench)["answer"], head(bench)["exit"], head(bench)["bisect_exit"]) == ("undecided", 3, 125)
    told(result, "No answer on new: 1 of 1 figures are undecided.")


def test_no_more_boots_are_made_than_allowed(bench: Bench) -> None:
    bench.plan("PLAN = Plan(boot_noise=0.006, seed=3)")
    bench.run("--pinet-boots=4")
    assert bench.boots == "ABBA"
    assert outcomes(bench) == ["undecided"]


def test_a_build_that_does_not_boot_is_a_finding_of_the_build_and_ends_all_tests_of_the_board(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=TESTS)
    bench.plan(
        'PLAN = Plan(start=lambda side, boot: BuildError("kernel panic on one while it booted new", "panic", "Oops!")'
        " if side is Side.B else None)"
    )
    result = bench.run()
    result.assert_outcomes(passed=1, failed=3)
    assert bench.boots == "AB"
    assert {entry["finding"] for entry in head(bench)["entries"]} == {"panic"}
    assert (head(bench)["exit"], head(bench)["bisect_exit"]) == (1, 125)
    told(result, "kernel panic on one while it booted new", "PANIC", "new must not go in: panic (3 of 3 results)")


def test_a_known_good_build_that_does_not_boot_is_the_labs_trouble(bench: Bench) -> None:
    bench.plan('PLAN = Plan(start=lambda side, boot: BuildError("no login on one", "no login"))')
    result = bench.run()
    result.assert_outcomes(errors=1)
    assert bench.boots == "A"
    assert (head(bench)["answer"], head(bench)["exit"], head(bench)["bisect_exit"]) == ("lab error", 2, 125)
    told(result, "the known-good build good: no login on one", "name another build with --pinet-baseline")


@pytest.mark.parametrize(
    ("what", "missing", "kind", "bisect"),
    [
        ('LinkError("no link on one:onboard after 12 s", "cable")', False, "no link", 125),
        ('LinkError("no such device: eth0", "driver")', True, "no driver", 125),
        ('InvalidMeasurement("one:onboard negotiated 100 Mbit/s instead of 1000 Mbit/s")', False, "slow link", 1),
    ],
)
def test_a_link_that_only_the_new_build_spoils_twice_is_its_finding(
    bench: Bench, what: str, missing: bool, kind: str, bisect: int
) -> None:
    bench.plan(f"PLAN = Plan(opening=lambda side, boot: {what} if side is Side.B else None, missing={missing})")
    result = bench.run()
    result.assert_outcomes(failed=1)
    assert bench.boots == "ABBA"
    assert [entry["finding"] for entry in head(bench)["entries"]] == [kind]
    assert (head(bench)["exit"], head(bench)["bisect_exit"]) == (1, bisect)
    told(result, "so it was in 2 of")


def test_a_link_that_the_known_good_build_spoils_too_is_the_labs(bench: Bench) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link on one:onboard", "cable"))')
    result = bench.run()
    result.assert_outcomes(errors=1)
    assert bench.boots == "A"
    assert head(bench)["answer"] == "lab error"


def test_a_link_that_goes_away_after_the_first_boot_is_the_labs(bench: Bench) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link on one:onboard", "x") if boot > 1 else None)')
    bench.run()
    assert bench.boots == "ABBA"
    assert head(bench)["answer"] == "lab error"


def test_one_bad_boot_of_the_new_build_is_told_and_the_others_judge(bench: Bench) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link", "x") if boot == 2 else None)')
    bench.run().assert_outcomes(passed=1)
    assert outcomes(bench) == ["unchanged"]


def test_a_kernel_that_breaks_under_traffic_is_a_finding_at_once(bench: Bench) -> None:
    bench.plan(
        'PLAN = Plan(traffic=lambda side, boot: KernelError("kernel oops on one (device under test)")'
        " if side is Side.B else None)"
    )
    bench.run().assert_outcomes(failed=1)
    assert bench.boots == "AB"
    assert [entry["finding"] for entry in head(bench)["entries"]] == ["kernel"]
    assert (head(bench)["exit"], head(bench)["bisect_exit"]) == (1, 125)


@pytest.mark.parametrize("baseline", ["good.yaml", "accepted"])
def test_a_board_that_cannot_take_the_build_ends_the_run_with_one_sentence(bench: Bench, baseline: str) -> None:
    sentence = "node one has no boot partition: a kernel takes a board of lab/emulated.yaml"
    bench.plan(f'PLAN = Plan(check=lambda build: UnsupportedError("{sentence}"))')
    result = bench.run(builds=("new.yaml", baseline))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told(result, sentence)
    assert not any(line.startswith("boot") for line in bench.log)


def test_what_else_a_test_asserts_counts_when_the_figures_are_final(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE.replace('direction="tx")', 'direction="tx")\n    assert not "really"'))
    result = bench.run()
    result.assert_outcomes(failed=1)
    assert outcomes(bench) == ["unchanged"]
    assert (head(bench)["exit"], head(bench)["bisect_exit"]) == (3, 125)
    told(result, "No answer on new: no figure is slower, but 1 test failed by something else.")


def test_what_breaks_in_a_turn_is_how_the_test_ends(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE.replace("    gate.tcp", '    {}["nothing"]\n    gate.tcp'))
    result = bench.run()
    result.assert_outcomes(errors=1)
    assert bench.boots == "A"
    told(result, "KeyError: 'nothing'")


def test_skips_and_tests_without_a_measurement_cost_one_boot(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=ONE.replace("    gate.tcp", "    pytest.skip('not today')\n    gate.tcp")
        + "\n@pytest.mark.pinet(board='pi4b', nic='onboard')\ndef test_link(link):\n    assert link.id\n"
        + "\n@pytest.mark.skip(reason='no')\n@pytest.mark.pinet(board='pi4b', nic='usb')\ndef test_no(link): pass\n"
    )
    result = bench.run()
    result.assert_outcomes(passed=1, skipped=2)
    assert bench.boots == "A"
    assert (head(bench)["answer"], head(bench)["exit"]) == ("undecided", 3)
    told(result, "Nothing is known of new: nothing was measured.")


def test_both_directions_at_once_and_several_calls_of_a_test(bench: Bench, pytester: pytest.Pytester) -> None:
    both = 'direction="bidir")\n    gate.tcp(link, direction="rx", streams=4)'
    pytester.makepyfile(test_it=ONE.replace('direction="tx")', both))
    bench.run().assert_outcomes(passed=1)
    ids = {f"{entry['id']} {entry['direction']}" for entry in head(bench)["entries"]}
    assert ids == {
        "pi4b:onboard/pair/tcp-P1-bidir tx", "pi4b:onboard/pair/tcp-P1-bidir rx", "pi4b:onboard/pair/tcp-P4-rx rx"
    }  # fmt: skip


def test_fixtures_of_the_session_live_over_all_boots(bench: Bench, pytester: pytest.Pytester) -> None:
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
        + ONE.replace("(link, gate)", "(link, gate, once, each)")
        + "\ndef test_made():\n    assert made.count(1) == 1 and made.count('each') > 4\n"
    )
    bench.run().assert_outcomes(passed=2)


def test_a_test_that_asks_for_something_else_in_each_turn_is_a_mistake(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="import itertools\nN = itertools.count(1)\n" + ONE.replace(
        'direction="tx"', 'direction="tx", streams=next(N)'
    ))  # fmt: skip
    result = bench.run()
    told(result, "*between builds a test must ask for the same in each*")


@pytest.mark.parametrize("when", ["start", "opening"])
def test_a_build_whose_files_change_in_mid_run_ends_it(bench: Bench, when: str) -> None:
    sentence = f"{'/a/long/path' * 10}/Image changed since this run began, so that nobody could say what was measured"
    bench.plan(f'PLAN = Plan({when}=lambda side, boot: ChangedBuildError("{sentence}") if boot == 3 else None)')
    result = bench.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert bench.boots == "ABB"
    assert head(bench)["sentence"] == f"No answer on new: {sentence}."
    assert outcomes(bench) == ["undecided"]


def test_a_regression_stays_one_when_the_build_changes_after_it(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE + "\n" + ONE.replace("pi4b", "cm4").replace("test_tx", "test_other"))
    bench.plan(
        'PLAN = Plan(ratio={"onboard": 0.9}, start=lambda side, boot: ChangedBuildError("/x/Image changed")'
        " if boot > 4 else None)"
    )
    assert bench.run().ret == pytest.ExitCode.USAGE_ERROR
    assert outcomes(bench) == ["regression"]
    assert head(bench)["sentence"].startswith("new must not go in: 1 of 1 figures slower")


def test_a_board_of_which_no_build_comes_up_any_more_is_the_labs_at_once(bench: Bench) -> None:
    bench.plan('PLAN = Plan(start=lambda side, boot: SshError("one does not answer", "x") if boot == 2 else None)')
    bench.run().assert_outcomes(errors=1)
    assert bench.boots == "AB"
    assert head(bench)["answer"] == "lab error"


def test_without_a_lab_there_is_nothing_to_boot(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PINET_LAB", raising=False)
    result = bench.run("--pinet-lab=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--pinet-build: no lab to boot it in: pass --pinet-lab FILE*"])


def test_against_what_the_boards_run_by_themselves(bench: Bench) -> None:
    result = bench.run(builds=("new.yaml",))
    result.assert_outcomes(passed=1)
    sentence = "new may go in: the figure is not slower than with the boards' own build."
    told(result, "A: what the boards run by themselves", sentence)


def test_ctrl_c_in_the_middle_of_the_boots_ends_the_run(bench: Bench) -> None:
    bench.plan("def stop(side, boot):\n    if boot == 3:\n        raise KeyboardInterrupt\n\nPLAN = Plan(traffic=stop)")
    result = bench.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert bench.boots == "ABB"
    # The results of earlier turns are not lost.
    assert outcomes(bench) == ["undecided"]
    (entry,) = head(bench)["entries"]
    assert (entry["a_bps"], entry["b_bps"]) == (pytest.approx(940e6, rel=0.01), pytest.approx(940e6, rel=0.01))
    assert [one["side"] for one in bench.record["results"][0]["change"]["connections"]] == ["A", "B"]
    told(result, "No answer on new: 1 of 1 figures are undecided.")


def test_what_ctrl_c_left_unmeasured_might_have_been_slower(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE.replace('board="pi4b", nic="onboard"', 'board=["pi4b", "cm4"], nic="onboard"'))
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
    assert outcomes(bench) == ["unchanged"]
    assert (head(bench)["answer"], bench.record["complete"]) == ("undecided", False)
    told(result, "No answer on new: no figure is slower, but the run was interrupted.")


def test_what_a_build_broke_before_ctrl_c_is_told(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
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
    assert sorted(outcomes(bench)) == ["finding", "undecided", "undecided"]
    assert (head(bench)["answer"], head(bench)["entries"][0]["text"]) == ("regression", "kernel oops on one")


def test_against_accepted_baselines_a_build_that_does_not_boot_is_a_finding(bench: Bench) -> None:
    bench.plan('PLAN = Plan(start=lambda side, boot: BuildError("new hangs on one", "hang"))')
    bench.run(builds=ACCEPTED).assert_outcomes(failed=1)
    assert bench.boots == "B"
    assert [entry["finding"] for entry in head(bench)["entries"]] == ["hang"]
    assert (head(bench)["baseline"], head(bench)["exit"], head(bench)["bisect_exit"]) == ("accepted", 1, 125)


def test_against_accepted_baselines_the_known_good_build_is_booted_once_to_tell_whose_fault_a_link_is(
    bench: Bench,
) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link", "x") if side is Side.B else None)')
    result = bench.run(builds=ACCEPTED)
    result.assert_outcomes(failed=1)
    assert bench.boots == "BG"
    told(result, "no link; with the known-good build, booted right after it, the link is")


def test_against_accepted_baselines_a_link_that_both_builds_lack_is_the_labs(bench: Bench) -> None:
    bench.plan('PLAN = Plan(opening=lambda side, boot: LinkError("no link", "x"))')
    bench.run(builds=ACCEPTED).assert_outcomes(errors=1)
    assert bench.boots == "BG"
    assert head(bench)["answer"] == "lab error"


@pytest.mark.parametrize(("fresh", "boots"), [(True, "BBGBGGB"), (False, "GBBGBGGB")])
def test_a_board_that_was_just_booted_by_itself_is_not_booted_again_for_the_first_turn(
    bench: Bench, fresh: bool, boots: str
) -> None:
    bench.plan(f"PLAN = Plan(fresh={fresh})")
    bench.run(builds=("new.yaml", "running"))
    assert boots.startswith(bench.boots)
    assert len(head(bench)["entries"]) == 1
    (result,) = bench.record["results"]
    assert {turn["running"]["version"] for turn in result["change"]["turns"]} == {"Linux version 6.12.1"}
    assert len(result["change"]["turns"]) == len(bench.boots) + fresh


def test_pings_that_only_the_new_build_loses_are_its_fault_and_the_message_is_written_once(
    bench: Bench, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(link: Link, ping: Ping, *_: object) -> ResultRecord:
        of_b = link.dut.session.deployment.running.name == "new"  # type: ignore[union-attr]
        verdict, text = (Verdict.FAIL, "loss of 10 % is above the limit 1 %") if of_b else (Verdict.PASS, "loss 0 %")
        pings = ping_record(ping, [PingReport(10, 9 if of_b else 10, 0.001, 0.001, 0.001)])
        parts = ResultParts(f"{link.id}/ping", verdict, f"{link.id} {text}", link.combination, ping=pings)
        return result_record(parts)

    monkeypatch.setattr("pytest_pinet.measure.ping.measure", lost)
    pytester.makepyfile(test_it=ONE.replace('gate.tcp(link, direction="tx")', 'gate.ping(link, loss="1%")'))
    bench.run().assert_outcomes(failed=1)
    assert bench.boots == "ABBA"
    (result,) = bench.record["results"]
    lines = result["message"].splitlines()
    assert result["verdict"] == "fail"
    assert "missed in 2 of 2 turns of the build under test" in " ".join(result["message"].split())
    assert [line.split()[0] for line in lines if line.startswith("  ")].count("repeat") == 1
