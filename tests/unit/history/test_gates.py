"""Gates in the history: builds, verdicts, metrics and turns come back as they were stored, to every reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_pinet.history.history import import_lines, lines_of, open_history
from pytest_pinet.history.points import GatedMetric, GateTurn, StoredGate, gate_of
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.verdict import Verdict
from tests.support.commands import run
from tests.support.gate_records import IMAGE, RX, TX, gated_run
from tests.support.history_records import day, kept

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a history with two gates of one lab, one of another, and an ordinary run."""
    place = str(tmp_path / "history.db")
    with HistoryStore.open(place, create=True) as store:
        store.add_all(kept([gated_run(1), gated_run(2, "pass"), gated_run(3, lab="bench"), day(0)]))
    return place


def gate_in(run: RunRecord) -> StoredGate:
    assert run.change is not None
    return gate_of(run.change, run.results)


def test_a_gate_has_its_builds_metrics_and_turns() -> None:
    gate = gate_in(gated_run())
    assert (gate.a.name, gate.a.key, gate.b.name, gate.b.key) == ("running", "", "new", "1f449c713387")
    assert (gate.b.release, gate.b.files) == ("6.12.41-v8+", (IMAGE,))
    assert gate.b.settings == ("net.ipv4.tcp_sack=0",)
    assert (gate.verdict, gate.exit, gate.turns, gate.baseline) == ("fail", 1, 4, "interleaved")
    slower, same = gate.entries
    assert slower == GatedMetric(
        id=RX,
        direction="rx",
        verdict=Verdict.FAIL,
        text="certain after 4 turns",
        a_bps=941e6,
        b_bps=941e6 * 0.95,
        change=-0.05,
        suspect="tcp-segmentation-offload: on -> off",
        interval=(-0.052, -0.048),
        tolerance=0.01,
        turns=(
            GateTurn(number=0, side="A", levels_bps=(941e6,)),
            GateTurn(number=1, side="B", levels_bps=(941e6 * 0.95,)),
            GateTurn(number=2, side="A", levels_bps=(941e6,)),
            GateTurn(number=3, side="B", trouble="no carrier"),
        ),
    )
    assert (same.figure, same.verdict) == (TX, "pass")
    ((run_without, _),) = kept([day(1)])
    assert run_without.change is None


def test_what_goes_in_comes_out(url: str) -> None:
    with open_history(url) as store:
        found = store.gates()
        assert [run.change for run in found] == [
            gate_in(gated_run(1)),
            gate_in(gated_run(2, "pass")),
            gate_in(gated_run(3)),
        ]
        assert [run.id.partition("-2")[0] for run in store.gates(lab="bench")] == [found[2].id.partition("-2")[0]]
        assert [run.change.verdict for run in store.gates(1, "virtual") if run.change] == ["pass"]
        assert [run.change is not None for run in store.runs()] == [False, True, True, True]
        # The values of B are no trend.
        assert [figure.points for figure in store.figures()] == [1]


def test_export_and_import_keep_gates(url: str, tmp_path: Path) -> None:
    with open_history(url) as store:
        lines, gates = list(lines_of(store.everything())), store.gates()
    with HistoryStore.open(str(tmp_path / "other.db"), create=True) as other:
        assert import_lines(other, lines, "all.jsonl", pytest.fail) == (4, 4)
        assert other.gates() == gates
        assert list(lines_of(other.everything())) == lines


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
    assert [one["change"]["verdict"] for one in printed] == ["fail", "pass", "fail"]
    assert printed[0]["change"]["entries"][0]["interval"] == [-0.052, -0.048]
    status = run("losses", "--history", url, "--lab", "virtual")
    assert status.exit_code == 0
    assert status.stdout.splitlines()[2:] == [
        "2026-11-01  gate of new against running: regression",
        "2026-11-02  gate of new against running: pass",
    ]
