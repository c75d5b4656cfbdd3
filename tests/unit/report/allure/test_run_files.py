from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.report.allure.identity import Subject
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
from tests.support.report_records import NIGHT, NIGHT_SKIPPED, run_record

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
    newest = earlier.dots[-1].run

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
