"""Stores points and finds them again."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.database import Database
from pytest_pinet.history.points import Figure, Point, StoredRun
from pytest_pinet.history.rows import context_of, figure_of, point_of, point_row, run_of, run_row

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_CACHED = 10_000


class HistoryStore:
    """The only code that reads and writes the tables. Every method raises ConfigError if the database fails."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._contexts: dict[int, Mapping[str, Any]] = {}
        self._runs: dict[int, Any] = {}
        self._series: dict[tuple[str, str], int] = {}
        self._digests: dict[str, int] = {}

    @classmethod
    def open(cls, url: str, create: bool = False) -> HistoryStore:
        """See `Database.open`."""
        return cls(Database.open(url, create))

    @property
    def shown(self) -> str:
        return self._database.shown

    def close(self) -> None:
        self._database.close()

    # -- writing --------------------------------------------------------------------------------------------------

    def add(self, run: StoredRun, points: Sequence[Point]) -> bool:
        """Store a run with its points. Return False, and change nothing, if it is stored already."""
        return self.add_all([(run, points)]) == 1

    def add_all(self, runs: Iterable[tuple[StoredRun, Sequence[Point]]]) -> int:
        """Store several runs in one transaction. Return how many were new."""
        from sqlalchemy import insert

        from pytest_pinet.history.tables import POINTS

        added = 0
        series, digests = dict(self._series), dict(self._digests)
        with self._database.writing() as connection:
            rows: list[dict[str, Any]] = []
            for run, points in runs:
                key = _add_run(connection, run)
                if key is None:
                    continue
                added += 1
                contexts = [context_of(point) for point in points]
                keys = [hashlib.sha256(content.encode()).hexdigest() for content in contexts]
                _make_series(connection, points, series)
                _make_contexts(connection, dict(zip(keys, contexts, strict=True)), digests)
                rows += [
                    point_row(point, key, series[point.figure, point.lab], digests[digest])
                    for point, digest in zip(points, keys, strict=True)
                ]
            if rows:
                rows.sort(key=lambda row: (row["series"], row["time"]))
                connection.execute(insert(POINTS), rows)
                _count(connection, rows)
        # Remember the new keys only now: a failed transaction has removed its keys again.
        self._series, self._digests = series, digests
        return added

    # -- reading --------------------------------------------------------------------------------------------------

    def lab_of(self, figure: str) -> str | None:
        """Return the lab that measured this metric last."""
        from sqlalchemy import select

        from pytest_pinet.history.tables import SERIES

        query = select(SERIES.c.lab).where(SERIES.c.figure == figure).order_by(SERIES.c.newest.desc()).limit(1)
        with self._database.reading() as connection:
            return connection.execute(query).scalar()

    def points(self, figure: str, lab: str, last: int) -> list[Point]:
        """Return the last points of a metric, oldest first."""
        from sqlalchemy import select

        from pytest_pinet.history.tables import SERIES

        with self._database.reading() as connection:
            of = select(SERIES).where(SERIES.c.figure == figure, SERIES.c.lab == lab)
            series = connection.execute(of).one_or_none()
            return [] if series is None else self._newest(connection, series, last)

    def latest(self, last: int, lab: str | None = None) -> Iterator[tuple[Figure, list[Point]]]:
        """Yield the last points of every metric, by metric, for a dashboard."""
        from sqlalchemy import select

        from pytest_pinet.history.tables import SERIES

        query = select(SERIES).where(SERIES.c.points > 0).order_by(SERIES.c.figure, SERIES.c.lab)
        if lab is not None:
            query = query.where(SERIES.c.lab == lab)
        with self._database.reading() as connection:
            found = connection.execute(query).all()
            if connection.dialect.name == "postgresql":
                # A server is further away than a file: one query instead of hundreds.
                newest = self._all_newest(connection, found, last, lab)
                yield from ((figure_of(series), newest[series.key]) for series in found)
                return
            for series in found:
                yield figure_of(series), self._newest(connection, series, last)

    def _all_newest(
        self, connection: Connection, series: Sequence[Any], last: int, lab: str | None
    ) -> dict[int, list[Point]]:
        from sqlalchemy import select, true

        from pytest_pinet.history.tables import POINTS, SERIES

        newest = select(POINTS).where(POINTS.c.series == SERIES.c.key)
        newest = newest.order_by(POINTS.c.time.desc(), POINTS.c.run.desc(), POINTS.c.number.desc()).limit(last)
        each = newest.correlate(SERIES).lateral()
        by_key: dict[int, Any] = {one.key: one for one in series}
        query = select(each).select_from(SERIES.join(each, true())).order_by(each.c.time, each.c.run, each.c.number)
        if lab is not None:
            query = query.where(SERIES.c.lab == lab)
        # Another process may have added a metric meanwhile.
        rows = [row for row in connection.execute(query) if row.series in by_key]
        points: dict[int, list[Point]] = {key: [] for key in by_key}
        for row, point in zip(rows, self._points_of(connection, rows, by_key), strict=True):
            points[row.series].append(point)
        return points

    def _newest(self, connection: Connection, series: Any, last: int) -> list[Point]:
        from sqlalchemy import select

        from pytest_pinet.history.tables import POINTS

        newest = select(POINTS).where(POINTS.c.series == series.key)
        newest = newest.order_by(POINTS.c.time.desc(), POINTS.c.run.desc(), POINTS.c.number.desc()).limit(last)
        return self._points_of(connection, connection.execute(newest).all()[::-1], {series.key: series})

    def points_of(self, run: str) -> list[Point]:
        """Return all points of a run, by metric. Raises ConfigError if there is no such run."""
        from sqlalchemy import select

        from pytest_pinet.history.tables import POINTS, RUNS, SERIES

        with self._database.reading() as connection:
            found = connection.execute(select(RUNS).where(RUNS.c.id == run)).one_or_none()
            if found is None:
                raise ConfigError(f"history {self.shown} has no run {run!r}; 'pinet history --runs' lists them")
            rows = connection.execute(select(POINTS).where(POINTS.c.run == found.key)).all()
            keys = {row.series for row in rows}
            series: dict[int, Any] = {}
            for some in _portions(keys):
                series |= {one.key: one for one in connection.execute(select(SERIES).where(SERIES.c.key.in_(some)))}
            points = self._points_of(connection, rows, series)
        return sorted(points, key=lambda point: (point.figure, point.number))

    def figures(self, lab: str | None = None) -> list[Figure]:
        """Return all metrics by ID."""
        from sqlalchemy import select

        from pytest_pinet.history.tables import SERIES

        query = select(SERIES).where(SERIES.c.points > 0).order_by(SERIES.c.figure, SERIES.c.lab)
        if lab is not None:
            query = query.where(SERIES.c.lab == lab)
        with self._database.reading() as connection:
            return [figure_of(row) for row in connection.execute(query)]

    def runs(self, last: int | None = None, lab: str | None = None, start: str = "") -> list[StoredRun]:
        """Return the last runs, oldest first; of one lab, and with IDs that begin with ``start``."""
        from sqlalchemy import select

        from pytest_pinet.history.tables import RUNS

        query = select(RUNS).order_by(RUNS.c.started.desc(), RUNS.c.key.desc())
        if lab is not None:
            query = query.where(RUNS.c.lab == lab)
        if start:
            query = query.where(RUNS.c.id.startswith(start, autoescape=True))
        if last is not None:
            query = query.limit(last)
        with self._database.reading() as connection:
            return [run_of(row) for row in connection.execute(query)][::-1]

    def everything(self) -> Iterator[tuple[StoredRun, list[Point]]]:
        """Yield all runs with their points, oldest first."""
        for run in self.runs():
            yield run, self.points_of(run.id)

    def _points_of(self, connection: Connection, rows: Sequence[Any], series: Mapping[int, Any]) -> list[Point]:
        from sqlalchemy import select

        from pytest_pinet.history.tables import CONTEXTS, RUNS

        # Stored contexts and runs never change.
        for kept in (self._contexts, self._runs):
            if len(kept) > _CACHED:
                kept.clear()
        for some in _portions({row.context for row in rows} - set(self._contexts)):
            query = select(CONTEXTS.c.key, CONTEXTS.c.content).where(CONTEXTS.c.key.in_(some))
            self._contexts |= {key: json.loads(content) for key, content in connection.execute(query)}
        for some in _portions({row.run for row in rows} - set(self._runs)):
            runs = connection.execute(select(RUNS).where(RUNS.c.key.in_(some)))
            self._runs |= {run.key: run for run in runs}
        return [point_of(row, self._runs[row.run], series[row.series], self._contexts[row.context]) for row in rows]


