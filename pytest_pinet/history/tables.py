"""The tables of the history, and the migrations from older versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

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

# Migrations from the version before: version -> a step within one transaction.
MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {}
