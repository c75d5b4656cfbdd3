"""Reads the newest points of all metrics, for reports: fast, because only the newest point has all details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from sqlalchemy import Connection, Row, Table, and_, select

from pytest_pinet.history.packed import AT_ONCE, VERDICTS, Columns, newest_columns
from pytest_pinet.history.points import Column, Figure, Point, Points, T
from pytest_pinet.history.tables import (
    CONTEXTS,
    POINTS,
    RUNS,
    SERIES,
    details_of,
    figure_of,
    in_pieces,
    is_since,
    known_verdict,
    parse_context,
    time_of,
)
from pytest_pinet.model.verdict import GOOD, Verdict

_OF_RUN = ("id", "session", "emulated", "complete", "folder", "pinet")
_NAMES_OF_RUN = frozenset(("run", *_OF_RUN[1:]))
_OF_CONTEXT = frozenset(("build", "serials", "versions", "settings", "parameters", "rule"))
# All fields with their defaults.
_BLANK = vars(Point("", time_of(0), "", "", "", "", None, Verdict.ERROR))
# By the number of a packed verdict, which is one byte. Verdicts that only a newer release knows are errors here.
_VERDICTS = (*VERDICTS, *(256 - len(VERDICTS)) * (Verdict.ERROR,))
_BAD = frozenset(code for code, verdict in enumerate(_VERDICTS) if verdict not in GOOD)
_RATES = {"goodput_bps": 4, "limit_bps": 7, "oracle_bps": 8}


class SharedRows:
    """Rows of a table to which points refer, by key."""

    def __init__(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        self._rows = rows
        self._columns: dict[str, Mapping[int, Any]] = {}

    def __getitem__(self, key: int) -> Mapping[str, Any]:
        return self._rows[key]

    def column(self, name: str) -> Mapping[int, Any]:
        """Return a field of all rows, by key."""
        if name not in self._columns:
            self._columns[name] = {key: row.get(name, _BLANK[name]) for key, row in self._rows.items()}
        return self._columns[name]


class PackedPoints(Points):
    """The newest points of one metric. A point is made when it is used, a column without points.

    All but the newest point lack what is only known of a single measurement: connections, spread, artefacts, boot,
    bottleneck, values of exact boards, and the reason of a good verdict.
    """

    def __init__(
        self,
        columns: Columns,
        shared: Mapping[str, Any],
        contexts: SharedRows,
        runs: SharedRows,
        reasons: Mapping[int, str],
        newest: Mapping[str, Any],
    ) -> None:
        self._columns, self._shared, self._contexts, self._runs = columns, shared, contexts, runs
        # By place.
        self._reasons, self._newest = reasons, newest
        self._made: dict[str, Sequence[Any]] = {}
        self._points: dict[int, Point] = {}

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, place: int) -> Point: ...

    @overload
    def __getitem__(self, place: slice) -> list[Point]: ...

    def __getitem__(self, place: int | slice) -> Point | list[Point]:
        if isinstance(place, slice):
            return [self._point(number) for number in range(len(self))[place]]
        return self._point(range(len(self))[place])

    def __iter__(self) -> Iterator[Point]:
        return map(self._point, range(len(self)))

    def column(self, of: Column[T]) -> Sequence[T]:
        """See `Points.column`."""
        return self._values(of.name)

    def _values(self, name: str) -> Sequence[Any]:
        if name not in self._made:
            self._made[name] = self._column(name)
        return self._made[name]

    def _column(self, name: str) -> Sequence[Any]:
        own = self._columns
        if name in _RATES:
            return [None if bps != bps else bps for bps in own[_RATES[name]]]
        if name == "interval_bps":
            return [None if low != low else (low, high) for low, high in zip(own[5], own[6], strict=True)]
        if name == "time":
            return list(map(time_of, own[0]))
        if name == "verdict":
            return [_VERDICTS[code] for code in own[10]]
        if name == "scale":
            return own[9]
        if name == "reason":
            return [self._reasons.get(place, "") for place in range(len(self))]
        if name not in _OF_CONTEXT | _NAMES_OF_RUN:
            return [getattr(point, name) for point in self]
        keys, of = (own[2], self._contexts) if name in _OF_CONTEXT else (own[1], self._runs)
        return list(map(of.column(name).__getitem__, keys))

    def _point(self, place: int) -> Point:
        if place in self._points:
            return self._points[place]
        time, run, context, number, *_ = [column[place] for column in self._columns]
        values = {**self._shared, **self._contexts[context], **self._runs[run], "time": time_of(time)}
        values["number"] = number
        for name in (*_RATES, "interval_bps", "verdict", "scale", "reason"):
            values[name] = self._values(name)[place]
        if place == len(self) - 1:
            values |= self._newest
        # Many times faster than the constructor of a frozen dataclass.
        point = object.__new__(Point)
        object.__setattr__(point, "__dict__", values)
        self._points[place] = point
        return point


def newest_points(
    connection: Connection, series: Sequence[Row[Any]], last: int
) -> Iterator[tuple[Figure, PackedPoints]]:
    """Yield the last points of these rows of SERIES, oldest first."""
    columns = newest_columns(connection, [one.key for one in series], last)
    runs = SharedRows({k: {"run": own.pop("id"), **own} for k, own in _rows(connection, RUNS, _OF_RUN, columns, 1)})
    texts = _rows(connection, CONTEXTS, ("content",), columns, 2)
    contexts = SharedRows({key: parse_context(own["content"]) for key, own in texts})
    newest, reasons = _newest(connection, columns), _reasons(connection, columns)
    for one in series:
        if one.key in columns:
            shared = _BLANK | {name: getattr(one, name) for name in ("lab", "figure", "combination", "direction")}
            own = columns[one.key], shared, contexts, runs, reasons[one.key], newest[one.key]
            yield figure_of(one), PackedPoints(*own)


def _rows(
    connection: Connection, table: Table, names: Sequence[str], columns: Mapping[int, Columns], place: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a table whose keys stand in this column of the points."""
    keys = sorted(set().union(*(own[place] for own in columns.values())))
    query = select(table.c.key, *(table.c[name] for name in names))
    for some in in_pieces(keys):
        for key, *own in connection.execute(query.where(table.c.key.in_(some))):
            yield key, dict(zip(names, own, strict=True))