def _portions(keys: Iterable[int]) -> Iterator[list[int]]:
    """Yield the keys in portions that fit into one statement's parameters."""
    ordered = sorted(keys)
    for begin in range(0, len(ordered), 500):
        yield ordered[begin : begin + 500]


def _add_run(connection: Connection, run: StoredRun) -> int | None:
    from pytest_pinet.history.tables import RUNS

    statement = _insert(connection, RUNS).values(run_row(run)).on_conflict_do_nothing().returning(RUNS.c.key)
    key: int | None = connection.execute(statement).scalar()
    return key


def _make_series(connection: Connection, points: Sequence[Point], known: dict[tuple[str, str], int]) -> None:
    from sqlalchemy import select

    from pytest_pinet.history.tables import SERIES

    missing = {(p.figure, p.lab): p for p in points if (p.figure, p.lab) not in known}
    if not missing:
        return
    # Sorted, so that two writers never deadlock.
    rows = [
        {"figure": figure, "lab": lab, "combination": point.combination, "direction": point.direction}
        | {"points": 0, "newest": 0}
        for (figure, lab), point in sorted(missing.items())
    ]
    connection.execute(_insert(connection, SERIES).on_conflict_do_nothing(), rows)
    for lab in {lab for _, lab in missing}:
        found = connection.execute(select(SERIES.c.key, SERIES.c.figure).where(SERIES.c.lab == lab))
        known.update({(figure, lab): key for key, figure in found})


