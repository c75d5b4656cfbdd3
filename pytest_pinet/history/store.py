"""The store of all runs: what a report, a trend or a board's memory reads."""

from __future__ import annotations

import json
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, insert, select, tuple_

from pytest_pinet.config.baselines import Reviewed
from pytest_pinet.errors import ConfigError
from pytest_pinet.history.database import Database
from pytest_pinet.history.drift import Drift, SeriesCourse, course_of
from pytest_pinet.history.levels import LevelShift
from pytest_pinet.history.packed import Numbers, best_levels, newest_points, pack
from pytest_pinet.history.points import (
    LONG_LENGTH,
    USUAL_LENGTH,
    OutOfService,
    Point,
    PointList,
    Points,
    RememberedBoard,
    StoredMetric,
    StoredRun,
    Trend,
)
from pytest_pinet.history.tables import (
    BOARDS,
    CONTEXTS,
    COURSES,
    ENCODER,
    NEWEST,
    OF_SERIES,
    POINTS,
    RUNS,
    SERIES,
    context_row,
    insert_into,
    metric_of,
    point_row,
    points_of,
    run_of,
    run_row,
    select_points,
    text_of,
    value_of,
)
from pytest_pinet.history.trends import NOTHING, trend
from pytest_pinet.model.quantities import amount

# What the result of a search depends on.
_PACKAGE = Path(__file__).parents[1]
SOURCES = tuple(
    _PACKAGE / name for name in ("history/store.py", "history/drift.py", "history/levels.py", "judge/statistics.py")
)


class MetricCourses:
    """What the search for level changes found of one metric, so that a report searches only metrics with new runs.

    Each course is stored under a digest of its values and of the program that searched. A new run or a change of the
    search gives another digest, and the course is searched again. So a stored course is never wrong, only unused, and
    writers need not wait for each other. ``content`` is what is stored (empty: nothing).
    """

    def __init__(self, content: str = "") -> None:
        self._stored: Mapping[str, Any] = json.loads(content) if content else {}
        self._used: dict[str, Any] = {}

    def find(self, rates: Sequence[float], matters: float) -> SeriesCourse:
        """See `course_of`."""
        digest = blake2b(array("d", [matters, *rates]).tobytes(), digest_size=16, key=_program()).hexdigest()
        if digest in self._stored:
            self._used[digest] = self._stored[digest]
            return _unpacked(*self._stored[digest])
        found = course_of(rates, matters)
        self._used[digest] = _packed(found)
        return found

    @property
    def changed(self) -> bool:
        """Whether a search found a course that is not stored."""
        return not self._used.keys() <= self._stored.keys()

    @property
    def content(self) -> str:
        """The courses that were needed, to be stored."""
        return ENCODER.encode(self._used)


@cache
def _program() -> bytes:
    """Return a digest of the program that searches. A number of its version would be forgotten one day."""
    return blake2b(b"".join(path.read_bytes() for path in SOURCES), digest_size=16).digest()


def _packed(found: SeriesCourse) -> list[Any]:
    drift = found.drift
    return [
        [[one.at, one.first, one.last, one.size] for one in found.shifts],
        None if drift is None else [drift.begin, drift.end, drift.size],
        # A level is the same for many runs.
        [[len(list(equal)), level] for level, equal in groupby(found.levels)],
    ]


def _unpacked(
    shifts: Sequence[tuple[int, int, int, float]],
    drift: tuple[int, int, float] | None,
    levels: Sequence[tuple[int, float]],
) -> SeriesCourse:
    whole = chain.from_iterable(repeat(level, times) for times, level in levels)
    return SeriesCourse(
        tuple(LevelShift(*one) for one in shifts), None if drift is None else Drift(*drift), tuple(whole)
    )


