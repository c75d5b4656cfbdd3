"""The fast reader of the newest points returns what the complete reader returns, without what it leaves out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_pinet.history.points import Attempts
from pytest_pinet.history.store import HistoryStore
from tests.support.history_records import FIGURE, day, kept


def test_points_equal_those_of_the_complete_reader_but_for_details_of_single_measurements(tmp_path: Path) -> None:
    store = HistoryStore.open(str(tmp_path / "history.db"), create=True)
    store.add_all(kept([day(number, 941 - number, uname=f"Linux 6.12.{number // 3}") for number in range(9)]))
    ((figure, points),) = store.latest(6)
    whole = store.points(FIGURE, figure.lab, 6)
    store.close()
    assert figure.points == 9
    assert points[-1] == whole[-1]
    assert len(points) == 6
    blank = {"attempts": Attempts(), "spread": None, "artefacts": (), "limited_by": "", "boot": "", "link_up": ""}
    assert points[:-1] == [replace(one, **blank) for one in whole[:-1]]  # type: ignore[arg-type]
