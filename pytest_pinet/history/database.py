"""Opens the history: an SQLite file that several processes share, or PostgreSQL by URL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from pytest_pinet.errors import ConfigError, OutputError
from pytest_pinet.execution.files import exists, is_folder
from pytest_pinet.history.tables import META, METADATA, VERSION, insert_into

FORM = "a path such as '.pinet/history.db', or a URL such as 'postgresql://user@host/name'"
# How long a writer waits for others. Each writer locks the file for milliseconds.
BUSY_S = 60
# A run of 500 metrics writes to the ends of 500 trends. The log can hold a few runs before a checkpoint.
_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "cache_size=-65536", "wal_autocheckpoint=8000")
# The text of SQLITE_FULL.
_FULL = "database or disk is full"
# Held while tables are made, so that two runners that start together do not both make them.
_ADVISORY_LOCK = 0x70696E6574


class Database:
    """A configured SQLAlchemy engine. ``shown`` is its URL without the password."""

    def __init__(self, engine: Engine, shown: str) -> None:
        self._engine = engine
        self.shown = shown

    @classmethod
    def open(cls, url: str, create: bool = False) -> Database:
        """Open the database; ``create`` makes missing files and tables. Raises ConfigError, never with a password."""
        target = _url_of(url)
        shown = target.render_as_string(hide_password=True)
        if target.get_backend_name() == "sqlite":
            shown = str(Path(target.database or ""))
            _check_file(target.database or "", create)
        arguments = {"timeout": BUSY_S} if target.get_backend_name() == "sqlite" else {}
        if target.get_backend_name() == "postgresql":
            arguments["connect_timeout"] = 15
        try:
            engine = create_engine(target, connect_args=arguments)
        except ImportError:
            message = f"history {shown} needs psycopg: pip install 'pytest-pinet[postgres]'"
            raise ConfigError(message) from None
        if target.get_backend_name() == "sqlite":
            _share_file(engine)
        database = cls(engine, shown)
        try:
            with database.trouble():
                _settle(database, create)
        except BaseException:
            engine.dispose()
            raise
        return database

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads. All of its statements see the same state, whatever others write meanwhile."""
        with self.trouble(), self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                # A transaction of SQLite always is like that.
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self, busy_s: float = BUSY_S) -> Iterator[Connection]:
        """Open a transaction: all of it is kept, or nothing. A writer waits at most ``busy_s`` for others (SQLite)."""
        with self.trouble(), self._engine.connect() as plain:
            connection = plain.execution_options(pinet_writing=True, pinet_busy_s=busy_s)
            with connection.begin():
                yield connection

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """Turn a database error into a ConfigError of one sentence."""
        try:
            yield
        except SQLAlchemyError as error:
            said = str(getattr(error, "orig", None) or error).strip().splitlines()
            why = said[0] if said else type(error).__name__
            if why == _FULL:
                raise OutputError(f"history {self.shown}: {why}; free some space, or choose another history") from error
            if why.startswith("permission denied for schema"):
                owner = "make its user the owner of the database, or grant it CREATE on this schema"
                raise ConfigError(f"history {self.shown}: {why}, where the tables belong; {owner}") from error
            raise ConfigError(f"history {self.shown}: {why}; expected {FORM}") from error

    def close(self) -> None:
        self._engine.dispose()


def _url_of(text: str) -> URL:
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
    except ArgumentError:
        # The text can contain a password.
        raise ConfigError(f"history: this is no URL; expected {FORM}") from None
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ConfigError(f"history: database {url.drivername!r} is not supported; expected {FORM}")
    return url


def _check_file(file: str, create: bool) -> None:
    path = Path(file)
    if not file:
        raise ConfigError(f"history: a database in memory is lost when pytest ends; expected {FORM}")
    if is_folder(path):
        raise ConfigError(f"history {path} is a folder; expected {FORM}")
    if create:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"history {path}: {error.strerror}; choose another file") from None
    elif not exists(path):
        message = f"there is no history {path}; run pytest with a lab, or 'pinet history import results.json'"
        raise ConfigError(f"{message}, or choose another file with --history")


def _share_file(engine: Engine) -> None:
    """Configure SQLite for readers and one writer at a time, each of which waits for its turn."""

    @event.listens_for(engine, "connect")
    def _connected(connection: DBAPIConnection, _: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        try:
            for pragma in _PRAGMAS:
                # A read-only file, and some network file systems, allow no other journal mode.
                with suppress(sqlite3.OperationalError):
                    cursor.execute(f"PRAGMA {pragma}")
        finally:
            cursor.close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A transaction that becomes a writer later can find the file locked and cannot wait.
        options = connection.get_execution_options()
        connection.exec_driver_sql(f"PRAGMA busy_timeout={options.get('pinet_busy_s', BUSY_S) * 1000:.0f}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("pinet_writing") else "BEGIN")


def _settle(database: Database, create: bool) -> None:
    """Check the schema of the history. With ``create``, make a new one."""
    with database.reading() as connection:
        found = _version_in(connection)
    if found is None and create:
        with database.writing() as connection:
            if connection.dialect.name == "postgresql":
                # Wait until no other process makes tables. SQLite has one writer at a time anyway.
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            METADATA.create_all(connection)
            version = insert_into(connection, META).values(name="version", value=str(VERSION))
            # Another process may have made the history meanwhile.
            connection.execute(version.on_conflict_do_nothing())
            found = _version_in(connection)
    if found is None:
        raise ConfigError(f"{database.shown} is not a history of pytest-pinet; expected a file that a run has created")
    if found != str(VERSION):
        message = f"history {database.shown} has format {found}, but this pytest-pinet reads format {VERSION}"
        raise ConfigError(f"{message}; name another history, and import the results.json of the runs into it")


def _version_in(connection: Connection) -> str | None:
    if not inspect(connection).has_table(META.name):
        return None
    return connection.execute(select(META.c.value).where(META.c.name == "version")).scalar()
