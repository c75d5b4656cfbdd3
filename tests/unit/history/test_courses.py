"""Level changes are searched once: a stored course equals a search, and is not used after any change."""

from __future__ import annotations

import ast
import random
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

import pytest_pinet
import pytest_pinet.history.store as history_store
from pytest_pinet.history.database import BUSY_S
from pytest_pinet.history.drift import course_of
from pytest_pinet.history.history import keep_run
from pytest_pinet.history.points import LONG_LENGTH, USUAL_LENGTH, PointList, Trend
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.history.trends import trend
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.trends import all_series
from tests.support.history_records import FIGURE, day, keep, with_result

OTHER = "pi5:onboard/pair"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "history.db")


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the number of values of each search."""
    found: list[int] = []
    search = course_of

    def count(rates: Sequence[float], matters: float) -> object:
        found.append(len(rates))
        return search(rates, matters)

    monkeypatch.setattr(history_store, "course_of", count)
    return found


def nights(count: int, combination: str = "pi4b:onboard/pair") -> list[RunRecord]:
    """Return runs that lose 5 % in the middle, with the noise of a link."""
    chance = random.Random(1)
    return [
        day(n, chance.gauss(941 if n < count // 2 else 894, 2), combination=combination).replace(
            run=f"{combination}-{n}", session=f"{combination}-{n}"
        )
        for n in range(count)
    ]


def read(url: str, last: int = USUAL_LENGTH) -> dict[str, Trend]:
    with HistoryStore.open(url) as store:
        return {found.figure: found for _, found in store.trends(last)}


def found_in(one: Trend) -> tuple[object, ...]:
    return one.changes, one.levels


def assert_it_is_what_a_search_finds(one: Trend) -> None:
    assert found_in(one) == found_in(trend(one.figure, one.lab, PointList(one.points)))


def test_only_a_metric_with_new_runs_is_searched_again(url: str, searched: list[int]) -> None:
    keep([*nights(30), *nights(40, OTHER)], url)
    first = read(url)
    assert sorted(searched) == [30, 40]
    assert len(first[FIGURE].changes) == 1
    again = read(url)
    assert len(searched) == 2
    assert {name: found_in(one) for name, one in first.items()} == {name: found_in(one) for name, one in again.items()}
    keep([day(30, 880)], url)
    for one in read(url).values():
        assert_it_is_what_a_search_finds(one)
    assert searched[2:] == [31]


def test_jumps_drifts_and_groups_are_stored_exactly(url: str, searched: list[int]) -> None:
    chance = random.Random(2)
    drifting = [day(n, 941 * (1 - 0.1 * min(max((n - 60) / 80, 0), 1)) + chance.gauss(0, 0.5)) for n in range(200)]
    others = [with_result(one, parameters="other") for one in nights(60)]
    later = [f"2027-06-{1 + n // 3:02}T0{n % 3}:00:00+00:00" for n in range(len(others))]
    keep([*drifting, *(with_result(one, started=at) for one, at in zip(others, later, strict=True))], url)
    stored = [read(url, LONG_LENGTH), read(url, LONG_LENGTH)][1][FIGURE]
    assert sorted(searched) == [60, 200]
    assert {change.gradual for change in stored.changes} == {True, False}
    assert_it_is_what_a_search_finds(stored)


def test_another_program_searches_again(url: str, searched: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    keep(nights(30), url)
    read(url)
    monkeypatch.setattr(history_store, "_program", lambda: b"another")
    read(url)
    assert searched == [30, 30]


def test_the_program_is_all_modules_that_the_search_imports() -> None:
    package = Path(pytest_pinet.__file__).parent
    for path in history_store.SOURCES:
        if path.name == "store.py":
            continue
        imported = [
            node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
        ]
        own = {package.parent.joinpath(*name.split(".")).with_suffix(".py") for name in imported if "pinet" in name}
        assert own <= {*history_store.SOURCES}, path
    assert len({path.read_bytes() for path in history_store.SOURCES}) == 4


def test_a_reader_that_may_not_write_searches_each_time(url: str, searched: list[int]) -> None:
    keep(nights(30), url)
    for _ in range(2):
        with HistoryStore.open(url) as store:
            event.listen(store._database._engine, "checkout", lambda own, *_: own.execute("PRAGMA query_only=1"))
            ((_, found),) = store.trends(USUAL_LENGTH)
        assert_it_is_what_a_search_finds(found)
    assert searched == [30, 30]


def test_a_reader_does_not_wait_for_a_long_import(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_store, "_READER_WAITS_S", 0.05)
    keep(nights(30), url)
    writer = sqlite3.connect(url, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    assert len(read(url)[FIGURE].changes) == 1
    assert time.monotonic() - began < BUSY_S / 2
    writer.close()


def test_after_a_run_a_report_searches_nothing(tmp_path: Path, url: str, searched: list[int]) -> None:
    """The second length is read for metrics that moved, because a loss may be older than the chart."""
    *before, newest = nights(USUAL_LENGTH + 10)
    keep(before, url)
    assert keep_run(url, newest, tmp_path) is None
    assert searched == [USUAL_LENGTH, USUAL_LENGTH + 10]
    with HistoryStore.open(url) as store:
        (series,) = all_series(store, USUAL_LENGTH)
    assert series.level.loss is not None
    assert len(searched) == 2


def test_a_length_that_reports_rarely_use_is_not_stored(url: str) -> None:
    keep(nights(30), url)
    for last in (7, 9, USUAL_LENGTH):
        read(url, last)
    with closing(sqlite3.connect(url)) as connection, connection:
        assert connection.execute("SELECT last FROM pinet_courses").fetchall() == [(USUAL_LENGTH,)]
