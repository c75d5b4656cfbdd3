import json
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.results_file import read_run, read_whole_run
from tests.support.history_records import day
from tests.support.report_records import result, run_record


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(day(1).dump()))
    assert read_run(path) == read_whole_run(path) == day(1)


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
