# SPDX-License-Identifier: Apache-2.0
"""The care of a history: finds damage, drops runs, and copies them into a history that this program writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, bindparam, delete, func, select

from roofreport import units
from roofreport.errors import UnusableInputError
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
            yield from _faults_of(store, connection, run)


def _faults_of(store: Store, connection: Connection, run: Run) -> Iterator[str]:
    readings = tables.readings.c
    count = connection.execute(select(func.count()).where(readings.run_id == run.id)).scalar()
    try:
        record = store.record_of(connection, run)
    except UnusableInputError as error:
        yield str(error)
        return
    if record.digest != run.digest:
        yield f"run {run.id}: its record is not what was added"
    cases = len(record.result.by_name())
    if count != cases:
        yield f"run {run.id}: it has {count} readings, and its record {units.counted(cases, 'case')}"


def prune(store: Store, runs: Sequence[Run]) -> None:
    """Drops runs, all of them or none, and returns their space to the disk."""
    if not runs:
        return
    with store.database.writing() as connection:
        # Their readings and records go with them.
        gone = delete(tables.runs).where(tables.runs.c.id == bindparam("number"))
        connection.execute(gone, [{"number": run.id} for run in runs])
    store.database.compact()


def copy(store: Store, target: Store) -> int:
    """Adds every run and every annotation of a history to another one; returns the number of new runs."""
    new = sum(target.add(store.record(run), run.started).is_new for run in store.runs())
    there = set(target.annotations())
    for note in store.annotations():
        if note not in there:
            target.accept(note.pattern, note.since, note.why, note.machine_id, note.kind)
    return new
