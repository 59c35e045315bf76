# SPDX-License-Identifier: Apache-2.0
"""A history of runs: adding and reading."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType

from sqlalchemy import ColumnElement, Connection, Table, delete, select, true
from sqlalchemy.exc import NoResultFound

from roofreport.errors import UnusableInputError
from roofreport.history import tables
from roofreport.history.database import Database, open_database
from roofreport.history.record import Record, details_of, of_text, readings_of, run_of
from roofreport.history.records import (
    KINDS,
    PROFILE,
    Added,
    Annotation,
    CaseDetails,
    Environment,
    Machine,
    Reading,
    Run,
    Series,
    Toolchain,
    by_environment,
)
from roofreport.history.tables import sound
from roofreport.history.upgrade import upgrade
from roofreport.io.contract import TIME
from roofreport.io.reliability import doubt_of_median
from roofreport.io.result import State
from roofreport.project_folder import reporter
from roofreport.text import inert

_DOUBLE = struct.Struct("<d")


class Counters(Mapping[str, float]):
    """`places`: the names of a layout and their places in bytes."""

    __slots__ = ("_data", "_places")

    def __init__(self, places: dict[str, int], data: bytes) -> None:
        if len(data) != len(places) * _DOUBLE.size:
            raise ValueError("counters of another length than their names")
        self._places = places
        self._data = data

    def __getitem__(self, name: str) -> float:
        value: float = _DOUBLE.unpack_from(self._data, self._places[name])[0]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _found_run(connection: Connection, record: Record) -> tuple[int, bool] | None:
    """The run of this record, if it was added before, as this record or as the other one of the program's own and what
    its JSON became; and whether this one is the program's own, which replaces the other.
    """
    runs = tables.runs.c
    same = connection.execute(select(runs.id).where(runs.digest == record.digest)).scalar()
    if same is not None:
        return int(same), False
    # Two records of the program's own are two runs even where they begin alike.
    other = select(runs.id).where(runs.identity == record.identity, runs.converted != record.is_converted)
    found = connection.execute(other).scalars().all() if record.identity else []
    return (int(found[0]), not record.is_converted) if len(found) == 1 else None


def _is_known(connection: Connection, table: Table, row: Machine | Toolchain) -> bool:
    """Whether the row was there; writes it if it was not."""
    if connection.execute(select(table.c.id).where(table.c.id == row.id)).scalar() is not None:
        return True
    connection.execute(table.insert().values(id=row.id, label=row.label, facts=row.facts))
    return False


def _insert_run(connection: Connection, record: Record, run: Run) -> int:
    """The run's number, which is a new one where the run has none."""
    row = {
        "digest": run.digest,
        "identity": record.identity,
        "converted": record.is_converted,
        "started": run.started,
        "revision": run.revision,
        "machine_id": run.machine.id,
        "toolchain_id": run.toolchain.id,
        "context": run.context,
        "name": run.name,
    }
    inserted = connection.execute(tables.runs.insert().values(row | ({"id": run.id} if run.id else {})))
    number = int(inserted.inserted_primary_key[0])  # type: ignore[index]
    connection.execute(tables.records.insert().values(run_id=number, text=tables.packed(record.text)))
    insert_readings(connection, number, readings_of(record, run, TIME.name))
    return number


def _numbers(connection: Connection, table: Table, column: str, texts: Sequence[str]) -> list[int]:
    """The numbers of texts that many rows share: each text is written once."""

    def known() -> dict[str, int]:
        return {row[0]: row[1] for row in connection.execute(select(table.c[column], table.c.id))}

    # As the database has them.
    stored = [tables.storable(text) for text in texts]
    missing = dict.fromkeys(stored).keys() - known().keys()
    if missing:
        connection.execute(table.insert(), [{column: text} for text in dict.fromkeys(stored) if text in missing])
    numbers = known()
    return [numbers[text] for text in stored]


