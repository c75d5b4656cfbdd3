"""Reading results.json, and what a killed run left."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_pinet.cli import pinet
from pytest_pinet.errors import ConfigError
from pytest_pinet.history.accepting import candidate
from pytest_pinet.history.history import keep_run, open_history
from pytest_pinet.history.records import reason_of
from pytest_pinet.history.results_file import goes_on, moment, read_run, read_whole_run, record_of
from pytest_pinet.model.limits import Metric, Threshold
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.run_folder import RunFolder
from tests.support.history_records import FIGURE, day
from tests.support.report_records import direction, result, run_record


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(day(1).dump()))
    assert read_run(path) == read_whole_run(path) == day(1)


def test_the_stored_reason_of_a_cost_above_its_limit_is_that_of_the_cost() -> None:
    limit = Threshold(Metric.RETRANSMITS, 0.001, "at most 0.1% of segments retransmitted", "the call")
    cost = {"limit": limit, "verdict": "fail", "reason": "retransmit rate 1.69% is above the limit 0.1%"}
    reasons = {"above": "90.0 Mbit/s meets the limit 84.4 Mbit/s", "below": "80.0 Mbit/s is below the limit"}
    above = direction(90e6, 84.4e6, "fail", reason=reasons["above"], extras=[cost])
    below = direction(80e6, 84.4e6, "fail", reason=reasons["below"], extras=[cost])
    assert [reason_of(above), reason_of(below)] == [cost["reason"], reasons["below"]]


def test_bytes_of_a_console_that_are_no_text_are_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    run = run_record([result("pi4b:onboard/pair", {}, "error", "console said \udcff")])
    path.write_text(json.dumps(run.dump()), encoding="ascii")
    assert read_run(path).results[0].message == "console said \\udcff"


def test_a_file_that_is_cut_short_is_that_of_a_killed_run(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert read_whole_run(path) is None
    path.write_text('{"run":')
    assert read_whole_run(path) is None
    with pytest.raises(ConfigError, match=r"results\.json is no JSON \(.*\); expected a results\.json$"):
        read_run(path)


def test_a_key_that_occurs_twice_is_refused_by_both(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    # A number of 19 digits, such as a session, is left out: this rule does not depend on one.
    text = json.dumps(day(1).dump()).replace("0" * 31, "a" * 31)
    path.write_text(text.replace('{"', '{"schema": 1, "', 1))
    assert read_whole_run(path) is None
    with pytest.raises(ConfigError, match=r"is no JSON \(the key 'schema' occurs twice in one object\)"):
        read_run(path)


def test_a_wrong_value_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    broken = day(1).dump()
    broken["results"][0]["directions"]["tx"]["verdict"] = "good"
    path.write_text(json.dumps(broken))
    with pytest.raises(ConfigError, match=r"is broken \(results\.0\.directions\.tx\.verdict: Input should be 'pass'"):
        read_run(path)


HERE = Path(__file__).parents[3]
# Begins a run, stores a result, and waits to be killed.
RUN = """
import sys, time
from pathlib import Path
from tests.support.history_records import day
from pytest_pinet.report.run_folder import RunFolder
run = day(int(sys.argv[2]))
folder = RunFolder(Path(sys.argv[1]))
folder.begin(run.replace(results=[], complete=False, exitstatus=2))
folder.append(run.results[0])
print("begun", flush=True)
time.sleep(60)
"""


pytestmark = pytest.mark.usefixtures("here")


def left_by(run: RunRecord, end: str = "") -> Path:
    """Write the results.jsonl of a killed run. ``end`` is its truncated last line."""
    folder = Path(".pinet/runs") / run.run
    folder.mkdir(parents=True)
    RunFolder(folder).begin(run.replace(results=[], complete=False, exitstatus=2))
    for one in run.results:
        RunFolder(folder).append(one)
    path = folder / "results.jsonl"
    with path.open("a") as file:
        file.write(end)
    return path


def imported(*files: Path) -> Result:
    return CliRunner().invoke(pinet, ["history", "import", *map(str, files)])


def test_what_a_killed_run_left_is_kept_as_an_interrupted_run() -> None:
    path = left_by(day(3), '{"id": "pi4b:onbo')
    done = imported(path)
    assert done.stdout == "1 run read, 1 of them new\n"
    why = "Unterminated string starting at: line 1 column 8 (char 7)"
    assert done.stderr == f"{path}: line 2 is left out, because it is incomplete or wrong ({why})\n"
    with open_history(".pinet/history.db") as history:
        (run,) = history.runs()
        (point,) = history.trend(FIGURE).points
    assert (run.complete, run.exitstatus, run.lab, run.figures) == (False, 2, "virtual", "emulated")
    assert run.folder == str(path.parent.absolute())
    # The last known time of the run.
    assert (moment(run.finished) - moment(run.started)).total_seconds() == 7.5
    assert point.value == 941e6
    listed = CliRunner().invoke(pinet, ["history", "--runs"]).output
    assert listed == f"{run.id}  2026-09-04 02:00  lab virtual  1 pass  interrupted\n"
    assert imported(path).stdout == "1 run read, 0 of them new\n"


def test_it_never_feeds_a_baseline() -> None:
    for number in range(5):
        assert keep_run(None, day(number), Path(f".pinet/runs/night-{number}").absolute()) is None
    imported(*(left_by(day(number)) for number in range(5, 8)))
    with open_history(".pinet/history.db") as history:
        found = candidate(history.trend(FIGURE), date(2026, 11, 22), "first results")
    assert found.refused == {"interrupted run": 3}
    assert found.baseline is not None
    assert len(found.baseline.runs) == 5


def test_a_run_that_goes_on_is_refused_until_it_is_killed(tmp_path: Path) -> None:
    """Otherwise its later results would never be in the history."""
    command = [sys.executable, "-c", RUN, str(tmp_path), "4"]
    with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert goes_on(tmp_path / "run.json")
        with pytest.raises(ConfigError, match=r"results\.jsonl is still active; wait until it has ended"):
            record_of(tmp_path / "results.jsonl")
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    record, left_out = record_of(tmp_path / "results.jsonl")
    assert (record.run, len(record.results), left_out) == ("night-4", 1, [])


def test_a_run_that_ended_after_all_is_that_of_its_results() -> None:
    path = left_by(day(1))
    RunFolder(path.parent).write_results(day(1))
    assert imported(path).stdout == "1 run read, 1 of them new\n"
    assert imported(path.with_name("results.json")).stdout == "1 run read, 0 of them new\n"
    with open_history(".pinet/history.db") as history:
        assert history.runs()[0].complete


def test_a_killed_run_that_measured_nothing_yet_is_kept() -> None:
    path = left_by(day(1).replace(results=[]))
    path.touch()
    assert imported(path).stdout == "1 run read, 1 of them new\n"


def test_its_results_can_be_summed_up_and_compared(here: Path) -> None:
    left_by(day(1))
    left_by(day(2, 880))
    (here / ".pinet" / "latest").symlink_to("runs/night-2")
    told = CliRunner().invoke(pinet, ["summary"]).output
    words = "No verdict: nothing failed, and one measurement meets its limit."
    assert told.splitlines()[0] == f"{words} The values are emulated. The run was interrupted."
    done = CliRunner().invoke(pinet, ["compare", ".pinet/runs/night-1", ".pinet/latest"])
    assert (done.exit_code, done.output.splitlines()[-1]) == (1, "1 metric: 1 slower")


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (None, r"run\.json: No such file or directory; expected run\.json and results\.jsonl of one run in a folder"),
        ('{"run":', r"run\.json is no JSON \(.*\); expected the file that a run writes when it begins"),
        ("[]", r"run\.json lacks the key 'started'; expected the file that a run writes when it begins"),
        ('{"started": "2026"}', r"results\.jsonl is no results\.json of pytest-pinet"),
        ('{"started": "2026-11-22", "run": "r", "schema": 9}', r"results\.jsonl has version 9; expected 1: update"),
    ],
)
def test_a_head_that_says_nothing_is_a_mistake(tmp_path: Path, head: str | None, said: str) -> None:
    (tmp_path / "results.jsonl").write_text(json.dumps(day(1).results[0].dump()) + "\n")
    if head is not None:
        (tmp_path / "run.json").write_text(head)
    done = imported(tmp_path / "results.jsonl")
    assert done.exit_code == 4
    assert re.search(said, done.stderr)