def stored_courses(connection: Connection, last: int) -> dict[tuple[str, str], str]:
    """Return the stored courses among the newest ``last`` points, by metric and lab."""
    query = select(SERIES.c.figure, SERIES.c.lab, COURSES.c.content).join(COURSES, COURSES.c.series == SERIES.c.key)
    return {(figure, lab): content for figure, lab, content in connection.execute(query.where(COURSES.c.last == last))}


def store_courses(connection: Connection, last: int, found: Mapping[tuple[str, str], str]) -> None:
    """Store courses by metric and lab, in place of what was stored of these metrics."""
    series = connection.execute(select(SERIES.c.key, SERIES.c.figure, SERIES.c.lab).order_by(SERIES.c.key))
    # Sorted, so that two writers never deadlock.
    rows = [
        {"series": key, "last": last, "content": found[figure, lab]}
        for key, figure, lab in series
        if (figure, lab) in found
    ]
    statement = insert_into(connection, COURSES)
    updated = statement.on_conflict_do_update(
        index_elements=[*COURSES.primary_key], set_={"content": statement.excluded.content}
    )
    connection.execute(updated, rows)


B = TypeVar("B", bound=RememberedBoard)
_POINTS = select_points()
# The lengths of trends whose courses are stored.
_KEPT = (USUAL_LENGTH, LONG_LENGTH)
# A reader that stores a course waits no longer for a writer.
_READER_WAITS_S = 1.0