def insert_readings(connection: Connection, run: int, readings: Mapping[str, Reading]) -> None:
    """`readings`: of the time, by case."""
    layouts = [json.dumps(list(reading.counters)) for reading in readings.values()]
    cases = _numbers(connection, tables.cases, "name", list(readings))
    rows = [
        {
            "run_id": run,
            "case_id": case,
            "state": reading.state.value,
            "reason": reading.reason or reading.doubt,
            "noisy": bool(reading.doubt),
            "seconds": reading.value,
            "layout_id": layout,
            "counters": struct.pack(f"<{len(reading.counters)}d", *reading.counters.values()),
        }
        for case, layout, reading in zip(
            cases, _numbers(connection, tables.layouts, "names", layouts), readings.values(), strict=True
        )
    ]
    if rows:
        connection.execute(tables.readings.insert(), rows)


def open_store(where: str, *, create: bool = False) -> Store:
    """`where`: a path, sqlite:///PATH or postgresql://…. Raises UnusableInputError if it is not a history, or if a
    newer program wrote it. That of an older one is brought up to date.
    """
    database = open_database(where, create)
    upgrade(database)
    return Store(database)


class Store:
    """Every method raises UnusableInputError where the database fails; writes are complete or absent."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.database.close()

    def add(self, record: Record, started: datetime | None = None) -> Added:
        """`started`: when the run began, in place of its own date."""
        new = run_of(record, started=started)
        count = len(record.result.by_name())
        with self.database.writing() as connection:
            found = _found_run(connection, record)
            if found is not None:
                number, replaces = found
                known = self._run(connection, number)
                if not replaces:
                    return Added(known, False, count)
                new = replace(new, id=number, started=started or known.started)
                connection.execute(delete(tables.runs).where(tables.runs.c.id == number))
            machine_known = _is_known(connection, tables.machines, new.machine)
            toolchain_known = _is_known(connection, tables.toolchains, new.toolchain)
            run = self._run(connection, _insert_run(connection, record, new))
        return Added(run, found is None, count, found is not None, not machine_known, not toolchain_known)

    def known(self, record: Record) -> Run | None:
        """The run of this record, if it was added."""
        with self.database.reading() as connection:
            found = _found_run(connection, record)
            return None if found is None else self._run(connection, found[0])

    def runs(self) -> list[Run]:
        """Oldest first."""
        with self.database.reading() as connection:
            return self._runs(connection)

    def run(self, number: int) -> Run:
        with self.database.reading() as connection:
            return self._run(connection, number)

    def _run(self, connection: Connection, number: int) -> Run:
        found = self._runs(connection, number)
        if not found:
            raise self.database.refused(f"has no run {number}; {reporter()} history list shows which there are")
        return found[0]

    def _runs(self, connection: Connection, number: int | None = None) -> list[Run]:
        machines = {row.id: Machine(*row) for row in connection.execute(select(tables.machines))}
        toolchains = {row.id: Toolchain(*row) for row in connection.execute(select(tables.toolchains))}
        wanted = select(tables.runs).order_by(tables.runs.c.started, tables.runs.c.id)
        if number is not None:
            wanted = wanted.where(tables.runs.c.id == number)
        return [
            Run(
                row.id,
                row.digest,
                row.started,
                row.revision,
                machines[row.machine_id],
                toolchains[row.toolchain_id],
                row.context,
                row.name,
            )
            for row in connection.execute(wanted)
        ]

    def series(self, metric: str = TIME.name, pattern: str = "*") -> list[Series]:
        """Sorted by case. A case without this metric, because no run measured it, has a series of the time instead."""
        found = [series for series in self.history(metric) if fnmatchcase(series.case, pattern)]
        return sorted(found, key=lambda series: (series.case, series.machine.label, series.toolchain.label, series.key))

    def history(self, metric: str, *, run_limit: int | None = None) -> dict[Series, list[Reading]]:
        """Every series of a metric, each oldest first. `run_limit`: the newest runs of each machine and toolchain."""
        with self.database.reading() as connection:
            runs = self._runs(connection)
            kept = runs if run_limit is None else _newest(runs, run_limit)
            is_all = len(kept) == len(runs)
            chosen = true() if is_all else tables.readings.c.run_id.in_([run.id for run in kept])
            return {
                series: readings
                for series, readings in self._readings(connection, metric, kept, chosen).items()
                if metric == TIME.name or any(reading.value is not None for reading in readings)
            }

    def readings(self, series: Series) -> list[Reading]:
        """Oldest first."""
        with self.database.reading() as connection:
            runs = [run for run in self._runs(connection) if run.environment == series.environment]
            # By the name as it is read: the database of another program may have what Words makes inert.
            cases = connection.execute(select(tables.cases.c.id, tables.cases.c.name))
            chosen = tables.readings.c.case_id.in_([case.id for case in cases if case.name == series.case])
            return self._readings(connection, series.metric, runs, chosen).get(series, [])

    def _readings(
        self, connection: Connection, metric: str, runs: Sequence[Run], chosen: ColumnElement[bool]
    ) -> dict[Series, list[Reading]]:
        """The chosen ones of `runs`, in the order of the runs."""
        cases = connection.execute(select(tables.cases.c.id, tables.cases.c.name))
        names = {case.id: case.name for case in cases}
        layouts = {
            number: {inert(sound(name, str)): place * _DOUBLE.size for place, name in enumerate(json.loads(text))}
            for number, text in connection.execute(select(tables.layouts.c.id, tables.layouts.c.names))
        }
        states = {state.value: state for state in State}
        places = {run.id: place for place, run in enumerate(runs)}
        groups: dict[tuple[int, Environment], list[tuple[int, Reading]]] = {}
        for run_id, case_id, state, reason, noisy, seconds, layout_id, data in connection.execute(
            select(tables.readings).where(chosen)
        ):
            place = places.get(run_id)
            if place is None:
                continue
            counters = Counters(layouts[layout_id], data)
            if seconds is not None:
                sound(seconds, float)
            value = seconds if metric == TIME.name else counters.get(metric)
            # Earlier programs wrote no reason.
            reason, doubt = ("", reason or "noisy") if noisy else (reason, "")
            if seconds is not None and not doubt:  # nor knew all of today's reasons
                doubt = doubt_of_median(counters)
            reading = Reading(runs[place], value, states[state], reason, doubt, counters)
            groups.setdefault((case_id, reading.run.environment), []).append((place, reading))
        found: dict[Series, list[Reading]] = {}
        for (case_id, _), placed in groups.items():
            readings = [reading for _, reading in sorted(placed, key=lambda pair: pair[0])]
            run = readings[0].run
            found[Series(names[case_id], metric, run.machine, run.toolchain)] = readings
        return found

    def record(self, run: Run) -> Record:
        with self.database.reading() as connection:
            return self.record_of(connection, run)

    def record_of(self, connection: Connection, run: Run) -> Record:
        kept = select(tables.records.c.text).where(tables.records.c.run_id == run.id)
        try:
            return of_text(Path(run.name), tables.unpacked(connection.execute(kept).scalar_one()))
        except NoResultFound as error:
            raise self.database.refused(f"run {run.id}: its record is missing") from error
        except (UnusableInputError, TypeError, ValueError) as error:
            raise self.database.refused(f"run {run.id}: its record cannot be read: {error}") from error

    def case_details(self, run: Run) -> dict[str, CaseDetails]:
        return details_of(self.record(run))

    def accept(self, pattern: str, since: datetime, why: str, machine_id: str = "", kind: str = KINDS[0]) -> Annotation:
        if kind not in KINDS or len(machine_id) > 12:
            raise UnusableInputError("an annotation is of a kind and a machine that a history knows")
        row = {
            "pattern": pattern,
            "machine_id": machine_id,
            "since": since,
            "why": why,
            "kind": kind,
            "made": datetime.now(timezone.utc),
        }
        with self.database.writing() as connection:
            number = connection.execute(tables.remarks.insert().values(row)).inserted_primary_key[0]  # type: ignore[index]
        return next(annotation for annotation in self.annotations() if annotation.id == number)

    def annotations(self) -> list[Annotation]:
        """In the order in which they were made."""
        with self.database.reading() as connection:
            rows = connection.execute(select(tables.remarks).order_by(tables.remarks.c.id))
            found = [Annotation(*row) for row in rows]
        # A profile alone has lines.
        return [one if one.kind == PROFILE else replace(one, why=inert(one.why)) for one in found]


def _newest(runs: Iterable[Run], limit: int) -> list[Run]:
    """The newest runs of each machine and toolchain, oldest first."""
    runs = list(runs)
    kept = {run.id for group in by_environment(runs).values() for run in group[-limit:]}
    return [run for run in runs if run.id in kept]
