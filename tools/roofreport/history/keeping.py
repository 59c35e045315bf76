# SPDX-License-Identifier: Apache-2.0
"""The care of a history: finds damage, drops runs, and copies them into a history that this program writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import Connection, bindparam, delete, func, select

from roofreport.errors import UnusableInputError
from roofreport.history import document as documents
from roofreport.history import tables
from roofreport.history.records import Run
from roofreport.history.store import Store
from roofreport.text import inert


def faults(store: Store) -> Iterator[str]:
    """One line for each difference from the written data."""
    runs = store.runs()
    with store.database.reading() as connection:
        if store.database.is_sqlite:
            for check in ("integrity_check", "foreign_key_check"):
                for row in connection.exec_driver_sql(f"PRAGMA {check}"):
                    if row[0] != "ok":
                        yield f"{check.replace('_', ' ')}: {inert(', '.join(map(str, row)))}"
        for run in runs:
            yield from _faults_of(connection, run)


def _faults_of(connection: Connection, run: Run) -> Iterator[str]:
    files, readings = tables.documents.c, tables.readings.c
    kept = connection.execute(select(files.kind, files.digest, files.text).where(files.run_id == run.id)).all()
    if not kept:
        yield f"run {run.id}: its file is missing"
    count = connection.execute(select(func.count()).where(readings.run_id == run.id)).scalar()
    digests: list[str] = []
    names: set[str] = set()
    for kind, digest, data in kept:
        try:
            document = documents.of_text(Path(run.name), documents.unpacked(data, f"run {run.id}"))
        except UnusableInputError as error:
            yield f"run {run.id}: its {kind} cannot be read: {error}"
            continue
        if documents.text_digest(document.text) != digest:
            yield f"run {run.id}: its {kind} is not what was added"
        digests.append(documents.digests(document)[0])
        names |= document.written.by_name().keys()
    if digests and run.digest not in digests:
        yield f"run {run.id}: none of its files has its digest"
    if digests and count != len(names):
        yield f"run {run.id}: it has {count} readings, and its files {len(names)} cases"


def prune(store: Store, runs: Sequence[Run]) -> None:
    """Drops runs, all of them or none, and returns their space to the disk."""
    if not runs:
        return
    with store.database.writing() as connection:
        # Their readings and documents go with them.
        gone = delete(tables.runs).where(tables.runs.c.id == bindparam("number"))
        connection.execute(gone, [{"number": run.id} for run in runs])
    store.database.compact()


def copy(store: Store, target: Store) -> int:
    """Adds every run and every annotation of a history to another one; returns the number of new runs."""
    new = 0
    for run in store.runs():
        for document in store.documents(run):
            new += target.add(document, run.started).is_new
    there = set(target.annotations())
    for note in store.annotations():
        if note not in there:
            target.accept(note.pattern, note.since, note.why, note.machine_id, note.kind)
    return new