def _count(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    from sqlalchemy import bindparam, case

    from pytest_pinet.history.tables import SERIES

    counts = Counter(row["series"] for row in rows)
    newest = {row["series"]: row["time"] for row in rows}  # the rows are sorted by time
    then: Any = bindparam("then")
    statement = (
        SERIES.update()
        .where(SERIES.c.key == bindparam("of"))
        .values(
            points=SERIES.c.points + bindparam("more"),
            newest=case((SERIES.c.newest < then, then), else_=SERIES.c.newest),
        )
    )
    connection.execute(statement, [{"of": key, "more": counts[key], "then": newest[key]} for key in sorted(counts)])


def _make_contexts(connection: Connection, contents: Mapping[str, str], known: dict[str, int]) -> None:
    from sqlalchemy import select

    from pytest_pinet.history.tables import CONTEXTS

    missing = sorted(set(contents) - set(known))
    if not missing:
        return
    rows = [{"digest": digest, "content": contents[digest]} for digest in missing]
    connection.execute(_insert(connection, CONTEXTS).on_conflict_do_nothing(), rows)
    for begin in range(0, len(missing), 500):
        some = missing[begin : begin + 500]
        found = connection.execute(select(CONTEXTS.c.digest, CONTEXTS.c.key).where(CONTEXTS.c.digest.in_(some)))
        known.update((digest, key) for digest, key in found)


def _insert(connection: Connection, table: Table) -> Any:
    """Both databases support ``on conflict``, each in its own dialect."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
