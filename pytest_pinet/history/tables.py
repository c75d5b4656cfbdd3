"""The tables of the history. A row has what is searched and counted; the rest of its value is beside it, as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, create_model
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Result,
    Row,
    Select,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    select,
)

from pytest_pinet.history.points import OutOfService, Point, StoredMetric, StoredRun, Suspicion
from pytest_pinet.history.results_file import moment
from pytest_pinet.model.figures import Figure
from pytest_pinet.model.verdict import Verdict

V = TypeVar("V")
_KIND = TypeAdapter(Figure)


class KindText(TypeDecorator[Figure]):
    """The kind of the values of a metric, as JSON."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Figure | None, dialect: Dialect) -> str | None:
        return None if value is None else _KIND.dump_json(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Figure | None:
        return None if value is None else _kind(value)


@lru_cache
def _kind(text: str) -> Figure:
    return _KIND.validate_json(text)


# The number of this schema. Change it with the tables, the JSON, or the packed numbers of a point.
VERSION = 3
METADATA = MetaData()
# SQLite numbers rows automatically for INTEGER only.
_KEY = BigInteger().with_variant(Integer, "sqlite")

META = Table(
    "pinet_meta", METADATA, Column("name", String(40), primary_key=True), Column("value", Text, nullable=False)
)

# ``gated``: the run gated a change. ``record`` is the whole `StoredRun`.
RUNS = Table(
    "pinet_runs",
    METADATA,
    Column("key", _KEY, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("lab", Text, nullable=False),
    Column("started", BigInteger, nullable=False, index=True),  # all times are microseconds since 1970, UTC
    Column("gated", Boolean, nullable=False, index=True),
    Column("record", Text, nullable=False),
)

# The metrics of each lab. ``points`` is stored, because counting a million rows takes seconds. ``time``, ``run`` and
# ``number`` belong to the newest point. ``best`` is the best level so far (`packed`); ``runs`` and ``total`` are the
# number and the sum of the values since the last mean.
SERIES = Table(
    "pinet_series",
    METADATA,
    Column("key", _KEY, primary_key=True, autoincrement=True),
    Column("lab", Text, nullable=False),
    Column("figure", Text, nullable=False),
    Column("combination", Text, nullable=False),
    Column("direction", Text, nullable=False),
    Column("kind", KindText, nullable=False),
    Column("points", BigInteger, nullable=False, default=0),
    Column("time", BigInteger, nullable=False, default=0),
    Column("run", BigInteger, nullable=False, default=0),
    Column("number", Integer, nullable=False, default=0),
    Column("runs", Integer, nullable=False, default=0),
    Column("total", Float, nullable=False, default=0.0),
    Column("best", Float, nullable=False, default=0.0),
    UniqueConstraint("figure", "lab"),
)

# Builds, serials, versions: values that hundreds of points share are stored here once.
CONTEXTS = Table(
    "pinet_contexts",
    METADATA,
    Column("key", _KEY, primary_key=True, autoincrement=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("content", Text, nullable=False),
)

# A trend is read by the primary key. Rows are in the order of runs, as they arrive. SQLite's WITHOUT ROWID would sort
# them by series, so that a run of 500 metrics writes to 500 places (measured: half the ingest). ``record`` is what no
# other column or table has of a `Point`.
POINTS = Table(
    "pinet_points",
    METADATA,
    Column("series", ForeignKey("pinet_series.key"), primary_key=True, autoincrement=False),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    Column("run", ForeignKey("pinet_runs.key"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("context", ForeignKey("pinet_contexts.key"), nullable=False),
    Column("value", Float),
    Column("verdict", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("record", Text, nullable=False),
    Index("pinet_points_of_run", "run"),
)

# The numbers of the points once more, for reports: see `packed`.
PARTS = Table(
    "pinet_packed_parts",
    METADATA,
    Column("series", ForeignKey("pinet_series.key"), primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

# The courses among the newest ``last`` points of each series: see `courses`.
COURSES = Table(
    "pinet_courses",
    METADATA,
    Column("series", BigInteger, primary_key=True, autoincrement=False),
    Column("last", Integer, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
)

# What is remembered of a board, by kind: `OutOfService` or `Suspicion`.
BOARDS = Table(
    "pinet_boards",
    METADATA,
    Column("lab", String(200), primary_key=True),
    Column("node", String(200), primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("record", Text, nullable=False),
)

# The newest points first.
NEWEST = (POINTS.c.time.desc(), POINTS.c.run.desc(), POINTS.c.number.desc())
# The fields of a point by the table that has them.
OF_RUN = ("run", "session", "emulated", "folder", "complete", "pinet")
OF_CONTEXT = ("build", "serials", "versions", "settings", "parameters", "of_baseline")
OF_SERIES = ("lab", "figure", "combination", "direction", "kind")
_OWN_COLUMNS = ("time", "number", "value", "verdict", "reason")
# SQLite accepts so many values in a query.
_MOST_KEYS = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Made once, because json.dumps would make an encoder for each of thousands of values.
ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))

_JSON: Mapping[type[Any], TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Point, OutOfService, Suspicion)}


def text_of(value: object, without: Sequence[str] = ()) -> str:
    """Return a dataclass as JSON, without these fields and without fields that have their default."""
    plain = _JSON[type(value)].dump_python(value, mode="json", exclude=set(without), exclude_defaults=True)
    return ENCODER.encode(plain)


def value_of(kind: type[V], text: str) -> V:
    """Return the value of a text of `text_of`."""
    found: V = _JSON[kind].validate_json(text)
    return found


# The fields of a point that its record has.
_OWN_FIELDS: dict[str, Any] = {
    one.name: (get_type_hints(Point)[one.name], one.default)
    for one in fields(Point)
    if one.name not in (*OF_RUN, *OF_CONTEXT, *OF_SERIES, *_OWN_COLUMNS)
}
_PointRecord = create_model("_PointRecord", **_OWN_FIELDS)


def point_of(record: str, **more: Any) -> Point:
    """Return the point with this record; ``more`` are its other fields.

    The other fields are not checked: thousands of points have them, and `point_row` writes them.
    """
    return Point(**{**vars(_PointRecord.model_validate_json(record)), **more})


def run_row(run: StoredRun) -> dict[str, Any]:
    """Return a run as a row of RUNS."""
    started = instant(moment(run.started))
    own = {"id": run.id, "lab": run.lab, "started": started, "gated": run.change is not None}
    return own | {"record": ENCODER.encode(run.dump())}


def run_of(record: str) -> StoredRun:
    """Return the run of the record of a row of RUNS."""
    return StoredRun.model_validate(json.loads(record))


def context_row(point: Point) -> dict[str, str]:
    """Return what a point has in common with its neighbours as a row of CONTEXTS: one text for the same content."""
    content = ENCODER.encode({name: _plain(getattr(point, name)) for name in OF_CONTEXT})
    return {"digest": hashlib.sha256(content.encode()).hexdigest(), "content": content}


def _plain(value: object) -> object:
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, Mapping) else value


def point_row(point: Point, run: int, series: int, context: int) -> dict[str, Any]:
    """Return a point as a row of POINTS. The numbers are keys of other tables."""
    return {
        "series": series,
        "time": instant(point.time),
        "run": run,
        "number": point.number,
        "context": context,
        "value": point.value,
        "verdict": point.verdict.value,
        "reason": point.reason,
        "record": text_of(point, (*OF_RUN, *OF_CONTEXT, *OF_SERIES, *_OWN_COLUMNS)),
    }


def select_points() -> Select[Any]:
    """Return the query for what `points_of` needs."""
    of = POINTS.c
    texts = (of.record, CONTEXTS.c.content, RUNS.c.record.label("of_run"))
    own = (of.time, of.number, of.value, of.verdict, of.reason)
    return (
        select(*texts, *own, *(SERIES.c[name] for name in OF_SERIES))
        .select_from(SERIES)
        .join(POINTS, of.series == SERIES.c.key)
        .join(RUNS, RUNS.c.key == of.run)
        .join(CONTEXTS, CONTEXTS.c.key == of.context)
    )


def points_of(result: Result[Any]) -> list[Point]:
    """Return the points of the rows of a `select_points`, in their order."""
    names = tuple(result.keys())[3:]
    found: list[Point] = []
    for row in result.all():
        record, content, run, *rest = tuple(row)
        own = dict(zip(names, rest, strict=True))
        own |= {"time": time_of(own["time"]), "verdict": Verdict(own["verdict"])}
        found.append(point_of(record, **own, **parse_context(content), **facts_of_run(run)))
    return found


@lru_cache(maxsize=10_000)
def parse_context(content: str) -> dict[str, Any]:
    """Return the fields of a point that a row of CONTEXTS has."""
    parsed: dict[str, Any] = json.loads(content)
    return parsed


@lru_cache(maxsize=10_000)
def facts_of_run(record: str) -> Mapping[str, Any]:
    """Return the fields of a point that its run has, from the record of a row of RUNS."""
    # Without a check, because only `run_row` writes these records, and a report reads a thousand.
    return StoredRun.model_construct(**json.loads(record)).of_points


def metric_of(row: Row[Any]) -> StoredMetric:
    """Return the metric of a row of SERIES."""
    return StoredMetric(row.figure, row.lab, row.combination, row.direction, row.points, time_of(row.time))


def instant(time: datetime) -> int:
    """Return microseconds since 1970; exact, unlike ``timestamp()``."""
    return (time - _EPOCH) // _MICROSECOND


def time_of(microseconds: int) -> datetime:
    """Return the time of so many microseconds since 1970."""
    return _EPOCH + microseconds * _MICROSECOND


def in_pieces(keys: Sequence[int], most: int = _MOST_KEYS) -> Iterator[Sequence[int]]:
    """Yield the keys in pieces that one query of any database accepts."""
    for begin in range(0, len(keys), most):
        yield keys[begin : begin + most]


def insert_into(connection: Connection, table: Table) -> Any:
    """Both databases support ``on conflict``, each in its own dialect. Only that of this database is imported."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)