class HistoryStore:
    """The only code that reads and writes the tables. Every method raises ConfigError if the database fails.

    Close it, or use it in a ``with``. ``reviewed`` is what users decided about the metrics of a lab.
    """

    def __init__(self, database: Database, reviewed: Reviewed = NOTHING) -> None:
        self._database = database
        self._reviewed = reviewed
        self._series: dict[tuple[str, ...], int] = {}
        self._contexts: dict[tuple[str, ...], int] = {}

    @classmethod
    def open(cls, url: str, create: bool = False, reviewed: Reviewed = NOTHING) -> HistoryStore:
        """See `Database.open`."""
        return cls(Database.open(url, create), reviewed)

    @property
    def shown(self) -> str:
        return self._database.shown

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing --------------------------------------------------------------------------------------------------

    def add(self, run: StoredRun, points: Sequence[Point]) -> bool:
        """Store a run with its points. Return False, and change nothing, if it is stored already."""
        return self.add_all([(run, points)]) == 1

    def add_all(self, runs: Iterable[tuple[StoredRun, Sequence[Point]]]) -> int:
        """Store several runs in one transaction. Return how many were new."""
        added = 0
        series, contexts = dict(self._series), dict(self._contexts)
        with self._database.writing() as connection:
            rows: list[tuple[int, Numbers, dict[str, Any]]] = []
            for run, points in runs:
                new_run = insert_into(connection, RUNS).values(run_row(run)).on_conflict_do_nothing()
                key = connection.execute(new_run.returning(RUNS.c.key)).scalar()
                if key is None:
                    continue
                added += 1
                shared = [context_row(point) for point in points]
                figures = [{name: getattr(point, name) for name in OF_SERIES} for point in points]
                _make_keys(connection, ("figure", "lab"), SERIES, figures, series)
                _make_keys(connection, ("digest",), CONTEXTS, shared, contexts)
                for point, context in zip(points, shared, strict=True):
                    own = series[point.figure, point.lab]
                    numbers = Numbers.of(point, key, contexts[context["digest"],])
                    rows.append((own, numbers, point_row(point, numbers.run, own, numbers.context)))
            if rows:
                rows.sort(key=lambda row: (row[0], row[1].place))
                connection.execute(insert(POINTS), [row for *_, row in rows])
                of_series = groupby(rows, key=lambda row: row[0])
                pack(connection, {key: [one for _, one, _ in own] for key, own in of_series})
        # Remember the new keys only now: a failed transaction has removed them again.
        self._series, self._contexts = series, contexts
        return added

    def remember(self, lab: str, boards: Sequence[RememberedBoard]) -> None:
        """Remember these boards of a lab; the newest reason of a board stays."""
        with self._database.writing() as connection:
            for one in boards:
                own = {"lab": lab, "node": one.node, "kind": type(one).__name__}
                record = {"record": text_of(one)}
                new = insert_into(connection, BOARDS).values(own | record)
                connection.execute(new.on_conflict_do_update(index_elements=[*own], set_=record))

    def put_into_service(self, lab: str, nodes: Iterable[str]) -> None:
        """Forget why these boards of a lab were out of service."""
        of, kind = BOARDS.c, OutOfService.__name__
        with self._database.writing() as connection:
            connection.execute(delete(BOARDS).where(of.lab == lab, of.kind == kind, of.node.in_(list(nodes))))

    # -- reading --------------------------------------------------------------------------------------------------

    def remembered(self, kind: type[B], lab: str) -> list[B]:
        """Return the boards of a lab that are remembered as this kind, by name: also suspicions that are cleared."""
        own = select(BOARDS.c.record).where(BOARDS.c.lab == lab, BOARDS.c.kind == kind.__name__)
        with self._database.reading() as connection:
            return [value_of(kind, text) for text in connection.execute(own.order_by(BOARDS.c.node)).scalars()]

    def trend(self, figure: str, last: int = USUAL_LENGTH, lab: str | None = None) -> Trend:
        """Return the last points of a metric with what users decided about it, and where its level moved.

        ``lab``: by default the lab that measured it last.
        """
        if lab is None:
            query = select(SERIES.c.lab).where(SERIES.c.figure == figure).order_by(SERIES.c.time.desc()).limit(1)
            with self._database.reading() as connection:
                lab = connection.execute(query).scalar()
        return trend(figure, lab or "", self.points(figure, lab or "", last), self._reviewed)

    def points(self, figure: str, lab: str, last: int) -> PointList:
        """Return the last points of a metric, oldest first."""
        with self._database.reading() as connection:
            query = _POINTS.where(SERIES.c.figure == figure, SERIES.c.lab == lab).order_by(*NEWEST).limit(last)
            return PointList(reversed(points_of(connection.execute(query))))

    def best_levels(self) -> dict[tuple[str, str], float]:
        """Return the best mean (as a rate: `Point.rate`) of a few runs in a row, by metric and lab.

        If this mean is no better than the present level, nothing was lost.
        """
        with self._database.reading() as connection:
            return best_levels(connection)

    def latest(
        self, last: int, lab: str | None = None, only: Container[tuple[str, str]] | None = None
    ) -> Iterator[tuple[StoredMetric, Points]]:
        """Yield the last points of every metric, by metric, for reports. See `PackedPoints` for what they lack.

        ``only``: of these metrics, each with its lab.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_all_series(lab)).all()
            wanted = rows if only is None else [row for row in rows if (row.figure, row.lab) in only]
            yield from newest_points(connection, wanted, last)

    def trends(
        self, last: int, lab: str | None = None, only: Container[tuple[str, str]] | None = None
    ) -> Iterator[tuple[str, Trend]]:
        """Yield the combination and the trend of every metric, with the points of `latest`.

        A metric below its baseline has complete points: whether that is a loss depends on the connections of each run.
        What the search for changes found is stored for the next reader.
        """
        with self._database.reading() as connection:
            stored = stored_courses(connection, last) if last in _KEPT else {}
        new: dict[tuple[str, str], str] = {}
        for figure, points in self.latest(last, lab, only):
            key = figure.id, figure.lab
            courses = MetricCourses(stored.get(key, ""))
            found = trend(*key, points, self._reviewed, find=courses.find)
            level = next((one for one in reversed(found.levels) if one is not None), None)
            rate = found.kind.rate
            if found.baseline is not None and level is not None and rate(level) < rate(amount(found.baseline.value)):
                found = trend(*key, self.points(*key, last), self._reviewed, find=courses.find)
            if courses.changed:
                new[key] = courses.content
            yield figure.combination, found
        if new and last in _KEPT:
            # A reader need not have the right to write. Without it, each reader searches.
            with suppress(ConfigError), self._database.writing(_READER_WAITS_S) as connection:
                store_courses(connection, last, new)

    def find_changes(self, only: Container[tuple[str, str]]) -> None:
        """Search these metrics, each with its lab, for level changes, so that reports need not do it."""
        trends = [found for _, found in self.trends(USUAL_LENGTH, only=only)]
        # Reports look for the begin of a loss in more points.
        moved = {(found.figure, found.lab) for found in trends if found.changes and len(found.points) == USUAL_LENGTH}
        for _ in self.trends(LONG_LENGTH, only=moved) if moved else ():
            pass

    def points_of(self, run: str) -> list[Point]:
        """Return all points of a run, by metric. Raises ConfigError if there is no such run."""
        with self._database.reading() as connection:
            key = connection.execute(select(RUNS.c.key).where(RUNS.c.id == run)).scalar()
            if key is None:
                raise ConfigError(f"history {self.shown} has no run {run!r}; 'pinet history --runs' lists them")
            points = points_of(connection.execute(_POINTS.where(POINTS.c.run == key)))
        return sorted(points, key=lambda point: (point.figure, point.number))

    def figures(self, lab: str | None = None) -> list[StoredMetric]:
        """Return all metrics by ID, of one lab or of all labs."""
        with self._database.reading() as connection:
            return [metric_of(row) for row in connection.execute(_all_series(lab))]

    def runs(self, last: int | None = None, lab: str | None = None, start: str = "") -> list[StoredRun]:
        """Return the last runs, oldest first; of one lab, and with IDs that begin with ``start``."""
        return self._runs(RUNS.c.id.startswith(start, autoescape=True), last, lab)

    def gates(self, last: int | None = None, lab: str | None = None) -> list[StoredRun]:
        """Return the last runs that gated a change, oldest first; of one lab."""
        return self._runs(RUNS.c.gated, last, lab)

    def _runs(self, condition: ColumnElement[bool], last: int | None, lab: str | None) -> list[StoredRun]:
        query = select(RUNS.c.record).where(condition).order_by(RUNS.c.started.desc(), RUNS.c.key.desc()).limit(last)
        if lab is not None:
            query = query.where(RUNS.c.lab == lab)
        with self._database.reading() as connection:
            records = connection.execute(query).scalars().all()
        return [run_of(record) for record in reversed(records)]

    def everything(self) -> Iterator[tuple[StoredRun, list[Point]]]:
        """Yield all runs with their points, oldest first."""
        for run in self.runs():
            yield run, self.points_of(run.id)


def _all_series(lab: str | None) -> Select[Any]:
    query = select(SERIES).where(SERIES.c.points > 0).order_by(SERIES.c.figure, SERIES.c.lab)
    return query if lab is None else query.where(SERIES.c.lab == lab)


def _make_keys(
    connection: Connection,
    names: tuple[str, ...],
    table: Table,
    rows: Iterable[dict[str, Any]],
    known: dict[tuple[str, ...], int],
) -> None:
    """Store the rows that are not known, and add their keys to ``known``, by their values in the columns ``names``."""
    wanted = {tuple(row[name] for name in names): row for row in rows}
    # Sorted, so that two writers never deadlock.
    missing = sorted(set(wanted) - set(known))
    if not missing:
        return
    connection.execute(insert_into(connection, table).on_conflict_do_nothing(), [wanted[one] for one in missing])
    columns = [table.c[name] for name in names]
    for begin in range(0, len(missing), 500):
        some = tuple_(*columns).in_(missing[begin : begin + 500])
        known.update({tuple(own): key for key, *own in connection.execute(select(table.c.key, *columns).where(some))})
