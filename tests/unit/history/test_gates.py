"""Gates in the history: builds, answer, metrics and turns come back as they were stored, and every reader sees them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.history.gates import GatedMetric, GateTurn, gate_of
from pytest_pinet.history.history import open_history
from pytest_pinet.history.lines import import_lines, lines_of
from pytest_pinet.history.save import import_results
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.model.verdict import MetricOutcome
from tests.support.commands import run
from tests.support.gate_records import RX, TX, gated_run
from tests.support.history_records import day, kept

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a history with two gates of one lab, one of another, and an ordinary run."""
    place = str(tmp_path / "history.db")
    with HistoryStore.open(place, create=True) as store:
        store.add_all(kept([gated_run(1), gated_run(2, "pass"), gated_run(3, lab="bench"), day(0)]))
    return place


def test_a_gate_has_its_builds_metrics_and_turns() -> None:
    gate = gate_of(gated_run())
    assert gate is not None
    assert (gate.a.name, gate.a.key, gate.b.name, gate.b.key) == ("running", "", "new", "1f449c713387")
    assert (gate.b.release, gate.b.files) == ("6.12.41-v8+", {"kernel8.img": "ab" * 32})
    assert gate.b.settings == ("net.ipv4.tcp_sack=0",)
    assert (gate.answer, gate.exit, gate.turns, gate.baseline) == ("regression", 1, 4, "interleaved")
    slower, same = gate.metrics
    assert slower == GatedMetric(
        RX,
        MetricOutcome.REGRESSION,
        941e6,
        941e6 * 0.95,
        -0.05,
        (-0.052, -0.048),
        0.01,
        "",
        "tcp-segmentation-offload: on -> off",
        "certain after 4 turns",
        (
            GateTurn(0, "A", (941e6,)),
            GateTurn(1, "B", (941e6 * 0.95,)),
            GateTurn(2, "A", (941e6,)),
            GateTurn(3, "B", (), "no carrier"),
        ),
    )
    assert (same.figure, same.outcome) == (TX, "unchanged")
    assert gate_of(day(1)) is None


def test_what_goes_in_comes_out(url: str) -> None:
    with open_history(url) as store:
        found = store.gates()
        assert [run.gate for run in found] == [
            gate_of(gated_run(1)),
            gate_of(gated_run(2, "pass")),
            gate_of(gated_run(3)),
        ]
        assert [run.id.partition("-2")[0] for run in store.gates(lab="bench")] == [found[2].id.partition("-2")[0]]
        assert [run.gate.answer for run in store.gates(1, "virtual") if run.gate] == ["pass"]
        assert [run.gate is not None for run in store.runs()] == [False, True, True, True]
        # The values of B are no trend.
        assert [figure.points for figure in store.figures()] == [1]


def test_export_and_import_keep_gates(url: str, tmp_path: Path) -> None:
    with open_history(url) as store:
        lines, gates = list(lines_of(store.everything())), store.gates()
    with HistoryStore.open(str(tmp_path / "other.db"), create=True) as other:
        assert import_lines(other, lines, "all.jsonl", pytest.fail) == (4, 4)
        assert other.gates() == gates
        assert list(lines_of(other.everything())) == lines


def test_a_history_without_the_tables_gets_them_with_the_first_gate(tmp_path: Path) -> None:
    old = tmp_path / "v1.db"
    shutil.copy(DATA / "history" / "v1.db", old)
    with open_history(str(old)) as store:
        assert store.gates() == []
        assert all(run.gate is None for run in store.runs())
        store.add_all(kept([gated_run()]))
        assert len(store.gates()) == 1
    with closing(sqlite3.connect(old)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert {("pinet_gates",), ("pinet_gated",)} <= set(tables)


def test_a_run_that_was_stored_without_its_gate_gets_the_gate_by_an_import(tmp_path: Path) -> None:
    record = gated_run()
    ((run_of_gate, points),) = kept([record])
    file = tmp_path / "results.json"
    file.write_text(json.dumps(record.dump()))
    with HistoryStore.open(str(tmp_path / "history.db"), create=True) as store:
        store.add(replace(run_of_gate, gate=None), points)
        assert store.gates() == []
        assert not import_results(store, file)
        assert [one.gate for one in store.gates()] == [gate_of(record)]
        assert not import_results(store, file)
        assert len(store.gates()) == 1


def test_pinet_history_and_status_show_gates(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = run("history", "--history", url, "--gates", "--lab-name", "virtual").stdout.splitlines()
    assert lines[0].endswith("  2026-11-01 08:00  lab virtual  gate of new against running: regression")
    assert lines[1:4] == [
        "  new must not be merged: 1 of 2 metrics slower.",
        f"  {RX}  -5.00 % (-5.20 to -4.80 %)  regression",
        f"  {TX}  +0.00 % (-0.20 to +0.20 %)  unchanged",
    ]
    assert run("history", "--history", url).stdout.endswith(
        "1 result, 0 with a level change; 3 gated changes (--gates)\n"
    )
    assert "gate of new against running: pass" in run("history", "--history", url, "--runs").stdout
    printed = json.loads(run("history", "--history", url, "--gates", "--json").stdout)
    assert [one["gate"]["answer"] for one in printed] == ["regression", "pass", "regression"]
    assert printed[0]["gate"]["metrics"][0]["interval"] == [-0.052, -0.048]
    status = run("losses", "--history", url, "--lab", "virtual")
    assert status.exit_code == 0
    assert status.stdout.splitlines()[2:] == [
        "2026-11-01  gate of new against running: regression",
        "2026-11-02  gate of new against running: pass",
    ]
