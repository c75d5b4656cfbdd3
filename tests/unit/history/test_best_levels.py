"""The best level of each metric is kept with every run, also in a history of an earlier release."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pytest_pinet.history.store import HistoryStore
from tests.support.history_records import FIGURE, day, kept

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


def test_a_history_of_an_earlier_release_gets_the_table_with_the_next_run(url: str) -> None:
    add(url, *[940] * 20, *[800] * 20)
    with sqlite3.connect(url) as connection:
        connection.execute("DROP TABLE pinet_best")
    assert best(url) == pytest.approx(940e6)
    add(url, 800, first=40)
    with sqlite3.connect(url) as connection:
        assert connection.execute("SELECT runs, total, best FROM pinet_best").fetchall() == [(1, 800e6, 940e6)]
    assert best(url) == pytest.approx(940e6)
