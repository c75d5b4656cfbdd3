"""results.json is read by the published schema, the history and the commands; other files end in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.records import points_of
from pytest_pinet.history.results_file import read_run, run_of
from pytest_pinet.report.markdown import summary_markdown
from pytest_pinet.report.terminal import summary_table
from tests.support.history_records import day
from tests.support.report_records import NIGHT, run_record
from tools.results_schema import SCHEMA_FILE

STORED = [run_record(NIGHT).dump(), day(1).dump()]
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("stored", STORED, ids=["night", "day"])
def test_what_is_stored_fits_the_schema_and_is_read_by_all_that_read_results(
    stored: dict[str, object], tmp_path: Path
) -> None:
    (path := tmp_path / "results.json").write_text(json.dumps(stored))
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    record = read_run(path)
    run, points = points_of(record)
    assert sum(run.verdicts.values()) == len(points) >= len(record.results)
    assert summary_table(record.results, record.skipped)
    assert summary_markdown(record).startswith("## ")


def test_another_version_is_refused_with_what_to_do() -> None:
    record = json.loads(json.dumps(STORED[0])) | {"schema": 7}
    with pytest.raises(ConfigError, match=r"^results\.json has version 7; expected 1: update pytest-pinet$"):
        run_of(record)


@pytest.mark.parametrize("record", [[], {}, {"run": "x"}, {"results": []}, {"run": "x", "results": 3}, "text", None])
def test_what_is_no_results_file_is_refused(record: object) -> None:
    with pytest.raises(
        ConfigError, match=r"^x\.json is no results\.json of pytest-pinet; expected keys 'run' and 'results'"
    ):
        run_of(record, where="x.json")


@pytest.mark.parametrize("key", ["combination", "directions", "started"])
def test_a_broken_file_is_named(key: str) -> None:
    record = json.loads(json.dumps(STORED[0]))
    record["results"][0][key] = 5
    with pytest.raises(ConfigError, match=r"^x\.json is broken \(.*\); check it against 'pinet history schema'$"):
        run_of(record, where="x.json")
