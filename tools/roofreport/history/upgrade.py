# SPDX-License-Identifier: Apache-2.0
"""Turns a history of version 1, which kept a run as Google Benchmark's JSON, as a journal or as both, into one of
records.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from sqlalchemy import Connection, select, text

from roofreport.errors import UnusableInputError
from roofreport.history import tables
from roofreport.history.database import VERSION_KEY, Database, version_of
from roofreport.history.record import of_text
from roofreport.terminal import say

_RENAMED = {"content": "identity", "dated": "converted"}  # columns of runs


def upgrade(database: Database) -> None:
    """All of it or nothing. Files that are damaged stay where they were, and their runs lack a record."""
    with database.reading() as connection:
        if version_of(connection) != str(tables.WITH_FILES):
            return
    say(f"note: {database.name}: is of an older version; turning its files into records")
    with database.writing() as connection:
        if version_of(connection) != str(tables.WITH_FILES):
            return  # another process was faster
        for old, new in _RENAMED.items():
            connection.execute(text(f"ALTER TABLE {tables.runs.name} RENAME COLUMN {old} TO {new}"))
        tables.records.create(connection)
        for number in connection.execute(select(tables.runs.c.id)).scalars().all():
            try:
                _convert(connection, number)
            except (UnusableInputError, LookupError, TypeError, ValueError) as error:  # of rows that others wrote, too
                say(f"note: {database.name}: run {number}: {error}; its files stay in {tables.FILES}")
        if not connection.execute(text(f"SELECT count(*) FROM {tables.FILES}")).scalar():
            connection.execute(text(f"DROP TABLE {tables.FILES}"))
        version = tables.meta.update().where(tables.meta.c.key == VERSION_KEY)
        connection.execute(version.values(value=str(tables.VERSION)))
    database.compact()


def _convert(connection: Connection, number: int) -> None:
    runs = tables.runs.c
    kept = {}
    files = f"FROM {tables.FILES} WHERE run_id = {number:d}"
    for kind, digest, data in connection.execute(text(f"SELECT kind, digest, text {files}")):
        kept[kind] = tables.unpacked(data)
        if sha256(kept[kind].encode()).hexdigest() != digest:
            raise ValueError(f"its {kind} is not what was added")
    if not kept:
        return
    name = connection.execute(select(runs.name).where(runs.id == number)).scalar_one()
    records = {kind: of_text(Path(name), content) for kind, content in kept.items()}
    record, other = records.get("journal") or records["json"], records.get("json") or records["journal"]
    same = connection.execute(select(runs.id).where(runs.digest == record.digest, runs.id != number)).scalar()
    if same is not None:
        raise ValueError(f"it has the record of run {same}")
    facts = {
        "digest": record.digest,
        # Journals did not say when and where they began. What the JSON said of it recognizes both.
        "identity": record.identity or other.identity,
        "context": {**other.result.context, **record.result.context},
        "converted": record.is_converted,
    }
    connection.execute(tables.runs.update().where(runs.id == number).values(facts))
    connection.execute(tables.records.insert().values(run_id=number, text=tables.packed(record.text)))
    connection.execute(text(f"DELETE {files}"))
