# SPDX-License-Identifier: Apache-2.0
"""The database of a history: SQLite's file or PostgreSQL's server, opened, checked, and created where it is missing."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool

from roofreport import files
from roofreport.errors import UnusableInputError
from roofreport.history import tables
from roofreport.project_folder import reporter
from roofreport.text import shortened

PATIENCE_S = 60.0  # for a writer who is before us
_MAGIC = b"SQLite format 3\0"
_WRITES = "roofbench_writes"
VERSION_KEY = "version"


class Database:
    """`name` appears in messages: a path, or a URL without its password."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.is_sqlite = engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The data does not change within the block."""
        with self._explained(), self.engine.connect() as connection:
            if not self.is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                try:
                    yield connection
                except (
                    ArithmeticError, LookupError, RecursionError, TypeError, ValueError, struct.error
                ) as error:  # fmt: skip
                    # Files are untrusted, and a row holds what its writer chose.
                    why = shortened(str(error), 200)
                    raise self.refused(f"is damaged, or was not written by roofbench: {why}") from error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One writer at a time; the block is kept completely or not at all."""
        with self._explained(), self.engine.connect() as connection:
            connection.execution_options(**{_WRITES: True})
            with connection.begin():
                if not self.is_sqlite:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": tables.WRITERS_LOCK})
                yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise self.refused(_why(error)) from error

    def refused(self, why: str) -> UnusableInputError:
        return UnusableInputError(f"{self.name}: {why}")

    def compact(self) -> None:
        """Returns unused room to the disk; PostgreSQL does so automatically."""
        if self.is_sqlite:
            try:
                self.engine.raw_connection().cursor().execute("VACUUM")
            except sqlite3.Error as error:
                raise self.refused(_plain(str(error))) from error

    def close(self) -> None:
        self.engine.dispose()


# SQLite's messages, and advice.
_MESSAGES = (
    ("database or disk is full", "the disk is full; nothing of this was kept. Make room, and repeat the command"),
    ("disk I/O error", "the disk is full, or a limit on file sizes was met; nothing of this was kept"),
    ("readonly database", "it cannot be written to: the file or its folder is read-only"),
    ("unable to open database file", "it cannot be opened: its folder is missing or may not be read or written to"),
    ("database is locked", f"another process has been writing to it for {PATIENCE_S:.0f} s; try again when it is done"),
    ("file is not a database", "is not an SQLite file, or is damaged"),
    ("malformed", "is damaged: copy it, and recover the readable part by sqlite3's .recover"),
)


def _plain(said: str) -> str:
    plain = next((plain for words, plain in _MESSAGES if words in said), "")
    return plain or shortened(said.strip().partition("\n")[0], 300)


def _why(error: SQLAlchemyError) -> str:
    said = str(error.orig if isinstance(error, DBAPIError) and error.orig is not None else error)
    return _plain(said) or type(error).__name__


def open_database(where: str, create: bool) -> Database:
    """A history in this version or one that can be upgraded. Raises UnusableInputError for everything else."""
    if not where:
        raise UnusableInputError("the history has an empty name")
    if "\0" in where:
        raise UnusableInputError(f"{where}: is not a file name")
    if "://" not in where:
        return _sqlite(Path(where), create)
    try:
        url = make_url(where)
    except (ArgumentError, ValueError) as error:
        raise UnusableInputError(f"{where.partition('@')[2] or where}: is not a database URL") from error
    kind = url.get_backend_name()
    if kind == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UnusableInputError(f"{where}: names no file, as sqlite:///history.db does")
        return _sqlite(Path(url.database), create)
    if kind != "postgresql":
        raise UnusableInputError(f"{kind}://: a history is a file, sqlite:///FILE or postgresql://[USER@]HOST/DATABASE")
    return _postgresql(url, create)


def _sqlite(path: Path, create: bool) -> Database:
    name = str(path)
    is_new = _check_file(path, name, create)
    read_only = not is_new and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    engine = create_engine("sqlite://", creator=lambda: _connected(path, read_only), poolclass=StaticPool)

    # sqlite3's implicit transactions let a writer read before it has the lock.
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes and not read_only else "BEGIN")

    database = Database(engine, name)
    if create and not read_only:
        _make_sqlite(database)
    with database.reading() as connection:
        mark = _pragma(connection, "application_id")
        if mark != tables.APPLICATION_ID:
            raise database.refused("is a database of another program; choose another file")
        _check_tables(connection, database)
        _check_version(connection, database)
    return database


def _make_sqlite(database: Database) -> None:
    """Creates the tables of a new file, or of one whose creation was interrupted."""
    with database.reading() as connection:
        made = _pragma(connection, "application_id") == tables.APPLICATION_ID
    if not made:
        with database.writing() as connection:
            _make(connection)
    with database.reading() as connection:
        if not made and _pragma(connection, "application_id") != tables.APPLICATION_ID:
            return  # another program's
        logged = _pragma(connection, "journal_mode") == "wal"
    # For all who open it from now on. A process that holds the file at this moment does it later.
    if not logged:
        with suppress(sqlite3.OperationalError):
            database.engine.raw_connection().cursor().execute("PRAGMA journal_mode = WAL")


def _check_file(path: Path, name: str, create: bool) -> bool:
    """Whether the database is to be created."""
    with files.explained(name):
        files.followed(path)
        if not path.exists():
            if not create:
                raise UnusableInputError(f"{name}: there is no history yet; {reporter()} history add RESULT makes one")
            path.parent.mkdir(parents=True, exist_ok=True)
            return True
        if not path.is_file():
            raise UnusableInputError(f"{name}: is not a file")
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    if not start:
        if not create:
            raise UnusableInputError(f"{name}: is empty; {reporter()} history add RESULT makes a history of it")
        return True
    if start != _MAGIC:
        raise UnusableInputError(f"{name}: is not a history but another kind of file; choose another --store")
    return False


def _connected(path: Path, read_only: bool) -> sqlite3.Connection:
    if not read_only:
        connection = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        return connection
    # A log that is not empty holds runs; without one, the file alone is the history.
    log = path.with_name(path.name + "-wal")
    alone = not (log.exists() and log.stat().st_size)
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE_S, isolation_level=None)


def _pragma(connection: Connection, what: str) -> Any:
    return connection.exec_driver_sql(f"PRAGMA {what}").scalar()


def _postgresql(url: URL, create: bool) -> Database:
    try:
        engine = create_engine(url.set(drivername="postgresql+psycopg"), poolclass=NullPool)
    except (ImportError, SQLAlchemyError) as error:
        raise UnusableInputError(f"PostgreSQL needs the Python package psycopg: {error}") from error
    # The query, after "?", may contain a password too.
    database = Database(engine, url.set(query={}).render_as_string(hide_password=True))
    if create:
        with database.writing() as connection:
            _make(connection)
    with database.reading() as connection:
        if not inspect(connection).has_table(tables.meta.name):
            raise database.refused(f"there is no history yet; {reporter()} history add RESULT makes one")
        _check_version(connection, database)
    return database


def _make(connection: Connection) -> None:
    """Creates every table, unless another process was faster or an SQLite file holds other tables."""
    there = inspect(connection).get_table_names()
    if tables.meta.name in there:
        return
    if connection.dialect.name == "sqlite":
        if there:
            return
        connection.exec_driver_sql(f"PRAGMA application_id = {tables.APPLICATION_ID}")
    tables.metadata.create_all(connection)
    connection.execute(tables.meta.insert().values(key=VERSION_KEY, value=str(tables.VERSION)))


def version_of(connection: Connection) -> str:
    found = select(tables.meta.c.value).where(tables.meta.c.key == VERSION_KEY)
    return connection.execute(found).scalar() or "0"


def _check_tables(connection: Connection, database: Database) -> None:
    """A file is untrusted: a view in place of a table, or a trigger, could run forever."""
    acting = connection.exec_driver_sql(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' OR sql LIKE 'CREATE VIRTUAL%' ORDER BY name"
    ).scalar()
    if acting is not None:
        raise database.refused(f"has the trigger or virtual table {shortened(str(acting), 60)}; a history has none")
    there = set(inspect(connection).get_table_names())
    if tables.FILES in there:  # of an older version, which has no records
        there.add(tables.records.name)
    for missing in (name for name in tables.metadata.tables if name not in there):
        raise database.refused(f"has no table {missing}: it is damaged, or was not written by roofbench")


def _check_version(connection: Connection, database: Database) -> None:
    version = version_of(connection)
    if version in (str(tables.VERSION), str(tables.WITH_FILES)):
        return
    if version.isdecimal() and int(version) > tables.VERSION:
        raise database.refused(
            f"was made by a newer program (version {version}; this one knows {tables.VERSION}); update roofbench"
        )
    raise database.refused(f"has the unknown version {shortened(version, 40)}")
