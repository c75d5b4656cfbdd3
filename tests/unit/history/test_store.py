"""The store of all runs, and half a year of it."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.differences import release_of
from pytest_pinet.history.history import MISSING, import_lines, import_results, keep_run, lines_of, open_history
from pytest_pinet.history.records import points_of
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.model.verdict import Verdict
from tests.support.half_year_history import DRIFT, NOISY, REGRESSIONS, RUNS, half_year, keep, kernel_of
from tests.support.history_records import FIGURE, day, kept, write_at_once
from tests.support.report_records import COMPARISON, NIGHT, NIGHT_SKIPPED, result, run_record


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HistoryStore]:
    opened = HistoryStore.open(str(tmp_path / "history.db"), create=True)
    yield opened
    opened.close()


def test_what_goes_in_comes_out(store: HistoryStore) -> None:
    run, points = points_of(run_record(NIGHT, NIGHT_SKIPPED), "/runs/x")
    assert store.add(run, points)
    assert store.points_of(run.id) == sorted(points, key=lambda point: point.figure)
    assert store.runs() == [run]


def test_a_run_is_kept_once(store: HistoryStore) -> None:
    run, points = points_of(run_record(NIGHT))
    assert store.add(run, points)
    before = store.figures()
    assert not store.add(run, points)
    assert store.figures() == before


def test_runs_of_the_same_name_are_different_runs(store: HistoryStore) -> None:
    mine, yours = day(1), day(1).replace(session="another")
    assert store.add_all(kept([mine, yours])) == 2
    (figure,) = store.figures()
    assert figure.points == 2


def test_a_result_without_a_metric_is_a_point_of_its_combination(store: HistoryStore) -> None:
    store.add_all(kept([run_record(NIGHT)]))
    (point,) = store.points("cm4:onboard/pair", "virtual", 10)
    assert point.value is None
    assert point.verdict is Verdict.ERROR
    assert point.reason.startswith("no carrier on eth0")


def test_each_direction_of_a_measurement_is_a_metric_of_its_own(store: HistoryStore) -> None:
    store.add_all(kept([run_record(NIGHT)]))
    ids = [figure.id for figure in store.figures()]
    assert "pi4b:onboard/pair/tcp-P1-bidir-tx" in ids
    assert "pi4b:onboard/pair/tcp-P1-bidir-rx" in ids
    assert len(ids) == len(set(ids)) == 13


def test_a_metric_that_was_measured_again_is_numbered(store: HistoryStore) -> None:
    again = day(1)
    store.add_all(kept([again.replace(results=again.results * 3)]))
    assert [point.number for point in store.points(FIGURE, "virtual", 10)] == [1, 2, 3]


def test_the_last_points_come_oldest_first(store: HistoryStore) -> None:
    store.add_all(kept([day(number, 900 + number) for number in (5, 1, 9, 3)]))
    assert [point.value for point in store.points(FIGURE, "virtual", 3)] == [903e6, 905e6, 909e6]
    assert [run.id.partition("-")[2][0] for run in store.runs(2)] == ["5", "9"]


def test_a_comparison_of_states_is_no_point_of_the_trend(store: HistoryStore) -> None:
    compared = day(1)
    store.add_all(kept([compared.replace(results=[compared.results[0].replace(comparison=COMPARISON)])]))
    assert store.figures() == []


def test_labs_are_kept_apart(store: HistoryStore) -> None:
    bench = day(2, 500).replace(lab="bench", figures="measured")
    store.add_all(kept([day(1), bench, day(3)]))
    assert [figure.lab for figure in store.figures()] == ["bench", "virtual"]
    last = store.trend(FIGURE)
    assert (last.lab, len(last.points)) == ("virtual", 2)
    (point,) = store.trend(FIGURE, lab="bench").points
    assert not point.emulated
    assert [run.id for run in store.runs(lab="bench")] == [point.run]


def test_text_that_no_database_takes_is_escaped(store: HistoryStore) -> None:
    broken = result("pi4b:onboard/pair", {}, "error", "console said \udcff and \x00")
    store.add_all(kept([run_record([broken])]))
    (point,) = store.points("pi4b:onboard/pair", "virtual", 1)
    assert point.reason == "console said \\udcff and \\x00"


def test_what_fails_half_way_leaves_nothing(store: HistoryStore) -> None:
    run, points = points_of(day(1))
    broken = replace(points[0], figure="pi4b:other/pair/tcp-P1-tx", verdict="unknown")  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        store.add(run, [*points, broken])
    assert store.runs() == []
    assert store.add(run, points)
    assert [figure.id for figure in store.figures()] == [FIGURE]


def exported() -> list[str]:
    """Return the lines of two runs."""
    runs = [day(1), run_record(NIGHT, NIGHT_SKIPPED)]
    return list(lines_of((run, sorted(points, key=lambda point: point.figure)) for run, points in kept(runs)))


def test_an_export_is_imported_once(store: HistoryStore) -> None:
    lines = exported()
    assert import_lines(store, lines, "all.jsonl", pytest.fail) == (2, 2)
    assert import_lines(store, lines, "all.jsonl", pytest.fail) == (0, 2)
    assert [json.loads(line) for line in lines_of(store.everything())] == [json.loads(line) for line in lines]


def test_times_without_a_zone_are_utc(store: HistoryStore) -> None:
    lines = [line.replace("+00:00", "").replace('Z"', '"') for line in exported()]
    assert import_lines(store, lines, "all.jsonl", pytest.fail) == (2, 2)
    points = [point for _, own in store.everything() for point in own]
    assert [point.time.utcoffset() for point in points] == [timedelta(0)] * len(points)


@pytest.mark.parametrize("create", [False, True])
def test_a_history_of_another_schema_ends_in_one_sentence(tmp_path: Path, create: bool) -> None:
    path = tmp_path / "other.db"
    HistoryStore.open(str(path), create=True).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE pinet_meta SET value = '1'")
    said = r"other\.db has format 1, but this pytest-pinet reads format 3; name another history, and import the "
    with pytest.raises(ConfigError, match=said):
        HistoryStore.open(str(path), create=create)


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    write_at_once(str(tmp_path / "shared.db"))


def test_a_reader_sees_the_last_state_during_a_write(store: HistoryStore, tmp_path: Path) -> None:
    store.add_all(kept([day(1)]))
    reader = HistoryStore.open(str(tmp_path / "history.db"))
    with store._database.writing():
        assert len(reader.runs()) == 1
    reader.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("missing.db", r"^there is no history missing\.db; run pytest with a lab"),
        ("folder", r"^history folder is a folder; expected a path such as '\.pinet/history\.db'"),
        ("text.db", r"^history text\.db: file is not a database; expected a path such as"),
        ("other.db", r"^other\.db is not a history of pytest-pinet; expected a file that a run has created$"),
        ("mysql://me:secret@host/x", r"^history: database 'mysql' is not supported; expected a path such as"),
        ("what://", r"^history: database 'what' is not supported; expected a path such as"),
        ("sqlite://", r"^history: a database in memory is lost when pytest ends; expected a path such as"),
        ("nonsense ://secret", r"^history: this is no URL; expected a path such as"),
    ],
)
def test_a_url_that_is_no_history_is_a_users_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("text.db").write_text("no database " * 100)
    sqlite3.connect("other.db").close()
    with pytest.raises(ConfigError, match=said) as caught:
        HistoryStore.open(url)
    assert "secret" not in str(caught.value)


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(ConfigError, match=r"^history postgresql\+psycopg://me:\*\*\*@127\.0\.0\.1:9/x: ") as caught:
        HistoryStore.open("postgresql://me:secret@127.0.0.1:9/x")
    assert "secret" not in str(caught.value)


def test_without_sqlalchemy_a_run_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.delitem(sys.modules, "pytest_pinet.history.store")
    said = keep_run(None, day(1), tmp_path / ".pinet" / "runs" / "r")
    assert said is not None
    assert said.splitlines()[0] == MISSING
    assert said.splitlines()[1].startswith("this run is not in the history; later: pinet history import ")


def test_a_run_is_kept_beside_the_run_folders(tmp_path: Path) -> None:
    folder = tmp_path / ".pinet" / "runs" / "r"
    assert keep_run(None, day(1), folder) is None
    with open_history(str(tmp_path / ".pinet" / "history.db")) as history:
        (run,) = history.runs()
    assert run.folder == str(folder)


@pytest.mark.parametrize("word", ["off", "none", " OFF "])
def test_history_can_be_off(tmp_path: Path, word: str) -> None:
    assert keep_run(word, day(1), tmp_path / "a" / "b" / "r") is None
    assert list(tmp_path.iterdir()) == []


def test_results_are_imported_with_their_folder(store: HistoryStore, tmp_path: Path) -> None:
    path = tmp_path / "night" / "results.json"
    path.parent.mkdir()
    path.write_text(json.dumps(day(1).dump()))
    assert import_results(store, path)
    assert not import_results(store, path)
    assert store.runs()[0].folder == str(path.parent)
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"results\.json is no JSON"):
        import_results(store, path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", r"^x:1: no heading; expected lines of 'pinet history export'$"),
        (
            '{"format":"pytest-pinet history","version":4}',
            r"^x:1: version 4, but pytest-pinet reads 3",
        ),
        ('{"format":"pytest-pinet history","version":3}\n{"point":{}}', "^x:2: a point comes before"),
        ('{"format":"pytest-pinet history","version":3}\n{"run":{}}', "^x:2: schema: Field required; expected lines"),
        ('{"format":"pytest-pinet history","version":3}\nwhat', "^x:2: Expecting value: "),
    ],
)
def test_lines_that_are_no_export_are_named(store: HistoryStore, text: str, said: str) -> None:
    refused: list[str] = []
    try:
        assert import_lines(store, text.splitlines(), "x", refused.append) == (0, 0)
    except ConfigError as error:
        refused.append(str(error))
    (sentence,) = refused
    assert re.search(said, sentence)


@pytest.mark.parametrize("number", [-1, 2**32])
def test_a_run_whose_point_has_an_impossible_number_is_left_out(store: HistoryStore, number: int) -> None:
    lines = [json.loads(line) for line in exported()]
    runs = [place for place, line in enumerate(lines) if "run" in line]
    lines[runs[1] - 1]["point"]["number"] = number
    refused: list[str] = []
    assert import_lines(store, map(json.dumps, lines), "x", refused.append) == (1, 1)
    (sentence,) = refused
    assert sentence.startswith(f"x:{runs[1]}: a point with the number {number}; expected lines")


def test_keys_of_later_versions_are_left_out(store: HistoryStore) -> None:
    lines = [json.loads(line) for line in exported()]
    for line in lines[1:]:
        next(iter(line.values()))["colour"] = "blue"
    assert import_lines(store, map(json.dumps, lines), "x", pytest.fail) == (2, 2)


@pytest.mark.parametrize(
    "seed", [1, 2, pytest.param(101, marks=pytest.mark.slow), pytest.param(102, marks=pytest.mark.slow)]
)
def test_planted_changes_are_named_at_their_builds_and_none_is_invented(tmp_path: Path, seed: int) -> None:
    url = str(tmp_path / "history.db")
    keep(half_year(seed), url)
    with open_history(url) as history:
        runs = [run.id for run in history.runs(RUNS)]
        trends = [history.trend(figure.id) for figure in history.figures() if figure.direction]
    assert len(runs) == RUNS
    assert len(trends) == 24
    steps = {
        (trend.figure, runs.index(change.run), release_of(change.build_after.get("uname")))
        for trend in trends
        for change in trend.changes
        if not change.gradual
    }
    assert steps == {(planted.figure, planted.at, planted.kernel) for planted in REGRESSIONS}
    for trend in trends:
        for change in trend.changes:
            if not change.gradual:
                (planted,) = (one for one in REGRESSIONS if one.figure == trend.figure)
                assert release_of(change.build_before.get("uname")) == kernel_of(planted.at - 1)
                assert change.relative == pytest.approx(planted.size, abs=0.01)
                assert change.differs == (f"kernel {kernel_of(planted.at - 1)} -> {planted.kernel}",)
    (drifting,) = (trend for trend in trends if any(change.gradual for change in trend.changes))
    assert drifting.figure == DRIFT[0]
    (drift,) = drifting.changes
    assert drift.relative == pytest.approx(DRIFT[3], abs=0.015)
    (noisy,) = (trend for trend in trends if trend.figure == NOISY[0])
    assert noisy.changes == ()
