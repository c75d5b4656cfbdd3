"""Packed points and best levels equal the stored points."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from pytest_pinet.history.points import Column, Point, PointList
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.model.verdict import GOOD
from tests.support.history_records import FIGURE, day, kept, with_result
from tests.support.report_records import direction, result, run_record

KEY = (FIGURE, "virtual")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "history.db")


def best(url: str) -> float | None:
    with HistoryStore.open(url) as store:
        return store.best_levels().get(KEY)


def add(url: str, *mbps: float, verdict: str = "pass", first: int = 0) -> None:
    with HistoryStore.open(url, create=True) as store:
        for number, one in enumerate(mbps, first):
            store.add_all(kept([day(number, one, verdict)]))


def test_it_is_the_best_mean_of_eight_runs_and_stays_the_best(url: str) -> None:
    add(url, *[900] * 8, *[940] * 8, *[800] * 30)
    assert best(url) == pytest.approx(940e6)


def test_three_runs_are_a_level_and_two_are_not(url: str) -> None:
    add(url, 940, 942)
    assert best(url) is None
    add(url, 944, first=2)
    assert best(url) == pytest.approx(942e6)


def test_a_value_that_counts_for_no_level_counts_for_no_best_level(url: str) -> None:
    add(url, *[900] * 8)
    add(url, *[990] * 8, verdict="invalid", first=8)
    assert best(url) == pytest.approx(900e6)


def test_a_run_that_is_stored_already_counts_once(url: str) -> None:
    add(url, *[900] * 8, 940, 941)
    add(url, 941, first=9)
    assert best(url) == pytest.approx(900e6)


def packed(url: str) -> tuple[int, float]:
    """Return the number of the packed points and the best level that is stored beside them."""
    with closing(sqlite3.connect(url)) as connection, connection:
        found: tuple[int, float] = connection.execute("SELECT points, best FROM pinet_series").fetchone()
    return found


def values(points: Sequence[Point]) -> list[Point]:
    """Return the points without what a report does not need of them."""
    blank = {
        "connections": (),
        "state": "",
        "artefacts": (),
        "limited_by": "",
        "boot": "",
        "link_up": "",
    }
    good = {"reason": ""}
    return [replace(one, **blank, **(good if one.verdict in GOOD else {})) for one in points]  # type: ignore[arg-type]


def assert_reports_read_what_is_stored(url: str, *lengths: int) -> None:
    with HistoryStore.open(url) as store:
        for last in lengths:
            ((figure, points),) = store.latest(last)
            whole = store.points(FIGURE, figure.lab, last)
            assert len(points) == min(last, figure.points)
            assert values(points) == values(whole)
            assert points[-1] == whole[-1]


def test_a_run_that_is_older_than_the_newest_stands_at_its_place(url: str) -> None:
    add(url, *[900] * 55)
    add(url, *range(901, 905), first=60)
    add(url, 930, first=57)
    assert packed(url)[0] == 60
    assert_reports_read_what_is_stored(url, 4, 60)


@pytest.mark.parametrize("at_once", [1, 7, 130])
def test_reports_read_any_number_of_points_across_parts(url: str, at_once: int) -> None:
    nights = [
        with_result(
            day(number, 900 + number, "fail" if number % 7 == 3 else "pass", reason=f"reason {number}"),
            scale=0.5 if number % 5 == 1 else None,
        )
        for number in range(130)
    ]
    with HistoryStore.open(url, create=True) as store:
        for begin in range(0, len(nights), at_once):
            store.add_all(kept(nights[begin : begin + at_once]))
    assert_reports_read_what_is_stored(url, 1, 29, 30, 31, 79, 80, 81, 130, 500)


def test_a_point_without_a_value_limit_or_interval_lacks_them_when_packed(url: str) -> None:
    bare = result("pi4b:onboard/pair", {"tx": direction(9e8, None, "pass")}).replace(parameters="x")
    error = result("pi4b:onboard/pair", {}, "error", "no carrier")
    with HistoryStore.open(url, create=True) as store:
        store.add_all(kept([run_record([bare, error], run="night-0", session="a"), day(3)]))
        found = {figure.id: points for figure, points in store.latest(9)}
        assert found.keys() == {FIGURE, "pi4b:onboard/pair"}
        for figure, points in found.items():
            assert values(points) == values(store.points(figure, "virtual", 9))
    assert [found["pi4b:onboard/pair"][0].value, found[FIGURE][-1].limit] == [None, None]


def test_a_column_is_what_its_points_have(url: str) -> None:
    add(url, 900, 910, 920)
    with HistoryStore.open(url) as store:
        ((_, points),) = store.latest(9)
        for name in vars(points[0]):
            assert list(points.column(Column[object](name))) == PointList(points).column(Column(name)), name
    assert points[-2:] == [points[1], points[2]]


@contextmanager
def queries() -> Iterator[list[tuple[str, Any]]]:
    """Collect the queries of all stores, with their values."""
    found: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
        found.append((statement, values))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def whole_points(found: list[tuple[str, Any]]) -> int:
    """Return the number of queries for the records of stored points."""
    return sum("pinet_points.record" in one and one.startswith("SELECT") for one, _ in found)


def test_a_late_run_is_inserted_without_reading_the_stored_points(url: str) -> None:
    days = [number for number in range(120) if number not in (3, 49, 70)]
    with HistoryStore.open(url, create=True) as store:
        store.add_all(kept([day(number, 800 + number) for number in days]))
        with queries() as found:
            for late in (70, 3, 49):
                store.add_all(kept([day(late, 800 + late), day(late, 700).replace(session="b")]))
        store.add_all(kept([day(120)]))
    assert whole_points(found) == 0
    assert packed(url)[0] == 124
    assert_reports_read_what_is_stored(url, 1, 50, 51, 100, 121, 123, 124)


def test_the_reasons_of_a_rare_metric_need_no_old_points_of_others(url: str) -> None:
    often = [day(number, 900, "fail", reason=f"reason {number}") for number in range(40)]
    rare = day(0, 900, "fail", reason="rare", combination="pi4b:i226v/pair").replace(session="rare")
    with HistoryStore.open(url, create=True) as store:
        store.add_all(kept([*often, rare]))
        with queries() as found:
            reasons = {figure.id: [point.reason for point in points] for figure, points in store.latest(2)}
    assert reasons == {FIGURE: ["reason 38", "reason 39"], "pi4b:i226v/pair/tcp-P1-tx": ["rare"]}
    with closing(sqlite3.connect(url)) as connection, connection:
        read = [connection.execute(*one).fetchall() for one in found if "NOT IN" in one[0]]
    assert [len(rows) for rows in read] == [3]
