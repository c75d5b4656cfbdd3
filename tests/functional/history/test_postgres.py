"""The history on a real PostgreSQL server, which the tests start themselves on a loopback port."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pytest_pinet.doctor import examine
from pytest_pinet.doctor.bench import Status
from pytest_pinet.errors import ConfigError
from pytest_pinet.history import store as history_store
from pytest_pinet.history.boards import standing
from pytest_pinet.history.history import lines_of, open_history
from pytest_pinet.history.points import OutOfService, Suspicion, Trend
from pytest_pinet.history.records import points_of
from pytest_pinet.history.store import HistoryStore
from tests.support.console_blocks import blocks_of
from tests.support.gate_records import gated_run
from tests.support.history_records import FIGURE, day, kept, write_at_once
from tests.support.postgres_server import client, postgres_server
from tests.support.report_records import NIGHT, NIGHT_SKIPPED, result, run_record

pytestmark = pytest.mark.smoke
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """Yield the URL of a database without tables, and delete the test's tables afterwards."""
    yield server
    import psycopg

    with psycopg.connect(server.replace("postgresql+psycopg", "postgresql"), autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


def test_the_lines_of_the_page_make_a_database_that_a_plain_role_can_use(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL 15 lets no one but the owner make tables in the schema ``public``."""
    address = urlsplit(server)
    admin: dict[str, str] = {"PGHOST": str(address.hostname), "PGPORT": str(address.port), "PGUSER": "pinet"}
    page = ROOT / "docs" / "how-to" / "postgresql.md"
    lines = [words for block in blocks_of(page) for words in block.words if words[:3] == ["sudo", "-u", "postgres"]]
    commands = [[client(program), *options] for _, _, _, program, *options in lines]
    # The superuser of the test's server has the name of the page's role.
    commands = [[words[0], *(one.replace("pinet", "gates") for one in words[1:])] for words in commands]
    for words in commands:
        # Without a terminal, createuser reads the password from its input.
        environment = {**os.environ, **admin}
        subprocess.run(words, env=environment, input="p\np\n", text=True, check=True, start_new_session=True)
    (tmp_path / "pass").write_text("*:*:gates:gates:p\n")
    (tmp_path / "pass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))

    store = HistoryStore.open(server.replace("pinet@", "gates@").replace("/postgres", "/gates"), create=True)
    run, points = points_of(run_record(NIGHT, NIGHT_SKIPPED), "/runs/x")

    assert store.add(run, points)
    assert store.runs() == [run]
    store.close()


def test_a_role_that_may_make_no_tables_is_a_mistake_that_names_the_cure(server: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
        connection.execute("CREATE DATABASE elsewhere")
    address = server.replace("pinet@", "stranger@").replace("/postgres", "/elsewhere")

    with pytest.raises(ConfigError, match=r"permission denied for schema public, .*; make its user the owner"):
        HistoryStore.open(address, create=True).add(*points_of(run_record(NIGHT, NIGHT_SKIPPED), "/runs/x"))


def test_what_goes_in_comes_out(url: str) -> None:
    run, points = points_of(run_record(NIGHT, NIGHT_SKIPPED), "/runs/x")
    store = HistoryStore.open(url, create=True)
    assert store.add(run, points)
    assert not store.add(run, points)
    assert store.points_of(run.id) == sorted(points, key=lambda point: point.figure)
    assert store.runs() == [run]
    store.close()


def test_both_databases_export_the_same(url: str, tmp_path: Path) -> None:
    exports = []
    for target in (url, str(tmp_path / "history.db")):
        store = HistoryStore.open(target, create=True)
        broken = result("pi4b:onboard/pair", {}, "error", "console said \udcff and \x00")
        store.add_all(kept([*(day(number, 900 + number) for number in range(30)), run_record([broken])]))
        exports.append((list(lines_of(store.everything())), store.best_levels()))
        store.close()
    assert exports[0] == exports[1]
    # 924 to 929 Mbit/s, after three times 8 runs.
    assert exports[0][1][FIGURE, "virtual"] == pytest.approx(926.5e6)


def test_late_runs_are_read_at_their_place(url: str) -> None:
    days = [day(number, 900 + number, "pass" if number % 5 else "fail") for number in range(120)]
    with HistoryStore.open(url, create=True) as store:
        store.add_all(kept(days[:40] + days[41:]))
        store.add_all(kept(days[40:41]))
        store.add_all(kept([run_record(NIGHT)]))

        def runs(last: int) -> list[list[str]]:
            found = {figure.id: points for figure, points in store.latest(last)}[FIGURE]
            return [[one.run for one in points] for points in (found, store.points(FIGURE, "virtual", last))]

        packed = runs(200), runs(30)
        assert [len(own) for own in packed[0] + packed[1]] == [len(store.points(FIGURE, "virtual", 200))] * 2 + [30] * 2
        assert all(own[0] == own[1] for own in packed)


def test_a_trend_comes_from_the_server(url: str) -> None:
    store = HistoryStore.open(url, create=True)
    store.add_all(
        kept([day(number, 941 if number < 20 else 880, uname=f"Linux 6.12.{number // 20}") for number in range(40)])
    )
    store.close()
    with open_history(url) as history:
        trend = history.trend(FIGURE)
    (change,) = trend.changes
    store = HistoryStore.open(url)
    store.add_all(kept([run_record(NIGHT)]))
    seen = {figure.id: points for figure, points in store.latest(7)}
    assert {one: points[-1] for one, points in seen.items()} == {
        figure.id: store.points(figure.id, figure.lab, 7)[-1] for figure in store.figures()
    }
    assert len(seen[FIGURE]) == 7
    assert [figure.id for figure, _ in store.latest(7, "elsewhere")] == []
    store.close()
    assert change.differs == ("kernel 6.12.0 -> 6.12.1",)


def test_level_changes_are_stored_by_runners_and_used_by_a_reader_without_rights(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    with HistoryStore.open(url, create=True) as store:
        store.add_all(kept([day(number, 941 if number < 20 else 880) for number in range(40)]))

    def stored() -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM pinet_courses").fetchone()
            return int(row[0]) if row is not None else 0

    def read(target: str) -> list[Trend]:
        with open_history(target) as history:
            return [found for _, found in history.trends(200)]

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA public TO reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    without_rights = url.replace("pinet@", "reader@")
    (searched,) = read(without_rights)
    assert len(searched.changes) == 1
    assert stored() == 0
    with ThreadPoolExecutor(4) as readers:
        found = list(readers.map(read, [url] * 8))
    assert [one[0].changes for one in found] == [searched.changes] * 8
    assert stored() == 1
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    monkeypatch.setattr(history_store, "course_of", lambda *_: pytest.fail("it was searched again"))
    (used,) = read(without_rights)
    assert (used.changes, used.levels) == (searched.changes, searched.levels)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


def test_boards_are_remembered_for_all_runners_until_they_are_cleared(url: str) -> None:
    since = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
    with open_history(url, create=True) as runner:
        runner.remember("bench", [OutOfService("pi4b-2", since, "night-1", "no login")])
        runner.remember("bench", [Suspicion(node, since, "night-1", "it fails alone") for node in ("pi4b-3", "pi5-1")])
    shown = examine.remembered_boards(url, "bench", {"pi4b-2", "pi4b-3", "pi5-1"})
    assert [(one.node, one.status) for one in shown] == [
        ("pi4b-2", Status.WRONG),
        ("pi4b-3", Status.UNKNOWN),
        ("pi5-1", Status.UNKNOWN),
    ]
    assert examine.clear_boards(url, "bench", {"pi4b-2", "pi5-1"}) == [
        "pi4b-2 is back in service",
        "pi5-1 is no longer suspected",
    ]
    assert [one.node for one in examine.remembered_boards(url, "bench", {"pi4b-2", "pi4b-3", "pi5-1"})] == ["pi4b-3"]
    with open_history(url) as other:
        assert other.remembered(OutOfService, "bench") == []
        assert standing(other.remembered(Suspicion, "bench")).keys() == {"pi4b-3"}


def test_several_runners_write_at_once_into_tables_that_are_not_there_yet(url: str) -> None:
    write_at_once(url)


def test_gates_are_kept(url: str) -> None:
    runs = [gated_run(1), gated_run(2, "pass")]
    with open_history(url, create=True) as store:
        store.add_all(kept([day(0), *runs]))
        store.add_all(kept(runs[:1]))
    with open_history(url) as other:
        assert [run.change for run in other.gates()] == [run.change for run, _ in kept(runs)]
        assert [run.change is not None for run in other.runs()] == [False, True, True]
