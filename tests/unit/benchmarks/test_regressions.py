"""What the benchmark of regressions makes of a run."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.regressions import __main__ as main
from benchmarks.regressions.page import PAGE, written
from benchmarks.regressions.run import CAUGHT, PASSED, Finding, Said, judge, judge_control, results_in
from benchmarks.regressions.store import FILE, Store, control_key
from benchmarks.regressions.table import BY_NUMBER, HARDWARE, ROWS, Row

IDLE = BY_NUMBER[11]
IDLE_ID = "pi5:onboard/pair/idle-ping-t12"
LOSS = (IDLE_ID, "fail", "pi5:onboard/pair idle_loss 12% is above the limit 0%; first_answer 0.0831 ms")


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
        # The id alone, or another value of the same call, is no catch.
        (said(1, (IDLE_ID, "fail", "pi5:onboard/pair first_second 1% is below the limit 10%; idle_loss 0%")), "missed"),
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


@pytest.mark.parametrize("row", [row for row in ROWS if row.names], ids=lambda row: str(row.number))
def test_the_sentence_of_each_kept_catch_names_the_right_value(row: Row) -> None:
    found = Store().row(row)
    # Of the first boots, only the share was kept, and not why each boot was bad.
    if found is not None and found.outcome == CAUGHT and not found.text.endswith("may be bad, and a"):
        assert re.search(row.names, found.text.partition(": ")[2])


def test_ids_that_every_failure_of_a_test_has_are_no_catch() -> None:
    chain = "pi5:onboard/chain/nat=masquerade/tcp-P1-tx"
    other = said(
        1, (chain, "fail", "link dropped for 1.0 s"), ("pi5:onboard/pair/boots-ping", "fail", "2 boots were bad")
    )
    assert [judge(BY_NUMBER[number], other).outcome for number in (1, 6, 7, 18, 22, 23, 24, 36)] == ["missed"] * 8
    assert judge(replace(BY_NUMBER[18], names="chain"), other).outcome == "missed"


BOOTS = {
    "id": "pi5:onboard/pair/boots-ping",
    "verdict": "fail",
    "message": "pi5:onboard/pair 4 of 27 boots were bad (15 %): at most 2.0 % may be\n  bad, and 15 % is found\n"
    "  -> look at the slow ping of the board",
    "finding": None,
    "notes": ["the board has one processor", "boot 7 is bad: no link 21 s after the boot: no carrier on dut eth0"],
}


def test_the_reason_of_a_bad_boot_is_part_of_the_sentence_and_advice_is_not(tmp_path: Path) -> None:
    folder = tmp_path / ".pinet" / "latest"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"results": [BOOTS]}))
    run = said(1, *results_in(tmp_path))
    found = judge(BY_NUMBER[23], run)
    assert (found.outcome, judge(BY_NUMBER[24], run).outcome) == (CAUGHT, "missed")
    assert found.text == (
        "pi5:onboard/pair/boots-ping: pi5:onboard/pair 4 of 27 boots were bad (15 %): at most 2.0 % may be bad, and "
        "15 % is found; boot 7 is bad: no link 21 s after the boot: no carrier on dut eth0"
    )


def test_a_long_sentence_ends_at_the_end_of_a_word() -> None:
    text = "idle_loss 12% is above the limit 0%;\n  " + "word " * 100
    found = judge(IDLE, said(1, (IDLE_ID, "fail", text))).text.removeprefix(f"{IDLE_ID}: ")
    assert found.startswith("idle_loss 12% is above the limit 0%; word word")
    assert found.endswith(" word")
    assert 295 < len(found) <= 300


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
    said = capsys.readouterr().out
    assert "the control of row 11: failed (5 % of the idle pings are lost)" in said
    assert "row 11 is not caught: its control did not pass" in said


def test_a_row_whose_control_did_not_run_is_not_caught(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path, 19)
    file, key = tmp_path / "results.json", control_key(IDLE.command)  # type: ignore[arg-type]
    own = json.loads(file.read_text())
    shared = sum(row.command is not None and control_key(row.command) == key for row in ROWS)
    del own[key]
    file.write_text(json.dumps(own))
    store = Store(file)
    assert main.check(store) == 1
    said = capsys.readouterr().out
    assert f"{19 - shared} of 24 reported regressions are caught" in said
    assert "row 11 is not caught: its control did not run" in said
    assert "the control of row 11: it did not run" in said
    assert f"Of 24: {19 - shared} caught" in written(store)


def test_an_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--row", "4"])
    assert "there is no row 4; rows: 1, 2, 3, 5" in capsys.readouterr().err


@pytest.mark.skipif(not FILE.exists(), reason="nothing was measured yet")
def test_the_page_is_that_of_the_kept_findings() -> None:
    assert PAGE.read_text() == written(Store())
