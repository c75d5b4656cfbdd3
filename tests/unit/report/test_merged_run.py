"""Shards of one gate as one run: the answer, the error rate, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.points import gate_of
from pytest_pinet.judge.statistics import certainty_threshold, least_error
from pytest_pinet.judge.turns import LOOKS
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import GATE, Verdict
from pytest_pinet.report.change_head import with_note
from pytest_pinet.report.change_table import change_lines
from pytest_pinet.report.export.cases import cases_of
from pytest_pinet.report.merged_run import Shard, exit_code, merged_run
from pytest_pinet.report.page.change import change_section
from tests.support.change_records import broken, change_run, compared
from tests.support.exact_records import records, run_of
from tests.support.report_records import direction, result, run_record

SAME = compared("pi4b:onboard/pair", "rx", 0.0, "same")


def slower(error: float, combination: str = "pi5:onboard/pair") -> ResultRecord:
    return compared(combination, "tx", -0.021, "slower", error=error)


def undecided(one: ResultRecord) -> ResultRecord:
    assert one.change is not None
    ways = {way: direction.replace(verdict="inconclusive") for way, direction in one.change.directions.items()}
    return one.replace(change=one.change.replace(directions=ways))


def merged(*runs: RunRecord, error_rate: float = 0.01) -> RunRecord:
    shards = [
        Shard(run.replace(session=run.session or f"s{n}"), f"run {n}", f"shard-{n}") for n, run in enumerate(runs)
    ]
    return merged_run(shards, error_rate)


def shard(*results: ResultRecord, of: int | None = 2, **more: Any) -> RunRecord:
    return change_run(results, shards=of, error_rate=0.01 if of else None, **more)


def answer(run: RunRecord) -> tuple[str, int]:
    assert run.change is not None
    return GATE[run.change.verdict].change, exit_code(run)


class TestAnswer:
    def test_all_shards_pass(self) -> None:
        run = merged(shard(SAME), shard(compared("pi5:onboard/pair", "tx", 0.0, "same")))
        assert answer(run) == ("pass", 0)
        assert run.change is not None
        assert run.change.sentence == "new may be merged: none of 2 metrics is slower than with good."
        assert run.change.turns == 14

    def test_one_regression_is_enough(self) -> None:
        assert answer(merged(shard(SAME), shard(slower(0.004)))) == ("regression", 1)

    def test_a_broken_build_is_a_regression_whatever_the_error_rate(self) -> None:
        run = merged(*(shard(broken("pi3b:onboard/pair", "panic"), of=None), shard(SAME, of=None)))
        assert answer(run) == ("regression", 1)

    def test_a_lab_that_broke(self) -> None:
        lab = result("pi5:onboard/pair", {}, "error", "no carrier")
        assert answer(merged(shard(SAME), shard(lab))) == ("lab error", 2)

    def test_a_missing_shard_leaves_no_decision(self) -> None:
        run = merged(shard(SAME, of=3), shard(compared("pi5:onboard/pair", "tx", 0.0, "same"), of=3))
        assert answer(run) == ("undecided", 3)
        assert run.change is not None
        assert run.change.sentence == "No decision on new: no metric is slower, but only 2 of 3 shards were merged."
        assert not run.complete

    def test_a_test_that_failed_for_another_reason_in_a_shard_leaves_no_decision(self) -> None:
        odd = shard(SAME)
        assert odd.change is not None
        why = "No decision on new: no metric is slower, but 1 test failed for another reason."
        odd = odd.replace(change=odd.change.replace(verdict="inconclusive", exit=3, bisect_exit=125, sentence=why))
        run = merged(odd, shard(compared("pi5:onboard/pair", "tx", 0.0, "same")))
        assert answer(run) == ("undecided", 3)
        assert run.change is not None
        assert run.change.sentence == why

    @pytest.mark.parametrize(
        ("started", "why"),
        [("2026-11-21T10:00:00+00:00", "1 test failed for another reason"), ("", "the run was interrupted")],
    )
    def test_a_test_that_died_leaves_no_decision(self, started: str, why: str) -> None:
        died = result("pi5:onboard/pair", {}, "error", "its process died").replace(died=True, started=started)
        run = merged(shard(SAME, died), shard(compared("pi5:onboard/pair", "tx", 0.0, "same")))
        assert answer(run) == ("undecided", 3)
        assert run.change is not None
        assert run.change.sentence == f"No decision on new: no metric is slower, but {why}."
        assert "    its process died" in change_lines(run.change, run.skipped, results=run.results)
        assert [case.verdict for case in cases_of(run) if case.result.died] == ["error"]

    @pytest.mark.parametrize(
        ("verdicts", "code"),
        [(["pass", "marginal"], 0), (["pass", "fail"], 1), (["error", "pass"], 2), (["inconclusive", "pass"], 3)],
    )
    def test_without_a_build_under_test_the_verdicts_decide(self, verdicts: list[str], code: int) -> None:
        runs = [run_record([result("pi4b:onboard/pair", {"tx": direction(9e8, 8e8, one)})]) for one in verdicts]
        assert exit_code(merged(*runs)) == code

    def test_exact_gates(self) -> None:
        run = merged(run_of(records("nops"), "nops").replace(session="a"), run_of(records("nops"), "nops"))
        assert answer(run) == ("pass", 0)

    @pytest.mark.parametrize("is_judged", [True, False])
    def test_the_note_of_an_exact_gate_stays(self, is_judged: bool) -> None:
        found = records("nops") if is_judged else [undecided(one) for one in records("nops")]
        run = run_of(found, "nops")
        assert run.change is not None
        head = run.change if is_judged else run.change.replace(a=run.change.b)
        run = run.replace(change=with_note(head, "the whole kernel differs"))
        head_of_all = merged(run.replace(session="a"), run).change
        assert head_of_all is not None
        assert head_of_all.sentence.endswith("; the whole kernel differs.") == is_judged
        assert (head_of_all.sentence == "No decision: the whole kernel differs.") != is_judged
        assert (head_of_all.exit, head_of_all.bisect_exit) == ((0, 0) if is_judged else (3, 131))


class TestErrorRate:
    """``e`` is 1 %, and all runs together have ``N`` values."""

    def test_shards_that_share_the_rate_stand_however_their_values_are_distributed(self) -> None:
        # 1 and 3 values: the thresholds are e / 2 and e / 6. 0.004 would not be certain among 4 values.
        many = [compared(f"pi{n}:onboard/pair", "tx", 0.0, "same") for n in range(3)]
        assert answer(merged(shard(slower(0.004)), shard(*many))) == ("regression", 1)

    @pytest.mark.parametrize(("error", "found"), [(0.0049, "regression"), (0.0051, "undecided")])
    def test_runs_that_do_not_know_of_each_other_are_judged_among_all_values(self, error: float, found: str) -> None:
        run = merged(shard(slower(error), of=None), shard(SAME, of=None))
        assert answer(run)[0] == found

    def test_what_is_not_certain_any_more_says_what_to_do(self) -> None:
        run = merged(shard(slower(0.009), of=None), shard(SAME, of=None))
        (one, _) = run.results
        assert one.verdict == "inconclusive"
        assert one.directions["tx"].reason == (
            "slower, certain after 7 turns: B is -2.10 %; not certain among the 2 metrics of all runs: "
            "gate each shard with --pinet-shards 2"
        )

    def test_a_faster_value_is_then_not_slower(self) -> None:
        fast = compared("pi5:onboard/pair", "tx", 0.03, "faster", error=0.009)
        run = merged(shard(fast, of=None), shard(SAME, of=None))
        assert answer(run) == ("pass", 0)
        assert run.results[0].verdict == "pass"

    def test_a_slower_value_without_an_error_is_not_believed_beside_other_parts(self) -> None:
        slow = compared("pi5:onboard/pair", "tx", -0.2, "slower")
        assert answer(merged(shard(slow, of=None), shard(SAME, of=None))) == ("undecided", 3)
        assert answer(merged(shard(slow, of=None))) == ("regression", 1)

    def test_shards_with_a_higher_rate_than_wanted_are_judged_again(self) -> None:
        loose = shard(slower(0.009)).replace(error_rate=0.05)
        assert answer(merged(loose, shard(SAME))) == ("undecided", 3)
        assert answer(merged(loose, shard(SAME), error_rate=0.05)) == ("regression", 1)

    @pytest.mark.parametrize("values", [1, 2, 7, 40])
    @pytest.mark.parametrize("error_rate", [0.01, 0.05])
    def test_the_error_is_the_judges_threshold_solved_for_the_rate(self, values: int, error_rate: float) -> None:
        threshold = certainty_threshold(error_rate / LOOKS / values)
        for ratio, certain in ((threshold * 1.001, True), (threshold * 0.999, False)):
            assert (LOOKS * least_error(-ratio) * values <= error_rate) is certain
        assert math.isfinite(least_error(1e6))


class TestRecord:
    def test_results_of_two_labs_keep_their_lab(self) -> None:
        run = merged(shard(SAME, lab="bench"), shard(SAME, lab="annex"))
        assert (run.lab, [one.lab for one in run.results]) == ("bench+annex", ["bench", "annex"])
        assert run.change is not None
        assert [entry.text.partition(":")[0] for entry in run.change.entries] == ["lab bench", "lab annex"]
        assert [(one.lab, one.session) for one in run.merged or ()] == [("bench", "s0"), ("annex", "s1")]

    def test_the_same_metric_of_two_labs_stays_apart(self) -> None:
        """Everything that looks a result up by its entry finds the one of the same lab."""
        slow = compared("pi4b:onboard/pair", "rx", -0.05, "slower", error=0.001)
        run = merged(shard(slow, lab="bench"), shard(SAME, lab="annex"))
        head, (first, second) = run.change, run.results
        assert head is not None
        assert first.id == second.id
        assert [(one.lab, one.verdict) for one in head.entries] == [("bench", "fail"), ("annex", "pass")]
        assert [one.verdict for one in cases_of(run)] == [Verdict.FAIL, Verdict.PASS]
        metric = "pi4b.onboard.pair.tcp-P1-rx"
        assert [one.name for one in cases_of(run)] == [f"bench.{metric}", f"annex.{metric}"]
        gate = gate_of(head, run.results)
        kept = [one.change.directions["rx"].interval for one in (first, second) if one.change is not None]
        assert [one.interval for one in gate.entries] == kept
        assert kept[0] != kept[1]
        assert [one.figure for one in gate.entries] == [f"{first.id} ({lab})" for lab in ("bench", "annex")]
        rows = [line for line in change_lines(head) if "pi4b:onboard" in line]
        assert [row.rpartition("(")[2].partition(")")[0] for row in rows[:2]] == ["bench", "annex"]
        page = str(change_section(run, head))
        assert page.index("(bench)") < page.index("(annex)")

    def test_one_lab_needs_no_mark_and_files_move_to_the_folder_of_their_shard(self) -> None:
        run = merged(shard(SAME), shard(slower(0.001)))
        assert [one.lab for one in run.results] == [None, None]
        assert [one.files[0].partition("/")[0] for one in run.results] == ["shard-0", "shard-1"]

    def test_merged_again_it_is_the_same_session(self) -> None:
        first, second = shard(SAME, session="a"), shard(slower(0.001), session="b")
        assert merged(first, second).session == merged(second, first).session


class TestRefused:
    def test_a_run_twice(self) -> None:
        run = shard(SAME, session="a")
        with pytest.raises(ConfigError, match=r"^run 1 is the same run as run 0; name each run once$"):
            merged(run, run)

    def test_runs_of_other_builds(self) -> None:
        exact = run_of(records("nops"), "nops")
        with pytest.raises(ConfigError) as raised:
            merged(shard(SAME), exact)
        assert str(raised.value) == (
            "run 1 has nops (0123) against the stock kernel, exact, but run 0 has new (1f449c713387) against good "
            "(33d62a1a55dd), interleaved; merge runs of one gate"
        )
        with pytest.raises(ConfigError, match="run 1 has no build under test, but run 0 has new"):
            merged(shard(SAME), run_record([]))
