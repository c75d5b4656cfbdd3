"""What a test is in Allure, and Allure's history files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.history.points import PointList
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.allure.identity import (
    KnownTest,
    Subject,
    allure2_history,
    allure3_history,
    allure3_id,
    known_tests,
    remembered,
    runs_of,
    tell_apart,
)
from pytest_pinet.report.allure.run_files import write_stand_in
from pytest_pinet.report.trends import all_series
from tests.support.chart_series import dot, series
from tests.support.history_records import FIGURE, day, kept

RATE = Subject(CombinationId("pi4b", "onboard", "pair"), "test_rate", {"direction": "tx"}, "tests/gate/test_rate.py")


@pytest.mark.parametrize(
    "other",
    [
        replace(RATE, combination=replace(RATE.combination, board="cm4")),
        replace(RATE, combination=replace(RATE.combination, nic="ax88179")),
        replace(RATE, combination=replace(RATE.combination, topology="incast:3")),
        replace(RATE, test="test_other"),
        replace(RATE, test="TestOf::test_rate"),
        replace(RATE, parameters={"direction": "rx"}),
        replace(RATE, parameters={"direction": "tx", "streams": 2}),
        replace(RATE, parameters={}),
        replace(RATE, combination=replace(RATE.combination, tuning="rps=all")),
        replace(RATE, combination=replace(RATE.combination, tuning="rps=all+mtu=9000")),
    ],
)
def test_what_is_measured_differently_has_an_id_of_its_own(other: Subject) -> None:
    assert other.id != RATE.id


def test_a_renamed_file_keeps_the_id() -> None:
    assert replace(RATE, path="elsewhere/test_new_name.py").id == RATE.id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"queues": 1, "streams": 12}, {"queues": 11, "streams": 2}),
        ({"a": "x", "b": "yz"}, {"a": "xy", "b": "z"}),
        ({"streams": 1}, {"streams": "1"}),
        ({"a": None}, {"a": "None"}),
        ({"a": True}, {"a": 1}),
    ],
)
def test_parameters_that_collide_in_allure_pytest_do_not_collide_here(
    one: dict[str, object], other: dict[str, object]
) -> None:
    """allure-python issue 778: it hashes values without names and separators, so one of two results disappears."""
    assert replace(RATE, parameters=one).id != replace(RATE, parameters=other).id


NAMES = st.text('ab:/-[]",', max_size=4)


COMBINATIONS = st.builds(CombinationId, NAMES, NAMES, NAMES, NAMES)
SUBJECTS = st.builds(
    Subject, COMBINATIONS, NAMES, st.dictionaries(NAMES, NAMES, max_size=2), st.just("a.py"), st.just("")
)


@given(SUBJECTS, SUBJECTS)
def test_two_different_tests_never_share_an_id(one: Subject, other: Subject) -> None:
    assert (one.id == replace(other, path="b.py").id) == (one == other)


def test_the_order_of_parameters_means_nothing() -> None:
    assert (
        replace(RATE, parameters={"a": 1, "b": 2}).id
        == replace(RATE, parameters=dict(reversed({"a": 1, "b": 2}.items()))).id
    )


def test_tests_of_the_same_name_are_distinguished_by_their_files() -> None:
    other = replace(RATE, path="tests/nightly/test_rate.py")
    alone = replace(RATE, combination=replace(RATE.combination, board="cm4"))
    found = tell_apart([RATE, other, alone])
    assert len({subject.id for subject in found}) == 3
    assert found[2].id == alone.id


def test_the_id_is_what_it_always_was() -> None:
    """Changing this id cuts every trend in every report."""
    assert RATE.id == "31aa51eef180d9b616316dcd0bc81992"


def test_a_tuning_is_part_of_the_combination() -> None:
    tuned = str(replace(RATE.combination, tuning="rps=all"))
    assert tuned == "pi4b:onboard/pair/rps=all"
    assert allure3_id("x", tuned) != allure3_id("x", str(RATE.combination))


def test_allure_3_hashes_the_combination_once_more() -> None:
    def md5(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    assert allure3_id(RATE.id, str(RATE.combination)) == f"{md5(RATE.id)}.{md5('combination:pi4b:onboard/pair')}"


SUBJECT = Subject(CombinationId("pi4b", "onboard", "pair"), "test_rate", {}, "test_rate.py")
TX, RX = series(direction="tx", runs=30, step=25), series(direction="rx", runs=30)
TEST = KnownTest(SUBJECT.id, "pi4b:onboard/pair", str(SUBJECT.combination), (TX.figure, RX.figure))


def history3(*without: str) -> list[dict[str, Any]]:
    text = allure3_history(runs_of([TX, RX], *(without or ("",))), [TEST])
    return [json.loads(line) for line in text.splitlines()]


def test_each_run_is_one_line_named_by_its_build_oldest_first() -> None:
    lines = history3()
    assert len(lines) == 30
    assert lines[0]["name"] == "6.12.0-v8+ (2026-06-01)"
    stamps = [line["timestamp"] for line in lines]
    assert stamps == sorted(stamps)
    assert set(lines[0]) == {"uuid", "name", "timestamp", "url", "knownTestCaseIds", "metrics", "testResults"}


def test_metrics_are_what_the_metrics_file_of_a_run_calls_them() -> None:
    line = history3()[0]
    assert line["metrics"] == {
        TX.figure: pytest.approx(TX.points[0].value / 1e6, abs=1e-3),  # type: ignore[operator]
        RX.figure: pytest.approx(RX.points[0].value / 1e6, abs=1e-3),  # type: ignore[operator]
    }


def test_a_test_stands_in_the_history_with_its_worst_metric() -> None:
    lines = history3()
    assert [line["testResults"][TEST.allure3_id]["status"] for line in lines[23:27]] == [
        "passed", "passed", "failed", "failed"
    ]  # fmt: skip


def test_the_run_that_is_reported_is_not_in_its_own_history() -> None:
    """The run would count twice: once from the results, once from the history."""
    assert [line["metrics"] for line in history3("r029")] == [line["metrics"] for line in history3()[:-1]]


def test_the_history_is_the_same_whenever_it_is_derived() -> None:
    assert history3() == history3()
    assert len({line["uuid"] for line in history3()}) == 30


def test_an_invalid_value_is_a_broken_test_and_no_allure_metric() -> None:
    bad = replace(TX, points=PointList([dot(0, 951e6, Verdict.INVALID)]), changes=())
    (line,) = [json.loads(one) for one in allure3_history(runs_of([bad], ""), [TEST]).splitlines()]
    assert line["metrics"] == {}
    assert line["testResults"][TEST.allure3_id]["status"] == "broken"


def test_a_bad_run_has_its_reason_and_a_passed_run_has_no_message(tmp_path: Path) -> None:
    """Packed points lack the reasons of good verdicts: the history is the same as from complete points."""
    nights = [("pass", "above the limit"), ("fail", "below the limit"), ("marginal", "near the limit")]
    with HistoryStore.open(str(tmp_path / "history.db"), create=True) as store:
        store.add_all(kept([day(n, 900, verdict, reason=reason) for n, (verdict, reason) in enumerate(nights)]))
        (packed,) = all_series(store, 9)
        complete = replace(packed, points=store.points(FIGURE, "virtual", 9))
    test = replace(TEST, figures=(FIGURE,))
    runs, whole = (runs_of([one], "") for one in (packed, complete))
    lines = [json.loads(line) for line in allure3_history(runs, [test]).splitlines()]
    assert [line["testResults"][test.allure3_id]["message"] for line in lines] == ["", "below the limit", ""]
    items = json.loads(allure2_history(runs, [test])["history.json"])[test.id]["items"]
    assert [item["statusDetails"] for item in items] == ["", "below the limit", ""]
    assert allure3_history(runs, [test]) == allure3_history(whole, [test])
    assert allure2_history(runs, [test]) == allure2_history(whole, [test])


def test_allure_2_gets_the_20_runs_that_it_shows_newest_first() -> None:
    files = allure2_history(runs_of([TX, RX], ""), [TEST])
    history, trend = json.loads(files["history.json"]), json.loads(files["history-trend.json"])
    assert [item["status"] for item in history[SUBJECT.id]["items"]] == ["failed"] * 5 + ["passed"] * 15
    assert history[SUBJECT.id]["statistic"] == {
        "failed": 5, "broken": 0, "skipped": 0, "passed": 15, "unknown": 0, "total": 20
    }  # fmt: skip
    assert [point["buildOrder"] for point in trend] == list(range(30, 10, -1))


def test_a_test_that_was_never_measured_has_no_history() -> None:
    other = replace(TEST, id="x", figures=("pi5:onboard/pair/tcp-P1-tx",))
    assert json.loads(allure2_history(runs_of([TX], ""), [other])["history.json"]) == {}


def test_tests_are_read_from_results_and_what_is_none_of_ours_is_passed_over(tmp_path: Path) -> None:
    write_stand_in(tmp_path, SUBJECT)
    (tmp_path / "a-result.json").write_text('{"name": "other", "testCaseId": "1"}')
    (tmp_path / "b-result.json").write_text("{")
    (tmp_path / "c-result.json").write_text(
        json.dumps(
            {
                "name": "measured",
                "testCaseId": SUBJECT.id,
                "parameters": [{"name": "combination", "value": str(SUBJECT.combination)}],
                "labels": [{"name": "figure", "value": TX.figure}],
            }
        )
    )
    assert known_tests(tmp_path) == [KnownTest(SUBJECT.id, "measured", str(SUBJECT.combination), (TX.figure,))]


def test_a_result_with_values_of_other_types_is_read(tmp_path: Path) -> None:
    labels = [{"name": "figure", "value": {"a": []}}, {"name": "figure", "value": 1}]
    (tmp_path / "a-result.json").write_text(
        json.dumps({"testCaseId": "c", "parameters": [{"name": "combination", "value": []}], "labels": labels})
    )
    (found,) = known_tests(tmp_path)
    assert (found.combination, found.figures) == ("[]", ("{'a': []}", "1"))
    assert found.allure3_id


def test_a_lab_error_keeps_the_history_of_its_test(tmp_path: Path) -> None:
    memory = tmp_path / "allure-tests.json"
    failed = replace(TEST, figures=())
    assert remembered([failed], memory) == [failed]
    assert remembered([TEST], memory) == [TEST]
    assert remembered([failed], memory) == [TEST]
    memory.write_text("{")
    assert remembered([failed], memory) == [failed]
    assert remembered([TEST], tmp_path / "no folder" / "x.json") == [TEST]
