"""The points of each metric once more, as packed numbers: a report reads a few rows for each metric, not hundreds.

With them the history keeps the best level that each metric ever had. A run that is older than the newest goes to its
place.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Self, overload

from sqlalchemy import Connection, Row, Table, and_, bindparam, case, func, or_, select

from pytest_pinet.history.levels import LEAST_RUNS
from pytest_pinet.history.points import Column, Point, Points, StoredMetric, T
from pytest_pinet.history.tables import (
    CONTEXTS,
    OF_CONTEXT,
    OF_RUN,
    OF_SERIES,
    PARTS,
    POINTS,
    RUNS,
    SERIES,
    facts_of_run,
    in_pieces,
    insert_into,
    instant,
    metric_of,
    parse_context,
    point_of,
    time_of,
)
from pytest_pinet.history.trends import COUNTED
from pytest_pinet.model.verdict import GOOD, Verdict

# The reasons of so many series are read at once: a database may send all of them before the first is used.
_AT_ONCE = 50
# A part fits into a page of SQLite. Each run writes the newest part again.
_A_PART = 50
# Runs whose mean is a level: it varies by 0.35 % on a link whose runs vary by 1 %.
_IN_A_ROW = 8
# Stored by their place.
_VERDICTS = tuple(map(Verdict, ("pass", "marginal", "improved", "fail", "inconclusive", "invalid", "error", "skipped")))
_CODES = {verdict: code for code, verdict in enumerate(_VERDICTS)}
_BAD = frozenset(code for verdict, code in _CODES.items() if verdict not in GOOD)
# The fields of a point that are made from its numbers.
_MADE = ("time", "scale", "verdict", "reason", "value", "interval", "limit", "oracle")
_COUNTED = frozenset(_CODES[verdict] for verdict in COUNTED)


class Numbers(NamedTuple):
    """The numbers of a point; ``run`` and ``context`` are keys. What is not known is not a number (NaN)."""

    time: int
    run: int
    number: int
    context: int
    value: float
    low: float
    high: float
    limit: float
    oracle: float
    scale: float
    verdict: int

    @classmethod
    def of(cls, point: Point, run: int, context: int) -> Self:
        """Return the numbers of a point."""
        known = (point.value, *(point.interval or (None, None)), point.limit, point.oracle)
        values = [math.nan if one is None else one for one in known]
        place = (instant(point.time), run, point.number)
        return cls._make((*place, context, *values, point.scale, _CODES[point.verdict]))

    @property
    def place(self) -> tuple[int, int, int]:
        """The place among the points of its series."""
        return self.time, self.run, self.number


_RECORD = struct.Struct("<qqIq6dB")
# `Numbers` of a whole series: each field has the numbers of all points.
_Columns = Any


# -- writing ----------------------------------------------------------------------------------------------------------


def pack(connection: Connection, new: Mapping[int, Sequence[Numbers]]) -> None:
    """Add points, which are stored already, to their series. The points of a series are in their order."""
    for some in in_pieces(sorted(new)):
        # Locked in the order of all writers, so that they never deadlock, and no other point comes meanwhile.
        locked = select(SERIES).where(SERIES.c.key.in_(some)).order_by(SERIES.c.key).with_for_update(key_share=True)
        series = connection.execute(locked).all()
        late = {one.key for one in series if one.points and new[one.key][0].place < _newest_place(one)}
        stored = _parts_to_extend(connection, some, {key: new[key][0].time for key in late})
        parts = []
        for one in series:
            content = b"".join(stored[one.key].values()) + b"".join(_RECORD.pack(*own) for own in new[one.key])
            if one.key in late:
                content = b"".join(_RECORD.pack(*own) for own in sorted(_RECORD.iter_unpack(content)))
            size = _A_PART * _RECORD.size
            places = enumerate(range(0, len(content), size), min(stored[one.key], default=one.points // _A_PART))
            parts += [{"series": one.key, "part": part, "content": content[at : at + size]} for part, at in places]
        insert = insert_into(connection, PARTS)
        changed = {"content": insert.excluded.content}
        connection.execute(insert.on_conflict_do_update(index_elements=[*PARTS.primary_key], set_=changed), parts)
        heads = [{"of": one.key, **_head(one, new[one.key])} for one in series]
        update = SERIES.update().where(SERIES.c.key == bindparam("of"))
        connection.execute(update.values({name: bindparam(f"{name}_") for name in _HEAD}), heads)


def _newest_place(series: Row[Any]) -> tuple[int, int, int]:
    return series.time, series.run, series.number


def _parts_to_extend(
    connection: Connection, keys: Sequence[int], late: Mapping[int, int]
) -> Mapping[int, dict[int, bytes]]:
    """Return the newest part of each series if it is not full; of ``late`` series, all parts since these times."""
    earlier = select(func.count()).where(POINTS.c.series == SERIES.c.key, POINTS.c.time < min(late.values(), default=0))
    first = case((SERIES.c.key.in_(late), earlier.scalar_subquery()), else_=SERIES.c.points) // _A_PART
    needed = and_(PARTS.c.series == SERIES.c.key, PARTS.c.part >= first)
    query = select(PARTS).select_from(SERIES).join(PARTS, needed).where(SERIES.c.key.in_(keys)).order_by(PARTS.c.part)
    found: dict[int, dict[int, bytes]] = defaultdict(dict)
    for key, part, content in connection.execute(query):
        found[key][part] = content
    return found


_HEAD = ("points", "time", "run", "number", "runs", "total", "best")


def _head(series: Row[Any], new: Sequence[Numbers]) -> dict[str, float]:
    """Return what changes in a row of SERIES. For the best level, late points count as if they were the newest."""
    runs, total, best = series.runs, series.total, series.best
    for one in new:
        if one.verdict in _COUNTED and not math.isnan(one.value):
            runs, total = runs + 1, total + series.kind.rate(one.value)
            if runs == _IN_A_ROW:
                runs, total, best = 0, 0.0, max(best, total / runs)
    newest = max(_newest_place(series), new[-1].place) if series.points else new[-1].place
    values = (series.points + len(new), *newest, runs, total, best)
    return {f"{name}_": value for name, value in zip(_HEAD, values, strict=True)}


# -- reading ----------------------------------------------------------------------------------------------------------


def best_levels(connection: Connection) -> dict[tuple[str, str], float]:
    """Return the best mean (as a rate: `Point.rate`) of a few runs in a row, by metric and lab."""
    of = SERIES.c
    rows = connection.execute(select(of.figure, of.lab, of.runs, of.total, of.best))
    best = {(figure, lab): max(level, total / n if n >= LEAST_RUNS else 0.0) for figure, lab, n, total, level in rows}
    return {key: level for key, level in best.items() if level}


class _Shared:
    """Rows of another table to which points refer, by key."""

    def __init__(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        self.rows = rows
        self._columns: dict[str, Mapping[int, Any]] = {}

    def column(self, name: str) -> Mapping[int, Any]:
        """Return a field of all rows, by key."""
        if name not in self._columns:
            self._columns[name] = {key: row[name] for key, row in self.rows.items()}
        return self._columns[name]


class PackedPoints(Points):
    """The newest points of one metric. A point is made when it is used, a column without points.

    All but the newest point lack what is only known of a single measurement: connections, artefacts, boot,
    bottleneck, values of exact boards, and the reason of a good verdict.
    """

    def __init__(
        self,
        numbers: _Columns,
        figure: Mapping[str, Any],
        runs: _Shared,
        contexts: _Shared,
        reasons: Mapping[int, str],
        newest: str,
    ) -> None:
        """``reasons`` are by place. ``newest`` is the record of the newest point."""
        self._numbers = numbers
        self._figure, self._runs, self._contexts, self._reasons, self._newest = figure, runs, contexts, reasons, newest
        self._made: dict[str, Sequence[Any]] = {}
        self._points: dict[int, Point] = {}

    def __len__(self) -> int:
        return len(self._numbers.time)

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
        own = self._numbers
        rates = {"value": own.value, "limit": own.limit, "oracle": own.oracle}
        if name in rates:
            return [None if bps != bps else bps for bps in rates[name]]
        if name == "interval":
            return [None if low != low else (low, high) for low, high in zip(own.low, own.high, strict=True)]
        if name == "time":
            return list(map(time_of, own.time))
        if name == "verdict":
            return [_VERDICTS[code] for code in own.verdict]
        if name == "reason":
            return [self._reasons.get(place, "") for place in range(len(self))]
        if name == "scale":
            return list(own.scale)
        if name in OF_RUN:
            return list(map(self._runs.column(name).__getitem__, own.run))
        if name in OF_CONTEXT:
            return list(map(self._contexts.column(name).__getitem__, own.context))
        return [getattr(point, name) for point in self]

    def _point(self, place: int) -> Point:
        if place not in self._points:
            own = self._numbers
            values = {**self._figure, **self._runs.rows[own.run[place]], **self._contexts.rows[own.context[place]]}
            values |= {name: self._values(name)[place] for name in _MADE} | {"number": own.number[place]}
            is_newest = place == len(self) - 1
            self._points[place] = point_of(self._newest, **values) if is_newest else Point(**values)
        return self._points[place]


def newest_points(
    connection: Connection, series: Sequence[Row[Any]], last: int
) -> Iterator[tuple[StoredMetric, PackedPoints]]:
    """Yield the last points of these rows of SERIES, oldest first."""
    columns = _columns(connection, [one.key for one in series], last)
    runs = _shared(connection, RUNS, "record", facts_of_run, (own.run for own in columns.values()))
    contexts = _shared(connection, CONTEXTS, "content", parse_context, (own.context for own in columns.values()))
    newest, reasons = _newest(connection, list(columns)), _reasons(connection, columns)
    for one in series:
        if one.key in columns:
            figure = {name: getattr(one, name) for name in OF_SERIES}
            more = (reasons[one.key], newest[one.key])
            yield metric_of(one), PackedPoints(columns[one.key], figure, runs, contexts, *more)


def _columns(connection: Connection, keys: Sequence[int], last: int) -> dict[int, _Columns]:
    """Return the newest ``last`` points of each of these series, oldest first."""
    found: dict[int, _Columns] = {}
    # One statement, so that no writer comes between its parts.
    needed = and_(PARTS.c.series == SERIES.c.key, PARTS.c.part >= (SERIES.c.points - last) // _A_PART)
    query = select(PARTS.c.series, PARTS.c.content).select_from(SERIES).join(PARTS, needed)
    for some in in_pieces(keys):
        rows = connection.execute(query.where(SERIES.c.key.in_(some)).order_by(PARTS.c.series, PARTS.c.part))
        for series, parts in groupby(rows, key=lambda row: row.series):
            content = b"".join(part.content for part in parts)[-last * _RECORD.size :]
            found[series] = Numbers._make(zip(*_RECORD.iter_unpack(content), strict=True))
    return found


def _shared(
    connection: Connection,
    table: Table,
    name: str,
    read: Callable[[str], Mapping[str, Any]],
    keys: Iterable[Sequence[int]],
) -> _Shared:
    """Return the rows of a table with these keys: what ``read`` finds in the column ``name``."""
    found: dict[int, Mapping[str, Any]] = {}
    for some in in_pieces(sorted(set().union(*keys))):
        rows = connection.execute(select(table.c.key, table.c[name]).where(table.c.key.in_(some)))
        found |= {key: read(text) for key, text in rows}
    return _Shared(found)


def _newest(connection: Connection, keys: Sequence[int]) -> dict[int, str]:
    """Return the record of the newest point of each series."""
    places = ((SERIES.c[name], POINTS.c[name]) for name in ("time", "run", "number"))
    newest = and_(POINTS.c.series == SERIES.c.key, *(own == of for own, of in places))
    query = select(SERIES.c.key, POINTS.c.record).select_from(SERIES).join(POINTS, newest)
    found: dict[int, str] = {}
    for some in in_pieces(keys):
        rows = connection.execute(query.where(SERIES.c.key.in_(some)))
        found.update((key, record) for key, record in rows)
    return found


def _reasons(connection: Connection, columns: Mapping[int, _Columns]) -> dict[int, dict[int, str]]:
    """Return the reasons of the verdicts that are not good, by series and place."""
    bad = {
        series: {(own.run[at], own.number[at]): at for at, code in enumerate(own.verdict) if code in _BAD}
        for series, own in columns.items()
    }
    of = POINTS.c
    query = select(of.series, of.run, of.number, of.reason).where(of.verdict.not_in(map(str, GOOD)))
    found: dict[int, dict[int, str]] = {series: {} for series in columns}
    for some in in_pieces([series for series, places in bad.items() if places], _AT_ONCE):
        since = or_(*(and_(of.series == key, of.time >= columns[key].time[0]) for key in some))
        for series, run, number, reason in connection.execute(query.where(since)):
            if (place := bad[series].get((run, number))) is not None:
                found[series][place] = reason
    return found