def _newest(connection: Connection, columns: Mapping[int, Columns]) -> dict[int, dict[str, Any]]:
    """Return what only the newest point of each series has."""
    of = POINTS.c
    query = select(of.series, of.run, of.number, of.verdict, of.reason, of.more).select_from(SERIES)
    query = query.join(POINTS, and_(of.series == SERIES.c.key, of.time == SERIES.c.newest))
    found: dict[int, dict[str, Any]] = {}
    for some in in_pieces(list(columns)):
        for series, run, number, verdict, reason, more in connection.execute(query.where(SERIES.c.key.in_(some))):
            own = columns[series]
            if (own[1][-1], own[3][-1]) == (run, number):
                found[series] = {**details_of(more), "reason": known_verdict(verdict, reason)[1]}
    return found


def _reasons(connection: Connection, columns: Mapping[int, Columns]) -> dict[int, dict[int, str]]:
    """Return the reasons of the verdicts that are not good, by series and place."""
    bad = {
        series: {(own[1][place], own[3][place]): place for place, code in enumerate(own[10]) if code in _BAD}
        for series, own in columns.items()
    }
    of = POINTS.c
    query = select(of.series, of.run, of.number, of.verdict, of.reason).where(of.verdict.not_in(map(str, GOOD)))
    found: dict[int, dict[int, str]] = {series: {} for series in columns}
    for some in in_pieces([series for series, places in bad.items() if places], AT_ONCE):
        since = is_since({series: columns[series][0][0] for series in some})
        for series, run, number, verdict, reason in connection.execute(query.where(since)):
            if (place := bad[series].get((run, number))) is not None:
                found[series][place] = known_verdict(verdict, reason)[1]
    return found
