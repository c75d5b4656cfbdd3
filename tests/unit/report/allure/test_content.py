"""The content of one Allure result, and the files of the whole run."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.points import PointList, metric_id
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.allure import content
from pytest_pinet.report.allure.identity import PREFIX, STATUS, Subject, categories, status_of
from pytest_pinet.report.allure.run_files import (
    RUN_FILE,
    environment,
    executor,
    figures_csv,
    metrics,
    write_run_files,
    write_stand_in,
)
from pytest_pinet.report.trends import RunFacts
from tests.support.chart_series import series
from tests.support.loss_levels import losses
from tests.support.report_records import NIGHT, NIGHT_SKIPPED, direction, result, run_record

SUBJECT = Subject(CombinationId("pi4b", "onboard", "pair"), "test_rate", {"direction": "tx"}, "test_rate.py")
GOOD = result("pi4b:onboard/pair", {"tx": direction(941.3e6, 885e6)})
SLOW = result("pi4b:onboard/pair", {"tx": direction(700.2e6, 885e6, "fail")}, message="tx 700.2 Mbit/s is too slow")
LAB = result("pi4b:onboard/pair", {}, "error", "no carrier on eth0")
INVALID = result(
    "pi4b:onboard/pair", {"tx": direction(941.3e6, 885e6, "invalid")}, message="segments carried 1448 bytes"
)


def test_the_title_contains_the_value() -> None:
    assert content.title(SUBJECT, [GOOD]) == "pi4b:onboard/pair · tcp-P1 tx 941.3 Mbit/s (100.0 % of max)"
    assert (
        content.title(SUBJECT, [SLOW]) == "pi4b:onboard/pair · tcp-P1 tx 700.2 Mbit/s (20.9 % below the limit) · fail"
    )
    assert content.title(SUBJECT, [LAB]) == "pi4b:onboard/pair · error"


def test_only_the_combination_is_no_excluded_parameter() -> None:
    """Parameters that are not excluded are part of Allure 3's history id: a kernel there would cut the trend at each
    build.
    """
    found = content.parameters(SUBJECT, [GOOD])
    assert [name for name, _, excluded in found if not excluded] == ["combination"]
    assert ("build.uname", "6.12.25-v8+ aarch64", True) in found
    assert ("direction", "tx", True) in found


def test_labels_lead_from_board_to_topology_and_name_the_metrics() -> None:
    found = content.labels(SUBJECT, [GOOD])
    assert [value for name, value in found if name in ("epic", "feature", "story")] == ["pi4b", "onboard", "pair"]
    assert ("figure", "pi4b:onboard/pair/tcp-P1-tx") in found
    assert {("board", "pi4b"), ("nic", "onboard"), ("topology", "pair"), ("verdict", "pass")} <= set(found)


@pytest.mark.parametrize("one", NIGHT, ids=lambda one: str(one.id))
def test_metrics_have_the_same_ids_as_in_the_history(one: ResultRecord) -> None:
    figures = {value for name, value in content.labels(SUBJECT, [one]) if name == "figure"}
    assert {metric_id(one.id, way) for way in one.directions} <= figures


def test_the_description_shows_trends_as_data_in_img_and_nothing_that_allure_strips() -> None:
    """Allure strips inline SVG and leaves its text; it drops style and script."""
    html = content.description_html([GOOD], [series()])
    assert re.search(r'<img alt="[^"]+" width="\d+" src="data:image/svg\+xml;base64,[A-Za-z0-9+/=]+">', html)
    assert not re.search(r"<(svg|script|style)", html)
    assert "<td>941.3 Mbit/s</td>" in html


def test_a_message_cannot_become_html() -> None:
    html = content.description_html([LAB.replace(message="<script>alert(1)</script>")], [])
    assert "<script" not in html


def test_attachments_hold_pictures_counters_consoles_and_raw_output(tmp_path: Path) -> None:
    counts = {
        "end": "pi4b-1:onboard",
        "port": "sw1/3",
        "node": {"rx_bytes": 5, "errors": None},
        "switch": {"rx_octets": 7},
    }
    one = GOOD.replace(cables=[counts], files=["raw/a/client.json", "raw/a/gone.txt"])
    (tmp_path / "raw" / "a").mkdir(parents=True)
    (tmp_path / "raw" / "a" / "client.json").write_text("{}")
    found = content.attachments([one], [series()], tmp_path, {"pi4b-1": "login:"})
    assert [(name, kind) for name, kind, _ in found] == [
        ("throughput over time pi4b:onboard/pair/tcp-P1-tx", "image/svg+xml"),
        ("trend pi4b:onboard/pair/tcp-P1-tx", "image/svg+xml"),
        ("switch and NIC counters pi4b:onboard/pair/tcp-P1-tx", "text/csv"),
        ("serial console pi4b-1", "text/plain"),
        ("client.json", "application/json"),
    ]
    rows = list(csv.DictReader(io.StringIO(found[2][2].decode())))
    assert [row["side"] for row in rows] == ["node", "switch"]
    assert rows[0] == {**rows[0], "rx_bytes": "5", "errors": "", "rx_octets": ""}


def test_of_a_huge_file_the_end_is_attached_and_says_where_the_rest_is(tmp_path: Path) -> None:
    (tmp_path / "big.json").write_bytes(b"x" * (content.MOST_BYTES + 10) + b"end")
    found = content.attachments([LAB.replace(files=["big.json"])], [], tmp_path, {})
    name, kind, body = found[0]
    assert (name, kind) == ("big.json", "text/plain")
    assert body.startswith(b"[13 bytes left out; the whole file: ")
    assert body.endswith(b"end")


# -- verdicts -----------------------------------------------------------------------------------------------------


def test_every_verdict_has_a_status_and_only_good_ones_are_green() -> None:
    assert set(STATUS) == set(SEVERITY)
    assert [v for v in SEVERITY if STATUS[v] == "passed"] == [Verdict.MARGINAL, Verdict.IMPROVED, Verdict.PASS]
    assert STATUS[Verdict.FAIL] == "failed"
    assert {STATUS[v] for v in (Verdict.ERROR, Verdict.INVALID, Verdict.INCONCLUSIVE)} == {"broken"}


@pytest.mark.parametrize(
    ("results", "pytest_status", "status", "prefix"),
    [
        ([GOOD], "passed", "passed", ""),
        ([GOOD], "failed", "failed", ""),
        ([GOOD], "broken", "broken", ""),
        ([SLOW], "failed", "failed", "regression"),
        ([GOOD, SLOW], "failed", "failed", "regression"),
        ([LAB], "broken", "broken", "lab error"),
        # A broken kernel during setup is a failure. Allure would treat it as a skipped test.
        ([SLOW], None, "failed", "regression"),
        ([], "passed", "unknown", "not measured"),
        ([], "skipped", "skipped", ""),
        ([], "failed", "failed", ""),
        ([], None, "unknown", ""),
    ],
)
def test_a_status_is_never_better_than_verdict_or_test(
    results: list[object], pytest_status: str | None, status: str, prefix: str
) -> None:
    assert status_of(results, pytest_status) == (status, prefix)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("results", "pytest_status", "status", "prefix"),
    [
        ([INVALID], "skipped", "skipped", "expected"),
        ([SLOW], "skipped", "skipped", "expected"),
        ([GOOD], "skipped", "skipped", ""),
        # A lab error is never an expected failure.
        ([LAB], "skipped", "broken", "lab error"),
        # It did not end as its mark expects.
        ([INVALID], "broken", "broken", "invalid"),
        ([GOOD], "passed", "passed", ""),
    ],
)
def test_what_a_test_is_marked_to_end_with_is_grey(
    results: list[object], pytest_status: str, status: str, prefix: str
) -> None:
    assert status_of(results, pytest_status, expected=True) == (status, prefix)  # type: ignore[arg-type]


@pytest.mark.parametrize("verdict", PREFIX)
def test_each_message_falls_into_one_category_of_its_status(verdict: Verdict) -> None:
    message = f"{PREFIX[verdict]}: tx 700 Mbit/s\nand more"
    rules = [
        rule
        for rule in categories()
        if re.fullmatch(str(rule["messageRegex"]), message) and STATUS[verdict] in rule["matchedStatuses"]  # type: ignore[operator]
    ]
    assert len(rules) == 1


def test_an_empty_trend_is_not_drawn() -> None:
    empty = replace(series(), points=PointList(), changes=())
    assert content.attachments([], [empty], None, {}) == []


def test_the_loss_of_a_metric_that_passes_stands_in_the_description() -> None:
    _, level = losses()
    html = content.description_html([GOOD], [replace(series(), level=level)])
    assert "<p>pi4b:onboard/pair/tcp-P1-rx: -4.8 % since 2026-07-19 (" in html
    assert "open, no owner" in html


RUN = run_record(NIGHT, NIGHT_SKIPPED)
FACTS = RunFacts("20261121-000102-abcdef01", "6.12.25-v8+ bcmgenet", 7)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_run_files(tmp_path / "res", RUN, FACTS, {})
    return tmp_path / "res"


def read(folder: Path, pattern: str) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob(pattern))]


def test_metrics_are_an_array_in_a_file_that_allure_3_looks_for(folder: Path) -> None:
    (found,) = read(folder, "*-perf.json")
    assert isinstance(found, list)
    for entry in found:
        assert {"id", "key", "value", "start", "stop"} <= entry.keys()
        assert isinstance(entry["value"], float)
        assert entry["start"] <= entry["stop"]
        assert (entry["unit"], entry["better"]) == ("Mbit/s", "higher")
    assert len({entry["id"] for entry in found}) == len(found)


def test_an_invalid_value_is_no_allure_metric() -> None:
    keys = [entry["key"] for entry in metrics(NIGHT)]
    assert "pi5:onboard/pair/tcp-P1-tx" not in keys
    assert "pi4b:onboard/pair/tcp-P1-rx" in keys
    assert "pi4b:onboard/pair/tcp-P1-bidir-tx" in keys


def test_the_environment_is_a_properties_file() -> None:
    lines = environment(run_record([NIGHT[0].replace(build={"my key=x": "a\\b:\u00e9"})])).splitlines()
    assert "lab=virtual" in lines
    assert "figures=emulated" in lines
    assert "my\\ key\\=x=a/b:\\xe9" in lines


@pytest.mark.parametrize(
    ("environ", "name", "order"),
    [
        ({}, "pytest-pinet", 7),
        ({"GITHUB_ACTIONS": "true", "GITHUB_RUN_NUMBER": "31"}, "GitHub Actions", 31),
        ({"GITLAB_CI": "true", "CI_PIPELINE_IID": "32"}, "GitLab CI", 32),
        ({"JENKINS_URL": "http://ci", "BUILD_NUMBER": "33"}, "Jenkins", 33),
        ({"JENKINS_URL": "http://ci"}, "Jenkins", 7),
    ],
)
def test_the_executor_is_the_ci_job_where_there_is_one(environ: dict[str, str], name: str, order: int) -> None:
    found = executor(RUN, 7, environ)
    assert (found["name"], found["buildOrder"]) == (name, order)


def test_nothing_is_made_up_where_the_number_of_the_run_is_unknown() -> None:
    assert "buildOrder" not in executor(RUN, None, {})


def test_the_overview_and_the_results_are_attached_to_the_run(folder: Path) -> None:
    found = [entry for one in read(folder, "*-globals.json") for entry in one["attachments"]]
    assert {(entry["name"], entry["type"]) for entry in found} == {
        ("overview of the run", "image/svg+xml"),
        ("results of the run", "text/csv"),
    }
    assert all((folder / entry["source"]).stat().st_size > 100 for entry in found)


def test_the_table_of_results_also_has_a_row_for_a_test_without_a_value() -> None:
    rows = list(csv.DictReader(io.StringIO(figures_csv(NIGHT).decode())))
    assert len(rows) == 13
    by_figure = {row["figure"]: row for row in rows}
    assert by_figure["pi4b:onboard/pair/tcp-P1-rx"]["goodput_bps"] == "700200000"
    assert by_figure["cm4:onboard/pair"] == {**by_figure["cm4:onboard/pair"], "verdict": "error", "goodput_bps": ""}


def test_categories_and_the_run_are_written(folder: Path) -> None:
    assert [rule["name"] for rule in read(folder, "categories.json")[0]][:2] == ["Regression", "Lab error"]
    assert read(folder, RUN_FILE)[0] == {
        "run": FACTS.id, "build": FACTS.build, "lab": "virtual", "started": "2026-11-21T00:01:02Z"
    }  # fmt: skip


def test_a_folder_that_cannot_be_written_is_named_with_its_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write .*file.*; choose another with --alluredir"):
        write_run_files(tmp_path / "file", RUN, FACTS, {})


def test_the_history_of_the_tests_lies_where_allure_2_and_3_look_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    subject = Subject(CombinationId("pi4b", "onboard", "pair"), "test_rate", {}, "test_rate.py")
    result = write_stand_in(tmp_path, subject)
    earlier = series(direction="tx", runs=30)
    text = json.loads(result.read_text())
    text["labels"].append({"name": "figure", "value": earlier.figure})
    result.write_text(json.dumps(text))
    newest = earlier.points[-1].run

    write_run_files(tmp_path, RUN, replace(FACTS, id=newest, series=(earlier,)), {})

    (test,) = json.loads((tmp_path / "history" / "history.json").read_text()).values()
    assert len(test["items"]) == 20
    trend = json.loads((tmp_path / "history" / "history-trend.json").read_text())
    assert trend[0]["buildOrder"] == 29
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert len(lines) == 29, "the run itself is in the results"
    assert all(len(line["testResults"]) == 1 for line in lines)


def test_without_stored_runs_a_history_that_a_user_put_there_stays(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "history.json").write_text("theirs")

    write_run_files(tmp_path, RUN, FACTS, {})

    assert (tmp_path / "history" / "history.json").read_text() == "theirs"
    assert not (tmp_path / "history.jsonl").exists()


def test_losses_of_the_lab_stand_in_the_environment_and_in_an_attachment(tmp_path: Path) -> None:
    lines = ("1 loss is open", "pi4b:onboard/pair/tcp-P1-rx: -4.8 % since 2026-07-19 (120 days); open, no owner")
    write_run_files(tmp_path, RUN, replace(FACTS, losses=lines), {})
    assert "losses=1 loss is open" in (tmp_path / "environment.properties").read_text().splitlines()
    entries = [one for found in read(tmp_path, "*-globals.json") for one in found["attachments"]]
    (entry,) = [one for one in entries if one["name"] == "losses that did not recover"]
    assert entry["source"].endswith(".txt")
    assert (tmp_path / entry["source"]).read_text().splitlines() == list(lines)
