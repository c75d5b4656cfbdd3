from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_pinet.cli import pinet
from pytest_pinet.config.baselines import Reviewed
from pytest_pinet.errors import ConfigError
from pytest_pinet.history.history import open_history
from pytest_pinet.history.points import metric_id
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.report.allure.identity import Subject
from pytest_pinet.report.allure.run_files import write_stand_in
from pytest_pinet.report.trends import THIS_RUN, all_series, run_facts, series_of_runs, series_with
from tests.support.change_session import LAB_FILE
from tests.support.commands import go_without_allure
from tests.support.half_year_history import half_year, keep
from tests.support.history_records import day

RUNS = half_year(1, runs=12)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder from which Allure cannot be found."""
    go_without_allure(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def history(here: Path) -> Path:
    (here / ".pinet").mkdir()
    keep(RUNS, str(here / ".pinet" / "history.db"))
    return here


def report(*words: str) -> Result:
    return CliRunner().invoke(pinet, ["report", *words], catch_exceptions=True)


def run_folders(root: Path) -> None:
    for run in RUNS:
        folder = root / ".pinet" / "runs" / run.run
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(run.dump()))


def allure_3(here: Path) -> None:
    """Write a stand-in for Allure 3 that makes a page."""
    command = here / "node_modules" / ".bin" / "allure"
    command.parent.mkdir(parents=True)
    command.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || { echo 3.18.0; exit; }\n'
        "for word; do case $word in *allurerc.json)\n"
        'out=$(sed \'s/.*"output": "\\([^"]*\\)".*/\\1/\' "$word");; esac; done\n'
        'mkdir -p "$out"; echo "<html>" > "$out/index.html"\n'
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


def test_the_page_of_a_history_is_written(history: Path) -> None:
    done = report("-o", "out/page.html")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("report: out/page.html (")
    assert "pytest-pinet's own page" in done.output
    assert "cm4:i226v/pair" in (history / "out" / "page.html").read_text()


def test_builds_link_to_the_commit_by_the_url_of_the_lab_file(here: Path) -> None:
    section = "pinet:\n  name: virtual\n  commits: https://git.example/?id={commit}\n"
    (here / "lab.yaml").write_text(LAB_FILE.replace("pinet:\n", section))
    (here / ".pinet").mkdir()
    keep([day(1, uname="Linux 6.12.9-v8+ga1b2c3d4 #1")], ".pinet/history.db")
    done = report("--page", "--lab", "lab.yaml")
    assert done.exit_code == 0, done.exception
    link = '<a href="https://git.example/?id=a1b2c3d4">commit a1b2c3d4</a>'
    assert link in (here / "report.html").read_text()
    assert report("--page").exit_code == 0
    assert "git.example" not in (here / "report.html").read_text()


def test_without_a_history_the_run_folders_are_used(here: Path) -> None:
    run_folders(here)
    (here / ".pinet" / "runs" / "killed").mkdir()
    (here / ".pinet" / "runs" / "killed" / "results.json").write_text('{"run":')
    assert report().exit_code == 0
    assert "cm4:i226v/pair" in (here / "report.html").read_text()


def test_both_sources_give_the_same_trends(history: Path) -> None:
    run_folders(history)
    with open_history(str(history / ".pinet" / "history.db")) as kept:
        assert {s.figure: [dot.value for dot in s.points] for s in all_series(kept, 200)} == {
            s.figure: [dot.value for dot in s.points] for s in series_of_runs(history, Reviewed(), 200)
        }


def test_without_any_run_there_is_nothing_to_report(here: Path) -> None:
    error = report().exception
    assert isinstance(error, ConfigError)
    assert str(error) == "there are no runs in .pinet/history.db or .pinet/runs to report; run pytest first"


def test_a_missing_folder_of_results_is_a_mistake(history: Path) -> None:
    error = report("--allure-results", "nowhere").exception
    assert isinstance(error, ConfigError)
    assert "--allure-results: there is no folder nowhere; expected the folder of pytest --alluredir" in str(error)


def test_without_allure_our_own_page_is_written_with_a_message(history: Path) -> None:
    (history / "res").mkdir()
    write_stand_in(history / "res", Subject(CombinationId("pi4b", "onboard", "pair"), "test_rate", {}, "test_a.py"))
    done = CliRunner().invoke(pinet, ["report", "--allure-results", "res"])
    assert done.exit_code == 0
    assert "no Allure found, so this is our own page ('make report' installs Allure)" in done.output
    assert (history / "report.html").is_file()


def test_with_many_results_the_report_is_a_folder_that_must_be_served(history: Path) -> None:
    results = history / "res"
    results.mkdir()
    for number in range(101):
        write_stand_in(results, Subject(CombinationId("pi4b", f"nic{number}", "pair"), "test_rate", {}, "test_a.py"))
    allure_3(history)
    done = report("--allure-results", "res", "-o", "report.html")
    assert done.exit_code == 0, done.exception
    assert (history / "report" / "index.html").is_file()
    said = "browsers cannot show this report from a file; serve the folder: python3 -m http.server -d report"
    assert said in done.output


def test_option_last_limits_the_number_of_runs(history: Path) -> None:
    for last, heading in (("5", "5 runs as a table"), ("200", "12 runs as a table")):
        report("--last", last)
        assert heading in (history / "report.html").read_text()


def test_a_folder_without_results_is_reported(history: Path) -> None:
    (history / "res").mkdir()
    allure_3(history)
    done = report("--allure-results", "res")
    assert done.exit_code == 0, done.exception
    assert "pinet: res has no test results, so the report is empty" in done.stderr


def test_the_newest_point_of_a_trend_is_the_current_run(history: Path) -> None:
    results = [one for one in half_year(2, runs=1)[0].results if one.directions][:2]
    with open_history(str(history / ".pinet" / "history.db")) as kept:
        found = series_with(kept, results, 60, True)
    assert [series.figure for series in found] == [metric_id(one.id, way) for one in results for way in one.directions]
    assert {series.points[-1].run for series in found} == {THIS_RUN}
    assert all(len(series.points) > 5 for series in found)
    assert all(len(series.points) == 1 for series in series_with(None, results, 60, True))


def test_a_run_has_its_id_and_number_in_the_history(history: Path) -> None:
    url = str(history / ".pinet" / "history.db")
    with open_history(url) as kept:
        newest = kept.runs()[-1].id
    facts = run_facts(RUNS[-1], url, 9)
    assert (facts.id, facts.order) == (newest, len(RUNS))
    assert facts.build.startswith("6.12.")
    measured = {metric_id(one.id, way) for one in RUNS[-1].results for way in one.directions}
    assert {series.figure for series in facts.series} >= measured
    assert max(len(series.points) for series in facts.series) == 9
    assert (run_facts(RUNS[-1], None, 9).order, run_facts(RUNS[-1], None, 9).series) == (None, [])


def test_only_the_listener_needs_allure_pytest() -> None:
    """The gate and all reports work without allure-pytest."""
    names = ["pytest_pinet.session.session", "pytest_pinet.cli.report", "pytest_pinet.report.trends"]
    modules = ", ".join([*names, "pytest_pinet.report.allure.tool"])
    hidden = "import sys; sys.modules.update(allure_commons=None, allure_pytest=None, allure=None); import "
    subprocess.run([sys.executable, "-c", hidden + modules], check=True, timeout=60)
