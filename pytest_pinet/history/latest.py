"""Reads the newest points of all metrics, for reports: fast, because only the newest point has all details."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, bindparam, select

from pytest_pinet.history.points import Figure, Point
from pytest_pinet.history.tables import (
    CONTEXTS,
    NEWEST,
    POINTS,
    RUNS,
    SERIES,
    details_of,
    figure_of,
    in_pieces,
    parse_context,
    time_of,
)
from pytest_pinet.model.verdict import Verdict

_COLUMNS = ("time", "number", "run", "context", "goodput", "low", "high", "limit_bps", "oracle", "verdict", "reason")
_OF_RUN = ("id", "session", "emulated", "complete", "folder", "pinet")
_SCALE = re.compile(r'"scale":([0-9.e-]+)')
_VERDICTS = {verdict.value: verdict for verdict in Verdict}
# All fields with their defaults.
_BLANK = vars(Point("", time_of(0), "", "", "", "", None, Verdict.ERROR))
# A server is further away than a file: one query instead of hundreds.
_AT_ONCE = ("postgresql",)


def newest_points(
    connection: Connection, series: Sequence[Row[Any]], last: int
) -> Iterator[tuple[Figure, list[Point]]]:
    """Yield the last points of these rows of SERIES, oldest first.

    All but the newest point lack what is only known of a single measurement: connections, spread, artefacts, boot,
    bottleneck, instructions.
    """
    runs: dict[int, dict[str, Any]] = {}
    contexts: dict[int, dict[str, Any]] = {}
    for one, rows in _rows(connection, series, last):
        for key, *values in _missing(connection, RUNS, _OF_RUN, {row[2] for row in rows}, runs):
            name, *rest = values
            runs[key] = {"run": name, **dict(zip(_OF_RUN[1:], rest, strict=True))}
        used = {row[3] for row in rows}
        for key, content in _missing(connection, CONTEXTS, ("content",), used, contexts):
            contexts[key] = parse_context(content)
        own = _BLANK | {name: getattr(one, name) for name in ("lab", "figure", "combination", "direction")}
        shared = {key: own | contexts[key] for key in used}
        points = [_point(row, shared[row[3]], runs[row[2]]) for row in rows]
        if points:
            # ``replace`` would be another call of the slow constructor for nothing.
            vars(points[0]).update(details_of(rows[0][11]))
        yield figure_of(one), points[::-1]


def _rows(
    connection: Connection, series: Sequence[Row[Any]], last: int
) -> Iterable[tuple[Row[Any], Sequence[Sequence[Any]]]]:
    """Return the newest rows of POINTS of each series, newest first."""
    wanted = _query(last).where(POINTS.c.series == bindparam("of"))
    if connection.dialect.name not in _AT_ONCE:
        return ((one, connection.execute(wanted, {"of": one.key}).all()) for one in series)
    each = _query(last).add_columns(POINTS.c.series).where(POINTS.c.series == SERIES.c.key)
    lateral = each.correlate(SERIES).lateral()
    order = (lateral.c.series, lateral.c.time.desc(), lateral.c.run.desc(), lateral.c.number.desc())
    found = connection.execute(
        select(*lateral.c).select_from(SERIES).join(lateral, lateral.c.series == SERIES.c.key).order_by(*order)
    )
    by_key = {key: list(rows) for key, rows in groupby(found, key=lambda row: row.series)}
    return ((one, by_key.get(one.key, [])) for one in series)


def _query(last: int) -> Select[Any]:
    columns = [POINTS.c[name] for name in (*_COLUMNS, "more")]
    return select(*columns).order_by(*NEWEST).limit(last)


def _missing(
    connection: Connection, table: Table, names: Sequence[str], keys: Set[int], known: Mapping[int, object]
) -> Iterator[Sequence[Any]]:
    """Yield the rows with these keys that are not known yet."""
    missing = sorted(keys - known.keys())
    for some in in_pieces(missing):
        yield from connection.execute(
            select(table.c.key, *(table.c[name] for name in names)).where(table.c.key.in_(some))
        )


def _point(row: Sequence[Any], shared: dict[str, Any], of_run: dict[str, Any]) -> Point:
    time, number, _, _, goodput, low, high, limit, oracle, verdict, reason, more, *_ = row
    # A copy of a dictionary that already has all fields is many times faster than the constructor of a frozen
    # dataclass, or than adding fields, and there are a hundred thousand points.
    values = shared | of_run
    values["time"] = time_of(time)
    values["number"] = number
    values["goodput_bps"] = goodput
    values["interval_bps"] = None if low is None else (low, high)
    values["limit_bps"] = limit
    values["oracle_bps"] = oracle
    values["verdict"] = _VERDICTS[verdict]
    values["reason"] = reason
    if '"scale"' in more and (scale := _SCALE.search(more)):
        values["scale"] = float(scale[1])
    point = object.__new__(Point)
    object.__setattr__(point, "__dict__", values)
    return point
