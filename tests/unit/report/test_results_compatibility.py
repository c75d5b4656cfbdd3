"""Results of older versions stay readable with the published schema, the history and the commands."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.records import points_of
from pytest_pinet.history.results_file import KNOWN_SCHEMAS, read_run, run_of
from pytest_pinet.model.record.run import SCHEMA_VERSION
from pytest_pinet.report.markdown import summary_markdown
from pytest_pinet.report.schema import SCHEMA_FILE
from pytest_pinet.report.terminal import summary_table

STORED = sorted((Path(__file__).parents[2] / "data" / "results").glob("*.json"))
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


def test_there_is_a_stored_file_of_each_version() -> None:
    versions = {json.loads(path.read_text(encoding="utf-8"))["schema"] for path in STORED}
    assert versions == set(range(1, SCHEMA_VERSION + 1)) == set(KNOWN_SCHEMAS)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_file_fits_the_schema_of_today(path: Path) -> None:
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), SCHEMA)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_file_is_read_by_all_that_read_results(path: Path) -> None:
    record = read_run(path)
    run, points = points_of(record)
    assert sum(run.verdicts.values()) == len(points) >= len(record.results)
    assert summary_table(record.results, record.skipped)
    assert summary_markdown(record).startswith("## ")


def test_a_later_version_is_refused_with_what_to_do() -> None:
    record = json.loads(STORED[0].read_text(encoding="utf-8")) | {"schema": 7}
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
    record = json.loads(STORED[0].read_text(encoding="utf-8"))
    record["results"][0][key] = 5
    with pytest.raises(ConfigError, match=r"^x\.json is broken \(.*\); check it against 'pinet history schema'$"):
        run_of(record, where="x.json")
