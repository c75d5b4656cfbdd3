"""The queries of the Grafana dashboard run on a real PostgreSQL, and the file has the structure that Grafana reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_pinet.history.history import open_history
from tests.support.gate_records import gated_run
from tests.support.half_year_history import half_year, keep
from tests.support.history_records import kept
from tests.support.postgres_server import postgres_server

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[3] / "docs" / "how-to" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
QUERIES = {
    f"{panel['title']} {target['refId']}": target["rawSql"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
VARIABLES = {one["name"]: one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"}


def filled(sql: str, lab: str, metrics: list[str]) -> str:
    """Replace macros and variables as Grafana does: ``sqlstring`` quotes each value and joins them with commas."""
    quoted = {"lab": f"'{lab}'", "metric": ",".join("'" + one.replace("'", "''") + "'" for one in metrics)}
    sql = sql.replace("$__unixEpochFrom()", "1000000000").replace("$__unixEpochTo()", "4000000000")
    sql = re.sub(r"\$\{(\w+):sqlstring\}", lambda found: quoted[found[1]], sql)
    assert "$" not in sql
    return sql


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="module")
def answers(server: str) -> dict[str, tuple[list[str], list[tuple[Any, ...]]]]:
    """Return the columns and rows of each query for a half year of runs."""
    import psycopg

    keep(half_year(2, runs=10), server)
    found: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {}
    with open_history(server) as store:
        there = store.figures()
        lab, metrics = there[0].lab, [one.id for one in there]
        store.add_all(kept([gated_run(1, lab=lab), gated_run(2, "pass", lab=lab), gated_run(3, lab="elsewhere")]))
    with psycopg.connect(server) as connection:
        for name, sql in (QUERIES | VARIABLES).items():
            cursor = connection.execute(filled(sql, lab, metrics).encode())
            found[name] = ([column.name for column in cursor.description or ()], cursor.fetchall())
    return found


def test_each_query_runs_and_finds_the_values(answers: dict[str, tuple[list[str], list[tuple[Any, ...]]]]) -> None:
    assert answers["lab"][1]
    assert answers["metric"][1]
    columns, rows = answers["Goodput and limits A"]
    assert columns == ["time", "metric", "value"]
    assert len(rows) >= 10
    assert all(1e6 < value < 1e11 and time.year > 2020 for time, _, value in rows)
    assert all(0 < value <= 1.01 for _, _, value in answers["Share of the physical limit A"][1])
    assert {verdict for verdict, _ in answers["Verdicts A"][1]} <= {"pass", "marginal", "improved", "fail", "error"}
    columns, rows = answers["Newest result of each metric A"]
    assert columns == ["metric", "verdict", "goodput", "limit", "time", "kernel", "driver", "why"]
    assert len({row[0] for row in rows}) == len(rows)
    assert all(row[5] for row in rows)
    columns, rows = answers["Gates of changes A"]
    assert columns == ["time", "verdict", "A", "B", "turns", "sentence", "run"]
    # The newest first, of the chosen lab.
    assert [row[1:6] for row in rows] == [
        ("pass", "running", "new", 4, "new may be merged."),
        ("fail", "running", "new", 4, "new must not be merged: 1 of 2 metrics slower."),
    ]
    assert [f"{row[0]:%Y-%m-%d}" for row in rows] == ["2026-11-02", "2026-11-01"]


def test_grafana_reads_the_file() -> None:
    dashboard = pytest.importorskip("grafana_foundation_sdk.models.dashboard").Dashboard
    found = dashboard.from_json(DASHBOARD)
    assert found.uid == "pytest-pinet"
    assert len(found.panels) == len(DASHBOARD["panels"])
    assert [one.name for one in found.templating.list_val] == ["datasource", "lab", "metric"]


def test_the_files_for_provisioning() -> None:
    # Placeholders of __inputs are resolved only in the import dialog, not when a file is provisioned.
    assert "__inputs" not in DASHBOARD
    assert "DS_" not in (FOLDER / "dashboard.json").read_text()
    assert yaml.safe_load((FOLDER / "provisioning.yaml").read_text())["apiVersion"] == 1
    (source,) = yaml.safe_load((FOLDER / "datasource.yaml").read_text())["datasources"]
    kinds = {one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "datasource"}
    assert kinds == {source["type"]}
