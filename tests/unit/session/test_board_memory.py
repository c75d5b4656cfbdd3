"""A board that did not come up is skipped by later runs and other runners, until it is cleared or a day has passed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_pinet.doctor import memory
from pytest_pinet.doctor.finding import Status
from pytest_pinet.history.history import open_history
from pytest_pinet.history.points import OutOfService
from pytest_pinet.lab.node.node_pool import Quarantine
from pytest_pinet.session.board_memory import HOLDS, QUARANTINE, BoardMemory

LAB = "bench"


def run(url: str | None, folder: Path, *broken: str) -> Quarantine:
    """Make a run in which these nodes do not come up. Return its quarantine."""
    boards = BoardMemory(url, LAB, folder)
    boards.recall()
    quarantine = Quarantine(folder / QUARANTINE)
    for node in broken:
        quarantine.add(node, f"{node} does not boot")
    assert boards.remember(folder.name) == []
    return Quarantine(folder / QUARANTINE)


def test_another_run_skips_the_board_and_says_why(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    assert run(url, tmp_path / "one", "pi4b-2").reason("pi4b-1") is None
    reason = run(url, tmp_path / "two").reason("pi4b-2") or ""
    assert reason.startswith("out of service since ")
    assert reason.endswith("(run one): pi4b-2 does not boot; when it is well, 'pinet doctor --clear' puts it back")
    # A run that skips a board remembers nothing new of it.
    with open_history(url) as store:
        assert [board.run for board in store.out_of_service(LAB)] == ["one"]


def test_the_doctor_shows_and_clears_boards_of_its_lab(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    run(url, tmp_path / "one", "pi4b-2", "pi4b-3")
    found = memory.remembered(url, LAB, {"pi4b-1", "pi4b-2"})
    assert [(one.node, one.status) for one in found] == [("pi4b-2", Status.WRONG)]
    assert memory.remembered(url, "other lab", {"pi4b-2"}) == []
    assert memory.clear(url, LAB, {"pi4b-1", "pi4b-2"}) == ["pi4b-2"]
    assert run(url, tmp_path / "two").reason("pi4b-2") is None
    assert run(url, tmp_path / "three").reason("pi4b-3") is not None


def test_after_a_day_a_run_tries_the_board_again(tmp_path: Path) -> None:
    url = str(tmp_path / "h.db")
    old = OutOfService("pi4b-2", datetime.now(UTC) - HOLDS - timedelta(minutes=1), "old", "no login")
    with open_history(url, create=True) as store:
        store.put_out_of_service(LAB, [old])
    assert run(url, tmp_path / "one").reason("pi4b-2") is None
    run(url, tmp_path / "two", "pi4b-2")
    assert run(url, tmp_path / "three").reason("pi4b-2") is not None


@pytest.mark.parametrize("url", [None, "off"])
def test_without_a_history_a_run_remembers_nothing(url: str | None, tmp_path: Path) -> None:
    assert run(url, tmp_path / "one", "pi4b-2").reason("pi4b-2") == "pi4b-2 does not boot"
    assert run(url, tmp_path / "two").reason("pi4b-2") is None
    assert memory.remembered("off", LAB, {"pi4b-2"}) == []


def test_a_history_that_cannot_be_read_is_no_trouble_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "h.db").write_text("no database", encoding="utf-8")
    boards = BoardMemory(str(tmp_path / "h.db"), LAB, tmp_path / "one")
    boards.recall()
    Quarantine(tmp_path / "one" / QUARANTINE).add("pi4b-2", "no login")
    (message,) = boards.remember("one")
    assert message.startswith("boards out of service are not remembered: history ")
