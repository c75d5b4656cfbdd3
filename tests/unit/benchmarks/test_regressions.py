"""What the benchmark of regressions makes of a run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.regressions import __main__ as main
from benchmarks.regressions.page import PAGE, written
from benchmarks.regressions.run import CAUGHT, PASSED, Finding, Said, judge, judge_control
from benchmarks.regressions.store import FILE, Store, control_key
from benchmarks.regressions.table import BY_NUMBER, HARDWARE, ROWS

IDLE = BY_NUMBER[11]
LOSS = ("pi5:onboard/pair/idle-idle-loss", "fail", "12 % of the idle pings are lost, allowed are 1 %")


def said(status: int, *results: tuple[str, str, str]) -> Said:
    return Said(status, results, 10.0, "the last line")


def test_the_table_has_the_24_rows_of_the_survey_and_each_is_complete() -> None:
    assert len(ROWS) == len(BY_NUMBER) == 24
    for row in ROWS:
        if row.where == HARDWARE:
            assert row.reason
            assert row.command is None
        else:
            assert row.scenario
            assert row.command is not None
            assert row.names


def test_commands_that_differ_in_the_build_only_share_their_control() -> None:
    keys = Counter(control_key(row.command) for row in ROWS if row.command is not None)
    assert control_key(BY_NUMBER[1].command) == control_key(BY_NUMBER[3].command)  # type: ignore[arg-type]
    assert len(keys) < sum(keys.values())


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        (said(1, LOSS), CAUGHT),
        (said(1, ("pi5:onboard/pair/tcp-P1-tx", "fail", "slower than 94 %")), "missed"),
        (said(0, (LOSS[0], "pass", "")), "missed"),
        (said(2, (LOSS[0], "error", "no answer of the switch")), "lab error"),
        # A failure beside an error of the lab is no catch.
        (said(2, LOSS, ("pi5:onboard/pair", "error", "no answer of the switch")), "lab error"),
        (said(3, (LOSS[0], "inconclusive", "more connections are wanted")), "missed"),
        (said(4), "not run"),
    ],
)
def test_only_a_failure_that_names_the_right_value_is_a_catch(run: Said, outcome: str) -> None:
    assert judge(IDLE, run).outcome == outcome


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        (said(0, (LOSS[0], "pass", "")), PASSED),
        (said(0, (LOSS[0], "skipped", "the peer has no netem")), "failed"),
        (said(1, LOSS), "failed"),
        (said(2, (LOSS[0], "error", "")), "lab error"),
        (said(5), "not run"),
    ],
)
def test_a_control_passes_only_if_something_was_measured(run: Said, outcome: str) -> None:
    assert judge_control(run).outcome == outcome


def kept(folder: Path, caught: int) -> Store:
    store = Store(folder / "results.json")
    rows = [row for row in ROWS if row.command is not None]
    for index, row in enumerate(rows):
        assert row.command is not None
        store.keep(control_key(row.command), Finding(PASSED, "pass", 60, ""))
        store.keep(str(row.number), Finding(CAUGHT if index < caught else "missed", "fail", 60, "a sentence"))
    return Store(folder / "results.json")


def test_the_check_wants_19_caught_rows_and_good_controls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.check(kept(tmp_path, 18)) == 1
    store = kept(tmp_path, 19)
    assert main.check(store) == 0
    assert "19 of 24 reported regressions are caught; the bar is 19" in capsys.readouterr().out
    assert IDLE.command is not None
    store.keep(control_key(IDLE.command), Finding("failed", "fail", 60, "5 % of the idle pings are lost"))
    assert main.check(store) == 1
    assert "the control of row 11: failed (5 % of the idle pings are lost)" in capsys.readouterr().out


def test_an_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--row", "4"])
    assert "there is no row 4; rows: 1, 2, 3, 5" in capsys.readouterr().err


@pytest.mark.skipif(not FILE.exists(), reason="nothing was measured yet")
def test_the_page_is_that_of_the_kept_findings() -> None:
    assert PAGE.read_text() == written(Store())
