"""The points of each metric once more, as packed numbers: a report reads a few rows for each metric, not hundreds.

With them the history keeps the best level that each metric ever had. A runner of an earlier release does not write
here, but counts its points in ``pinet_series``: packed points of another number are stale. A reader ignores them, and
the next run of the metric packs all of its points again. A run that is older than the newest goes to its place.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    Table,
    and_,
    case,
    func,
    select,
)

from pytest_pinet.history.levels import LEAST_RUNS
from pytest_pinet.history.tables import (
    METADATA,
    POINTS,
    SERIES,
    has_table,
    in_pieces,
    insert_into,
    is_since,
    scale_of,
)
from pytest_pinet.history.trends import COUNTED
from pytest_pinet.model.verdict import Verdict

# The numbers of a point: time, keys of run and context, number, goodput, low, high, limit, physical limit, scale,
# verdict. What is not known is not a number (NaN).
_RECORD = struct.Struct("<qqqI6dB")
# The points of so many series are read at once: a database may send all of them before the first is used.
AT_ONCE = 50
# A part fits into a page of SQLite. Each run writes the newest part again.
_A_PART = 50
# Stored by their place: new verdicts belong to the end.
VERDICTS = tuple(map(Verdict, ("pass", "marginal", "improved", "fail", "inconclusive", "invalid", "error", "skipped")))
_CODES = {verdict.value: code for code, verdict in enumerate(VERDICTS)}
_ERROR = _CODES["error"]
_COUNTED = frozenset(map(str, COUNTED))
# Runs whose mean is a level: it varies by 0.35 % on a link whose runs vary by 1 %.
_IN_A_ROW = 8
_UNKNOWN = math.nan

# A history of an earlier release lacks these tables; the next writer makes them. ``points`` is the number of packed
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

    @property
    def place(self) -> tuple[int, int, int]:
        """The place of the newest point."""
        return self.time, self.run, self.number

    def with_points(self, rows: Sequence[Mapping[str, Any]]) -> _Head:
        """Return the head with these points. Points that come late count as if they were the newest."""
        runs, total, best = self.runs, self.total, self.best
        for row in rows:
            if row["goodput"] is not None and row["verdict"] in _COUNTED:
                runs, total = runs + 1, total + row["goodput"]
                if runs == _IN_A_ROW:
                    runs, total, best = 0, 0.0, max(best, total / runs)
        newest = _place(rows[-1]) if not self.points else max(self.place, _place(rows[-1]))
        return _Head(self.points + len(rows), *newest, runs, total, best)


# The numbers of the points of one series, a column for each number of `_RECORD`.
Columns = Sequence[tuple[Any, ...]]


def newest_columns(connection: Connection, keys: Sequence[int], last: int) -> dict[int, Columns]:
    """Return the newest ``last`` points of each of these series that has points, oldest first."""
    found: dict[int, Columns] = {}
    if has_table(connection, PARTS):
        # One statement, so that no writer comes between its parts.
        needed = and_(PARTS.c.series == PACKED.c.series, PARTS.c.part >= (PACKED.c.points - last) // _A_PART)
        query = select(PARTS.c.series, PARTS.c.content).select_from(SERIES).join(PACKED, _FRESH).join(PARTS, needed)
        for some in in_pieces(keys):
            rows = connection.execute(query.where(SERIES.c.key.in_(some)).order_by(PARTS.c.series, PARTS.c.part))
            for series, parts in groupby(rows, key=lambda row: row[0]):
                content = b"".join(part[1] for part in parts)
                found[series] = _columns(content[-last * _RECORD.size :])
    # The others have no packed points, or stale ones.
    for key, own in _stored(connection, [key for key in keys if key not in found], last):
        found[key] = _columns(b"".join(map(_record, own[-last:])))
    return found


def _columns(content: bytes) -> Columns:
    return list(zip(*_RECORD.iter_unpack(content), strict=True))


def best_levels(connection: Connection) -> dict[tuple[str, str], float]:
    """Return the best mean goodput (bit/s) of a few runs in a row, by metric and lab."""
    best: dict[int, float] = {}
    if has_table(connection, PACKED):
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


def pack(connection: Connection, rows: Iterable[Mapping[str, Any]], later: set[int] | None = None) -> None:
    """Pack new rows of POINTS, which are stored and sorted by series and time. The caller has locked their series.

    An import gives ``later``: it gets the series that would have to be packed again, for `pack_again` at its end.
    """
    new = {key: list(own) for key, own in groupby(rows, key=lambda row: row["series"])}
    stored: dict[int, int] = {}
    heads: dict[int, _Head] = {}
    contents: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for some in in_pieces(sorted(new)):
        counts = connection.execute(select(SERIES.c.key, SERIES.c.points).where(SERIES.c.key.in_(some)))
        stored.update((key, points) for key, points in counts)
        here = PACKED.c.series.in_(some)
        for key, *own in connection.execute(select(PACKED).where(here)):
            heads[key] = _Head(*own)
        since = min(new[key][0]["time"] for key in some)
        earlier = select(func.count()).where(POINTS.c.series == PACKED.c.series, POINTS.c.time < since)
        first = case((PACKED.c.time < since, PACKED.c.points), else_=earlier.scalar_subquery()) // _A_PART
        needed = and_(PARTS.c.series == PACKED.c.series, PARTS.c.part >= first)
        query = select(PARTS).select_from(PACKED).join(PARTS, needed).where(here).order_by(PARTS.c.part)
        for key, part, content in connection.execute(query):
            contents[key].append((part, content))
    stale: list[int] = []
    packed: list[tuple[int, _Head, int, bytes]] = []
    for key, own in new.items():
        head = heads.get(key, _Head())
        is_late = head.points > 0 and _place(own[0]) < head.place
        if head.points + len(own) != stored[key] or (is_late and later is not None):
            # A runner of an earlier release wrote points, or an import left some.
            stale.append(key)
            continue
        begin = contents[key][0][0] if contents[key] else head.points // _A_PART
        records = b"".join(content for _, content in contents[key]) + b"".join(map(_record, own))
        packed.append((key, head.with_points(own), begin, _in_order(records) if is_late else records))
    _store(connection, packed)
    if later is None:
        pack_again(connection, stale)
    else:
        later.update(stale)


def pack_again(connection: Connection, keys: Iterable[int]) -> None:
    """Pack all points of these series. A series with a verdict of a newer release stays stale."""
    for some in in_pieces(sorted(keys)):
        # Locked, in the order of all writers, so that no point comes meanwhile.
        connection.execute(select(SERIES.c.key).where(SERIES.c.key.in_(some)).order_by(SERIES.c.key).with_for_update())
        packed = [
            (key, _Head().with_points(own), 0, b"".join(map(_record, own)))
            for key, own in _stored(connection, some)
            if all(row["verdict"] in _CODES for row in own)
        ]
        _store(connection, packed)


def _store(connection: Connection, packed: Sequence[tuple[int, _Head, int, bytes]]) -> None:
    """Store series with their heads, and their records from a part on."""
    size = _A_PART * _RECORD.size
    heads = [{"series": key, **head._asdict()} for key, head, _, _ in packed]
    parts = [
        {"series": key, "part": part, "content": content[begin : begin + size]}
        for key, _, first, content in packed
        for part, begin in enumerate(range(0, len(content), size), first)
    ]
    for table, rows, names in ((PACKED, heads, _Head._fields), (PARTS, parts, ("content",))):
        statement = insert_into(connection, table)
        values = {name: statement.excluded[name] for name in names}
        updated = statement.on_conflict_do_update(index_elements=[*table.primary_key], set_=values)
        if rows:
            connection.execute(updated, rows)


def _in_order(content: bytes) -> bytes:
    """Return the records by time, run and number."""
    # Time, run and number, and with them the place in the content.
    places = [
        (time, run, number, index * _RECORD.size)
        for index, (time, run, _, number, *_) in enumerate(_RECORD.iter_unpack(content))
    ]
    return b"".join(content[begin : begin + _RECORD.size] for *_, begin in sorted(places))


def _stored(
    connection: Connection, keys: Sequence[int], last: int | None = None
) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Yield each of these series with (at least the newest ``last`` of) its rows of POINTS, oldest first."""
    own = select(POINTS.c.time).where(POINTS.c.series == SERIES.c.key).order_by(POINTS.c.time.desc())
    query = select(POINTS).order_by(*POINTS.primary_key)
    for some in in_pieces(keys, AT_ONCE):
        wanted: ColumnElement[bool] = POINTS.c.series.in_(some)
        if last is not None:
            # A comparison with the subquery itself is slow with PostgreSQL, which computes it for each point.
            oldest = func.coalesce(own.limit(1).offset(last - 1).scalar_subquery(), -(2**63))
            times = connection.execute(select(SERIES.c.key, oldest).where(SERIES.c.key.in_(some)))
            wanted = is_since({row[0]: row[1] for row in times})
        for key, rows in groupby(connection.execute(query.where(wanted)), key=lambda row: row.series):
            yield key, [row._asdict() for row in rows]


def _place(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return row["time"], row["run"], row["number"]


def _record(row: Mapping[str, Any]) -> bytes:
    rates = [row[name] for name in ("goodput", "low", "high", "limit_bps", "oracle")]
    known = [_UNKNOWN if bps is None else bps for bps in rates]
    keys = row["time"], row["run"], row["context"], row["number"]
    return _RECORD.pack(*keys, *known, scale_of(row["more"]), _CODES.get(row["verdict"], _ERROR))
