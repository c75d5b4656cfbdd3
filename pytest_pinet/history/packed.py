"""The points of each metric once more, as packed numbers: a report reads a few rows for each metric, not hundreds.

With them the history keeps the best level that each metric ever had. A runner of an earlier release does not write
here, but counts its points in ``pinet_series``: packed points of another number are stale. A reader ignores them, and
the next run of the metric packs all of its points again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    Table,
    and_,
    func,
    inspect,
    select,
)

from pytest_pinet.history.levels import LEAST_RUNS
from pytest_pinet.history.tables import METADATA, NEWEST, POINTS, SERIES, in_pieces, insert_into, scale_of
from pytest_pinet.history.trends import COUNTED
from pytest_pinet.model.verdict import Verdict

# The numbers of a point: time, keys of run and context, number, goodput, low, high, limit, physical limit, scale,
# verdict. What is not known is not a number (NaN).
_RECORD = struct.Struct("<qqqI6dB")
# A part fits into a page of SQLite. Each run writes the newest part again.
_A_PART = 50
# Stored by their place: new verdicts belong to the end.
VERDICTS = tuple(map(Verdict, ("pass", "marginal", "improved", "fail", "inconclusive", "invalid", "error", "skipped")))
_CODES = {verdict.value: code for code, verdict in enumerate(VERDICTS)}
_COUNTED = frozenset(map(str, COUNTED))
# Runs whose mean is a level: it varies by 0.35 % on a link whose runs vary by 1 %.
_IN_A_ROW = 8
_UNKNOWN = math.nan

# A history of an earlier release lacks these tables; the next run makes them. ``points`` is the number of packed
# points; ``time``, ``run`` and ``number`` belong to the newest point. ``best`` is the best mean so far; ``runs`` and
# ``total`` are the number and the sum of the values since the last mean.
PACKED = Table(
    "pinet_packed",
    METADATA,
    Column("series", ForeignKey("pinet_series.key"), primary_key=True, autoincrement=False),
    Column("points", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("run", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("total", Float, nullable=False),
    Column("best", Float, nullable=False),
)
PARTS = Table(
    "pinet_packed_parts",
    METADATA,
    Column("series", ForeignKey("pinet_series.key"), primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)
_FRESH = and_(PACKED.c.series == SERIES.c.key, PACKED.c.points == SERIES.c.points)


class _Head(NamedTuple):
    """A row of PACKED without its series."""

    points: int = 0
    time: int = 0
    run: int = 0
    number: int = 0
    runs: int = 0
    total: float = 0.0
    best: float = 0.0


# The numbers of the points of one series, a column for each number of `_RECORD`.
Columns = Sequence[tuple[Any, ...]]


def has_packed(connection: Connection) -> bool:
    """Return whether this history has packed points."""
    return inspect(connection).has_table(PARTS.name)


def newest_columns(connection: Connection, keys: Sequence[int], last: int) -> dict[int, Columns]:
    """Return the newest ``last`` points of each of these series that has points, oldest first."""
    found: dict[int, Columns] = {}
    if has_packed(connection):
        # One statement, so that no writer comes between its parts.
        needed = and_(PARTS.c.series == PACKED.c.series, PARTS.c.part >= (PACKED.c.points - last) // _A_PART)
        query = select(PARTS.c.series, PARTS.c.content).select_from(SERIES).join(PACKED, _FRESH).join(PARTS, needed)
        for some in in_pieces(keys):
            rows = connection.execute(query.where(SERIES.c.key.in_(some)).order_by(PARTS.c.series, PARTS.c.part))
            for series, parts in groupby(rows, key=lambda row: row[0]):
                content = b"".join(part[1] for part in parts)
                found[series] = _columns(content[-last * _RECORD.size :])
    for key in keys:
        # The series has no packed points, or stale ones.
        if key not in found and (points := _points(connection, key, last)):
            found[key] = _columns(b"".join(map(_record, points)))
    return found


def _columns(content: bytes) -> Columns:
    return list(zip(*_RECORD.iter_unpack(content), strict=True))


def best_levels(connection: Connection) -> dict[tuple[str, str], float]:
    """Return the best mean goodput (bit/s) of a few runs in a row, by metric and lab."""
    best: dict[int, float] = {}
    if has_packed(connection):
        own = select(PACKED.c.series, PACKED.c.runs, PACKED.c.total, PACKED.c.best)
        known = connection.execute(own.select_from(SERIES).join(PACKED, _FRESH))
        best = {key: max(level, total / runs if runs >= LEAST_RUNS else 0.0) for key, runs, total, level in known}
    series = connection.execute(select(SERIES.c.key, SERIES.c.figure, SERIES.c.lab)).all()
    for some in in_pieces([key for key, _, _ in series if key not in best]):
        best |= _best_of_points(connection, some)
    return {(figure, lab): best[key] for key, figure, lab in series if best.get(key)}


def _best_of_points(connection: Connection, keys: Sequence[int]) -> dict[int, float]:
    """Return the best level of these series from their points, for a history without (fresh) packed points."""
    of = POINTS.c
    place = func.row_number().over(partition_by=of.series, order_by=(of.time, of.run, of.number)) - 1
    judged = of.series.in_(keys) & of.goodput.is_not(None) & of.verdict.in_(_COUNTED)
    runs = select(of.series, of.goodput, (place // _IN_A_ROW).label("part")).where(judged).subquery()
    means = select(runs.c.series, func.avg(runs.c.goodput).label("mean")).group_by(runs.c.series, runs.c.part)
    enough = means.having(func.count() >= LEAST_RUNS).subquery()
    best = select(enough.c.series, func.max(enough.c.mean)).group_by(enough.c.series)
    return {row[0]: row[1] for row in connection.execute(best)}


def pack(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    """Pack new rows of POINTS, which are stored and sorted by series and time. The caller has locked their series."""
    new: dict[int, list[Mapping[str, Any]]] = {
        key: list(own) for key, own in groupby(rows, key=lambda row: row["series"])
    }
    stored: dict[int, int] = {}
    heads: dict[int, _Head] = {}
    contents: dict[int, bytes] = {}
    for some in in_pieces(sorted(new)):
        counts = connection.execute(select(SERIES.c.key, SERIES.c.points).where(SERIES.c.key.in_(some)))
        stored.update((key, points) for key, points in counts)
        here = PACKED.c.series.in_(some)
        for key, *own in connection.execute(select(PACKED).where(here)):
            heads[key] = _Head(*own)
        newest = and_(PARTS.c.series == PACKED.c.series, PARTS.c.part == PACKED.c.points // _A_PART)
        partial = select(PARTS.c.series, PARTS.c.content).select_from(PACKED).join(PARTS, newest).where(here)
        contents.update((key, content) for key, content in connection.execute(partial))
    stale = [key for key, own in new.items() if not _continues(heads.get(key, _Head()), own, stored[key])]
    for key in stale:
        # A runner of an earlier release wrote points, or one of these is older than the newest.
        heads[key], contents[key] = _Head(), b""
        new[key] = _points(connection, key)
    packed: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for key, own in new.items():
        head = heads.get(key, _Head())
        content = contents.get(key, b"") + b"".join(map(_record, own))
        first, size = head.points // _A_PART, _A_PART * _RECORD.size
        parts += [
            {"series": key, "part": first + number, "content": content[begin : begin + size]}
            for number, begin in enumerate(range(0, len(content), size))
        ]
        packed.append({"series": key, **_with(head, own)._asdict()})
    for table, found, names in ((PACKED, packed, _Head._fields), (PARTS, parts, ("content",))):
        statement = insert_into(connection, table)
        values = {name: statement.excluded[name] for name in names}
        connection.execute(statement.on_conflict_do_update(index_elements=[*table.primary_key], set_=values), found)


def _continues(head: _Head, rows: Sequence[Mapping[str, Any]], stored: int) -> bool:
    """Return whether these points come after all others of their series, and the others are packed."""
    places = [_place(row) for row in rows]
    newest = head.time, head.run, head.number
    in_order = all(map(tuple.__lt__, places, places[1:])) and (not head.points or newest < places[0])
    return in_order and head.points + len(rows) == stored


def _points(connection: Connection, key: int, last: int | None = None) -> list[Mapping[str, Any]]:
    """Return the (newest) points of a series as rows of POINTS, oldest first."""
    rows = connection.execute(select(POINTS).where(POINTS.c.series == key).order_by(*NEWEST).limit(last)).all()
    return [row._asdict() for row in reversed(rows)]


def _place(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return row["time"], row["run"], row["number"]


def _record(row: Mapping[str, Any]) -> bytes:
    rates = [row[name] for name in ("goodput", "low", "high", "limit_bps", "oracle")]
    known = [_UNKNOWN if bps is None else bps for bps in rates]
    keys = row["time"], row["run"], row["context"], row["number"]
    return _RECORD.pack(*keys, *known, scale_of(row["more"]), _CODES[row["verdict"]])


def _with(head: _Head, rows: Sequence[Mapping[str, Any]]) -> _Head:
    """Return the head with these points."""
    runs, total, best = head.runs, head.total, head.best
    for row in rows:
        if row["goodput"] is not None and row["verdict"] in _COUNTED:
            runs, total = runs + 1, total + row["goodput"]
            if runs == _IN_A_ROW:
                runs, total, best = 0, 0.0, max(best, total / runs)
    return _Head(head.points + len(rows), *_place(rows[-1]), runs, total, best)
