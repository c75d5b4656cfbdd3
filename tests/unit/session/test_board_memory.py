"""A board that did not come up is skipped by later runs and other runners, until it is cleared or a day has passed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_pinet.doctor import examine
from pytest_pinet.doctor.bench import Status
from pytest_pinet.history.history import keep_run, open_history
from pytest_pinet.history.points import OutOfService
from pytest_pinet.lab.node.node_pool import Quarantine
from pytest_pinet.model.record.result import ResultRecord, SecondBoardRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.session.boards import HOLDS, QUARANTINE, BoardMemory
from tests.support.history_records import day, kept, with_result

LAB = "bench"


def run(url: str | None, folder: Path, *broken: str) -> Quarantine:
    """Make a run in which these nodes do not come up. Return its quarantine."""
    boards = BoardMemory(url, LAB, folder)
    boards.recall()
    quarantine = Quarantine(folder / QUARANTINE)
    for node in broken:
        quarantine.add(node, f"{node} does not boot")
    assert boards.remember(folder.name, ()) == []
    return Quarantine(folder / QUARANTINE)


def test_another_run_skips_the_board_and_says_why(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    assert run(url, tmp_path / "one", "pi4b-2").reason("pi4b-1") is None
    reason = run(url, tmp_path / "two").reason("pi4b-2") or ""
    assert reason.startswith("out of service since ")
    assert reason.endswith("(run one): pi4b-2 does not boot; when it is well, 'pinet doctor --clear' puts it back")
    # A run that skips a board remembers nothing new of it.
    with open_history(url) as store:
        assert [board.run for board in store.remembered(OutOfService, LAB)] == ["one"]


def test_the_doctor_shows_and_clears_boards_of_its_lab(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    run(url, tmp_path / "one", "pi4b-2", "pi4b-3")
    found = examine.remembered_boards(url, LAB, {"pi4b-1", "pi4b-2"})
    assert [(one.node, one.status) for one in found] == [("pi4b-2", Status.WRONG)]
    assert examine.remembered_boards(url, "other lab", {"pi4b-2"}) == []
    assert examine.clear_boards(url, LAB, {"pi4b-1", "pi4b-2"}) == ["pi4b-2 is back in service"]
    assert run(url, tmp_path / "two").reason("pi4b-2") is None
    assert run(url, tmp_path / "three").reason("pi4b-3") is not None


def test_after_a_day_a_run_tries_the_board_again(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    old = OutOfService("pi4b-2", datetime.now(UTC) - HOLDS - timedelta(minutes=1), "old", "no login")
    with open_history(url, create=True) as store:
        store.remember(LAB, [old])
    assert run(url, tmp_path / "one").reason("pi4b-2") is None
    run(url, tmp_path / "two", "pi4b-2")
    assert run(url, tmp_path / "three").reason("pi4b-2") is not None


@pytest.mark.parametrize("url", [None, "off"])
def test_without_a_history_a_run_remembers_nothing(url: str | None, tmp_path: Path) -> None:
    assert run(url, tmp_path / "one", "pi4b-2").reason("pi4b-2") == "pi4b-2 does not boot"
    assert run(url, tmp_path / "two").reason("pi4b-2") is None
    assert examine.remembered_boards("off", LAB, {"pi4b-2"}) == []


def test_a_history_that_cannot_be_read_is_no_trouble_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "h.db").write_text("no database", encoding="utf-8")
    boards = BoardMemory(str(tmp_path / "h.db"), LAB, tmp_path / "one")
    boards.recall()
    Quarantine(tmp_path / "one" / QUARANTINE).add("pi4b-2", "no login")
    (message,) = boards.remember("one", ())
    assert message.startswith("boards out of service or suspected are not remembered: history ")


def failed_run(
    url: str, folder: Path, number: int, second: str = "", verdict: str = "fail", dropped: bool = False
) -> ResultRecord:
    """Make a run of pi4b-2 as a runner does. ``second`` is the verdict of a second board. Return its kept result.

    ``dropped``: its link dropped, so that it has no value.
    """
    boards = BoardMemory(url, LAB, folder)
    boards.recall()
    run = with_result(day(number, verdict=verdict), settings={"dut": {"end": "pi4b-2:onboard"}})
    (result,) = run.results
    other = SecondBoardRecord(end="pi4b-1:onboard", verdict=Verdict(second)) if second else None
    where = result.combination.replace(dut="pi4b-2:onboard")
    if dropped:
        result = result.replace(id=where.id, directions={})
    result = boards.noted(result.replace(combination=where, second_board=other))
    assert keep_run(url, run.replace(lab=LAB, results=(result,)), folder) is None
    assert boards.remember(folder.name, [result]) == []
    return result


def test_a_board_that_fails_where_a_second_board_passes_is_suspected_until_a_user_clears_it(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    assert not any("suspected" in note for note in failed_run(url, tmp_path / "one", 1, "pass").notes)
    # Another runner of the same store. Its run fails on both boards, which says nothing new about this one.
    note = next(note for note in failed_run(url, tmp_path / "two", 2, "fail").notes if "suspected" in note)
    assert re.fullmatch(
        r"pi4b-2 is suspected since 20\d\d-\S+ \S+ UTC \(run one\): pi4b:onboard/pair/tcp-P1-tx failed on "
        r"pi4b-2:onboard, but not on pi4b-1:onboard, of the same kind; when it is well, 'pinet doctor --clear' puts "
        r"it back",
        note,
    )
    # A suspected board is used, and a good result is no one's business.
    assert not any("suspected" in note for note in failed_run(url, tmp_path / "three", 3, verdict="pass").notes)
    BoardMemory(url, LAB, tmp_path / "four").recall()
    assert Quarantine(tmp_path / "four" / QUARANTINE).reason("pi4b-2") is None
    (finding,) = examine.remembered_boards(url, LAB, {"pi4b-1", "pi4b-2"})
    assert (finding.node, finding.status) == ("pi4b-2", Status.UNKNOWN)
    assert finding.message.startswith("pi4b-2 is suspected since ")
    assert examine.clear_boards(url, LAB, {"pi4b-1"}) == []
    assert examine.clear_boards(url, LAB, {"pi4b-2"}) == ["pi4b-2 is no longer suspected"]
    assert examine.clear_boards(url, LAB, {"pi4b-2"}) == []
    assert examine.remembered_boards(url, LAB, {"pi4b-2"}) == []
    assert not any("suspected" in note for note in failed_run(url, tmp_path / "five", 5).notes)


@pytest.mark.parametrize("dropped", [False, True])
def test_a_board_that_fails_over_many_runs_is_suspected_and_only_later_runs_count_after_it_was_cleared(
    tmp_path: Path, dropped: bool
) -> None:
    url = str(tmp_path / "h.db")
    good = [with_result(day(n), settings={"dut": {"end": "pi4b-1:onboard"}}).replace(lab=LAB) for n in range(12)]
    with open_history(url, create=True) as store:
        store.add_all(kept(good))
    for n in range(12, 18):
        failed_run(url, tmp_path / str(n), n, dropped=dropped)
    (finding,) = examine.remembered_boards(url, LAB, {"pi4b-2"})
    assert "(run 17): pi4b-2 failed in 6 of 6 values of pi4b:onboard, other boards of its kind in 0 of 12" in (
        finding.message
    )
    # The values of these runs lie in the past; clearing ends what they say.
    assert examine.clear_boards(url, LAB, {"pi4b-2"}) == ["pi4b-2 is no longer suspected"]
    assert examine.remembered_boards(url, LAB, {"pi4b-2"}) == []
    failed_run(url, tmp_path / "18", 18, dropped=dropped)
    assert examine.remembered_boards(url, LAB, {"pi4b-2"}) == []
