"""The tables of the history, and the conversion of rows to values and back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Result,
    Row,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    inspect,
    or_,
    select,
)

from pytest_pinet.history.gates import StoredGate
from pytest_pinet.history.points import (
    Figure,
    OutOfService,
    Point,
    RememberedBoard,
    SampleSpread,
    StoredRun,
    Suspicion,
)
from pytest_pinet.model.record.direction import ConnectionRecord
from pytest_pinet.model.verdict import Verdict

B = TypeVar("B", bound=RememberedBoard)
VERSION = 1
METADATA = MetaData()
# SQLite numbers rows automatically for INTEGER only.
_KEY = BigInteger().with_variant(Integer, "sqlite")

META = Table(
    "pinet_meta", METADATA, Column("name", String(40), primary_key=True), Column("value", Text, nullable=False)
)

RUNS = Table(
    "pinet_runs",
    METADATA,
    Column("key", _KEY, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("lab", Text, nullable=False),
    Column("started", BigInteger, nullable=False, index=True),  # all times are microseconds since 1970, UTC
    Column("finished", BigInteger, nullable=False),
    Column("emulated", Boolean, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("exitstatus", Integer, nullable=False),
    Column("pinet", Text, nullable=False),
    Column("folder", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("verdicts", Text, nullable=False),
    Column("skipped", Integer, nullable=False),
)

SERIES = Table(
    "pinet_series",
    METADATA,
    Column("key", _KEY, primary_key=True, autoincrement=True),
    Column("lab", Text, nullable=False),
    Column("figure", Text, nullable=False),
    Column("combination", Text, nullable=False),
    Column("direction", Text, nullable=False),
    Column("points", BigInteger, nullable=False),  # stored here, because counting a million rows takes seconds
    Column("newest", BigInteger, nullable=False),
    UniqueConstraint("figure", "lab"),
)

# Builds, serials, versions, rules: values that hundreds of points share are stored here once, as JSON.
CONTEXTS = Table(
    "pinet_contexts",
    METADATA,
    Column("key", _KEY, primary_key=True, autoincrement=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("content", Text, nullable=False),
)

# A trend is read by the primary key. Rows are in the order of runs, as they arrive. SQLite's WITHOUT ROWID would sort
# them by series, so that a run of 500 metrics writes to 500 places (measured: half the ingest).
POINTS = Table(
    "pinet_points",
    METADATA,
    Column("series", ForeignKey("pinet_series.key"), primary_key=True, autoincrement=False),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    Column("run", ForeignKey("pinet_runs.key"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("context", ForeignKey("pinet_contexts.key"), nullable=False),
    Column("goodput", Float),
    Column("low", Float),
    Column("high", Float),
    Column("limit_bps", Float),
    Column("oracle", Float),
    Column("verdict", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("more", Text, nullable=False),
    Index("pinet_points_of_run", "run"),
)
# The newest points first.
NEWEST = (POINTS.c.time.desc(), POINTS.c.run.desc(), POINTS.c.number.desc())


def _boards(name: str, *more: Column[Any]) -> Table:
    """Return a table of boards by lab. A history of an earlier release lacks it; the next writer makes it."""
    return Table(
        name,
        METADATA,
        Column("lab", String(200), primary_key=True),
        Column("node", String(200), primary_key=True),
        Column("since", BigInteger, nullable=False),
        Column("run", Text, nullable=False),
        Column("reason", Text, nullable=False),
        *more,
    )


# Boards that are out of service until a user clears them.
BOARDS = _boards("pinet_boards")
# Boards that failed where others of their kind pass, and when a user has cleared them.
SUSPICIONS = _boards("pinet_suspicions", Column("cleared", Boolean, nullable=False))
BOARD_TABLES: Mapping[type[RememberedBoard], Table] = {OutOfService: BOARDS, Suspicion: SUSPICIONS}

# SQLite accepts so many values in a query.
_MOST_KEYS = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SCALE = re.compile(r'"scale":([0-9.e-]+)')
# Made once, because json.dumps would make an encoder for each of thousands of values.
ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))


def run_row(run: StoredRun) -> dict[str, Any]:
    """Return a run as a row of RUNS."""
    own = {name: value for name, value in vars(run).items() if name != "gate"}
    return own | {
        "lab": clean(run.lab),
        "started": _instant(run.started),
        "finished": _instant(run.finished),
        "folder": clean(run.folder),
        "verdicts": ENCODER.encode(run.verdicts),
    }


def run_of(row: Row[Any], gate: StoredGate | None = None) -> StoredRun:
    """Return the run of a row of RUNS, with its gate."""
    own = row._asdict()
    del own["key"]
    times = {name: time_of(own[name]) for name in ("started", "finished")}
    return StoredRun(**own | times | {"verdicts": json.loads(row.verdicts)}, gate=gate)


def figure_of(row: Row[Any]) -> Figure:
    """Return the metric of a row of SERIES."""
    return Figure(row.figure, row.lab, row.combination, row.direction, row.points, time_of(row.newest))


def series_row(point: Point) -> dict[str, Any]:
    """Return the metric of a point as a row of SERIES without points."""
    own = {name: getattr(point, name) for name in ("figure", "lab", "combination", "direction")}
    return own | {"points": 0, "newest": 0}


def context_row(point: Point) -> dict[str, str]:
    """Return what a point has in common with its neighbours as a row of CONTEXTS: one text for the same content."""
    shared = {name: dict(getattr(point, name)) for name in ("build", "serials", "versions")}
    settings = {role: dict(own) for role, own in point.settings.items()}
    shared |= {"settings": settings} if settings else {}
    content = ENCODER.encode(shared | {"parameters": point.parameters, "rule": point.rule})
    return {"digest": hashlib.sha256(content.encode()).hexdigest(), "content": content}


def point_row(point: Point, run: int, series: int, context: int) -> dict[str, Any]:
    """Return a point as a row of POINTS. The numbers are keys of other tables."""
    low, high = point.interval_bps or (None, None)
    spread = point.spread
    more = {
        "connections": [_connection_row(one) for one in point.connections],
        "state": point.state,
        "spread": spread and (spread.intervals, spread.least_bps, spread.median_bps, spread.most_bps, spread.sd_bps),
        "artefacts": point.artefacts,
        "limited_by": clean(point.limited_by),
        "scale": point.scale if point.scale != 1 else None,
        "boot": clean(point.boot),
        "link_up": clean(point.link_up),
        "instructions": point.instructions,
        "packets_per_second": point.packets_per_second,
    }
    return {
        "series": series,
        "time": _instant(point.time),
        "run": run,
        "number": point.number,
        "context": context,
        "goodput": point.goodput_bps,
        "low": low,
        "high": high,
        "limit_bps": point.limit_bps,
        "oracle": point.oracle_bps,
        "verdict": point.verdict.value,
        "reason": clean(point.reason),
        "more": ENCODER.encode({name: value for name, value in more.items() if value}),
    }


def _connection_row(one: ConnectionRecord) -> tuple[str | float, ...]:
    row = (one.fresh, one.goodput_bps, one.seconds, one.excluded)
    return (*row, one.slow_start_s) if one.slow_start_s else row


def _connection(
    fresh: str, goodput_bps: float, seconds: float, excluded: str, slow_start_s: float = 0.0
) -> ConnectionRecord:
    return ConnectionRecord(fresh, goodput_bps, seconds, slow_start_s=slow_start_s, excluded=excluded)


def select_points() -> Select[Any]:
    """Return the query for what `points_of` needs."""
    of = POINTS.c
    columns = (of.time, of.number, of.low, of.high, of.limit_bps, of.verdict, of.reason, of.more)
    renamed = (of.goodput.label("goodput_bps"), of.oracle.label("oracle_bps"), RUNS.c.id.label("run"))
    of_run = (RUNS.c.session, RUNS.c.emulated, RUNS.c.complete, RUNS.c.folder, RUNS.c.pinet)
    of_series = (SERIES.c.lab, SERIES.c.figure, SERIES.c.combination, SERIES.c.direction)
    query = select(*columns, *renamed, *of_run, *of_series, CONTEXTS.c.content).select_from(SERIES)
    return (
        query.join(POINTS, of.series == SERIES.c.key)
        .join(RUNS, RUNS.c.key == of.run)
        .join(CONTEXTS, CONTEXTS.c.key == of.context)
    )


def points_of(result: Result[Any]) -> list[Point]:
    """Return the points of the rows of a `select_points`, in their order."""
    names = tuple(result.keys())
    return [_point(dict(zip(names, row, strict=True))) for row in result]


def _point(own: dict[str, Any]) -> Point:
    low, high, more, context = own.pop("low"), own.pop("high"), own.pop("more"), own.pop("content")
    own |= parse_context(context) | details_of(more)
    own["time"] = time_of(own["time"])
    own["verdict"], own["reason"] = known_verdict(own["verdict"], own["reason"])
    own["interval_bps"] = None if low is None else (low, high)
    return Point(**own)


def known_verdict(word: str, reason: str) -> tuple[Verdict, str]:
    """Return a verdict and its reason. One that only a newer release knows is an error here."""
    try:
        return Verdict(word), reason
    except ValueError:
        return Verdict.ERROR, f"a newer pytest-pinet stored the verdict {word!r}, which this one does not know"


def details_of(text: str) -> dict[str, Any]:
    """Return the fields of a point that the column ``more`` has."""
    more = json.loads(text)
    texts = {name: more.get(name, "") for name in ("limited_by", "boot", "link_up")}
    return texts | {
        "connections": tuple(_connection(*one) for one in more.get("connections", ())),
        "state": more.get("state", ""),
        "spread": SampleSpread(*more["spread"]) if "spread" in more else None,
        "artefacts": tuple(more.get("artefacts", ())),
        "scale": more.get("scale", 1.0),
        "instructions": more.get("instructions"),
        "packets_per_second": more.get("packets_per_second"),
    }


def scale_of(text: str) -> float:
    """Return the scale of a point from the column ``more``, without the time of a parser."""
    found = _SCALE.search(text) if '"scale"' in text else None
    return float(found[1]) if found is not None else 1.0


@lru_cache(maxsize=10_000)
def parse_context(content: str) -> dict[str, Any]:
    """Return the fields of a point that a row of CONTEXTS has."""
    parsed: dict[str, Any] = json.loads(content)
    return parsed


def _instant(time: datetime) -> int:
    """Return microseconds since 1970; exact, unlike ``timestamp()``."""
    return (time - _EPOCH) // _MICROSECOND


def time_of(microseconds: int) -> datetime:
    """Return the time of so many microseconds since 1970."""
    return _EPOCH + microseconds * _MICROSECOND


def is_since(times: Mapping[int, int]) -> ColumnElement[bool]:
    """Return the condition that a row of POINTS is of one of these series, and not before the time of its series."""
    return or_(*(and_(POINTS.c.series == key, POINTS.c.time >= time) for key, time in times.items()))


def has_table(connection: Connection, table: Table) -> bool:
    """Return whether this history has a table, which one of an earlier release may lack.

    Each connection queries the database once, and again about a table that it lacks.
    """
    known: set[str] = connection.info.setdefault("pinet_tables", set())
    if table.name not in known:
        known.update(inspect(connection).get_table_names())
    return table.name in known


def in_pieces(keys: Sequence[int], most: int = _MOST_KEYS) -> Iterator[Sequence[int]]:
    """Yield the keys in pieces that one query of any database accepts."""
    for begin in range(0, len(keys), most):
        yield keys[begin : begin + most]


def insert_into(connection: Connection, table: Table) -> Any:
    """Both databases support ``on conflict``, each in its own dialect. Only that of this database is imported."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)


def clean(text: str) -> str:
    """Return text that every database accepts: no lone surrogates of undecodable bytes, and no NUL."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def board_row(lab: str, board: RememberedBoard) -> dict[str, Any]:
    """Return a board as a row of BOARDS or SUSPICIONS."""
    return vars(board) | {"lab": clean(lab), "since": _instant(board.since), "reason": clean(board.reason)}


def board_of(kind: type[B], row: Row[Any]) -> B:
    """Return the board of a row of BOARDS or SUSPICIONS."""
    own = row._asdict()
    del own["lab"]
    return kind(**own | {"since": time_of(row.since)})
