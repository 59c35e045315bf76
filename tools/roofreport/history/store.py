# SPDX-License-Identifier: Apache-2.0
"""A history of runs: adding and reading."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, select

from roofreport.errors import UnusableInputError
from roofreport.history import document as documents
from roofreport.history import tables
from roofreport.history.database import Database, open_database
from roofreport.history.records import (
    KINDS,
    Added,
    Annotation,
    CaseDetails,
    Document,
    Machine,
    Reading,
    Run,
    Series,
    Toolchain,
    machine_of,
    toolchain_of,
)
from roofreport.io.contract import TIME
from roofreport.io.result import Result, State, merged

_Kind = TypeVar("_Kind")


def sound(value: object, kind: type[_Kind]) -> _Kind:
    """Raises TypeError for a value of another type."""
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} has to be")
    return value


_DOUBLE = struct.Struct("<d")


class Layouts(dict[int, dict[str, int]]):
    """Number of a layout to its names and their places in bytes."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        for number, names in connection.execute(select(tables.layouts.c.id, tables.layouts.c.names)):
            self[number] = {sound(name, str): place * _DOUBLE.size for place, name in enumerate(json.loads(names))}


class Counters(Mapping[str, float]):
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


_MOST_IN_ONE_QUERY = 500


def naive(moment: datetime) -> datetime:
    """As the tables have it: UTC without a zone."""
    return moment.astimezone(timezone.utc).replace(tzinfo=None)


def storable(text: str) -> str:
    """Both databases reject some text that JSON can spell."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def found_run(connection: Connection, document: Document) -> int | None:
    """The run that this file is of, if it is there: from this file, or from the other one of the same process."""
    digest, content = documents.digests(document)
    runs = tables.runs.c
    same = connection.execute(select(runs.id).where(runs.digest == digest)).scalar()
    if same is not None:
        return int(same)
    other = select(runs.id).where(runs.content == content).order_by(runs.id)
    if document.written.date:
        other = other.where(~runs.dated)
    return connection.execute(other).scalar()


def _known(connection: Connection, table: Table, row: Machine | Toolchain) -> bool:
    """Whether the row was there; writes it if it was not."""
    if connection.execute(select(table.c.id).where(table.c.id == row.id)).scalar() is not None:
        return True
    facts = json.dumps(dict(row.facts), sort_keys=True)
    connection.execute(table.insert().values(id=row.id, label=storable(row.label), facts=facts))
    return False


def insert_run(connection: Connection, result: Result, document: Document, started: datetime) -> tuple[int, bool, bool]:
    """The run's number, and whether its machine and its toolchain were known."""
    digest, content = documents.digests(document)
    machine, toolchain = machine_of(result.context), toolchain_of(result.context, document.contract)
    known = _known(connection, tables.machines, machine), _known(connection, tables.toolchains, toolchain)
    revision = result.context.get("roofbench_revision", "")
    inserted = connection.execute(
        tables.runs.insert().values(
            digest=digest,
            content=content,
            dated=bool(document.written.date),
            started=naive(started),
            revision="" if revision == "unknown" else storable(revision),
            machine_id=machine.id,
            toolchain_id=toolchain.id,
            context=json.dumps(result.context),
            name=storable(result.path.name),
        )
    )
    number = int(inserted.inserted_primary_key[0])  # type: ignore[index]
    insert_document(connection, number, document)
    insert_readings(connection, number, result)
    return number, *known


def has_document(connection: Connection, run: int, kind: str) -> bool:
    there = select(tables.documents.c.run_id).where(tables.documents.c.run_id == run, tables.documents.c.kind == kind)
    return connection.execute(there).scalar() is not None


def insert_document(connection: Connection, run: int, document: Document) -> None:
    connection.execute(
        tables.documents.insert().values(
            run_id=run,
            kind=document.kind,
            digest=documents.text_digest(document.text),
            text=documents.packed(document.text),
        )
    )


def _numbers(connection: Connection, table: Table, column: str, texts: Sequence[str]) -> dict[str, int]:
    """The numbers of texts that many rows share: each text is written once."""
    wanted = list(dict.fromkeys(texts))
    found: dict[str, int] = {}

    def look() -> None:
        for start in range(0, len(wanted), _MOST_IN_ONE_QUERY):
            part = wanted[start : start + _MOST_IN_ONE_QUERY]
            rows = connection.execute(select(table.c[column], table.c.id).where(table.c[column].in_(part)))
            found.update((text, number) for text, number in rows)

    look()
    missing = [{column: text} for text in wanted if text not in found]
    if missing:
        connection.execute(table.insert(), missing)
        look()
    return found


def insert_readings(connection: Connection, run: int, result: Result) -> None:
    merged_cases = [merged(repetitions) for repetitions in result.by_name().values()]
    rows: list[dict[str, Any]] = []
    case_names = [storable(case.name) for case in merged_cases]
    layout_names = [json.dumps(list(case.counters)) for case in merged_cases]
    cases = _numbers(connection, tables.cases, "name", case_names)
    layouts = _numbers(connection, tables.layouts, "names", layout_names)
    for case, name, layout in zip(merged_cases, case_names, layout_names, strict=True):
        rows.append(
            {
                "run_id": run,
                "case_id": cases[name],
                "state": case.state.value,
                "reason": storable(case.reason),
                "noisy": case.counters.get("noisy", 0.0) > 0,
                "seconds": case.seconds if case.state is State.MEASURED else None,
                "layout_id": layouts[layout],
                "counters": struct.pack(f"<{len(case.counters)}d", *case.counters.values()),
            }
        )
    if rows:
        connection.execute(tables.readings.insert(), rows)


def open_store(where: str, *, create: bool = False) -> Store:
    """`where`: a path, sqlite:///PATH or postgresql://…. Raises UnusableInputError if it is not a history, or if a
    newer program wrote it.
    """
    return Store(open_database(where, create))


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

    def add_file(self, path: Path, started: datetime | None = None) -> Added:
        """A journal or Google Benchmark's JSON, kept whole. `started`: when it began, in place of its own date; a
        journal lacks a date and is as old as its file.
        """
        result, document = documents.of_file(path)
        written = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        return self.add(result, document, started or documents.moment(result.date) or written)

    def add(self, result: Result, document: Document | None = None, started: datetime | None = None) -> Added:
        """`document`: the file that `result` is of; without it the result is kept without samples. `started`: when it
        began, in place of its own date.
        """
        document = document or documents.of_result(result)
        started = started or documents.moment(result.date) or datetime.now(timezone.utc)
        count = len(result.by_name())
        with self.database.writing() as connection:
            number = found_run(connection, document)
            if number is not None:
                completed = not has_document(connection, number, document.kind)
                if completed:
                    insert_document(connection, number, document)
                return Added(self._run(connection, number), False, count, completed)
            number, machine_known, toolchain_known = insert_run(connection, result, document, started)
            run = self._run(connection, number)
        return Added(run, True, count, False, not machine_known, not toolchain_known)

    def runs(self, machine_id: str | None = None) -> list[Run]:
        """Oldest first."""
        with self.database.reading() as connection:
            found = self.runs_in(connection)
        return [run for run in found if machine_id in (None, run.machine.id)]

    def newest(self, limit: int) -> list[Run]:
        """The newest runs of each machine and toolchain, oldest first."""
        return list(_newest(self.runs(), limit).values())

    def run(self, number: int) -> Run:
        with self.database.reading() as connection:
            return self._run(connection, number)

    def _run(self, connection: Connection, number: int) -> Run:
        found = self.runs_in(connection, [number])
        if not found:
            raise self.database.refused(f"has no run {number}; tools/report history list shows which there are")
        return found[0]

    def runs_in(self, connection: Connection, numbers: Sequence[int] | None = None) -> list[Run]:
        """As runs(), within a transaction."""

        def facts_of(table: Table) -> dict[str, tuple[str, str, dict[str, str]]]:
            rows = connection.execute(select(table.c.id, table.c.label, table.c.facts))
            return {
                key: (sound(key, str), sound(label, str), sound(json.loads(facts), dict)) for key, label, facts in rows
            }

        machines = {key: Machine(*row) for key, row in facts_of(tables.machines).items()}
        toolchains = {key: Toolchain(*row) for key, row in facts_of(tables.toolchains).items()}
        column = tables.runs.c
        wanted = select(
            column.id,
            column.digest,
            column.started,
            column.revision,
            column.machine_id,
            column.toolchain_id,
            column.context,
            column.name,
        ).order_by(column.started, column.id)
        if numbers is not None:
            wanted = wanted.where(column.id.in_(numbers))
        return [
            Run(
                number,
                sound(digest, str),
                started.replace(tzinfo=timezone.utc),
                sound(revision, str),
                machines[machine],
                toolchains[toolchain],
                sound(json.loads(context), dict),
                sound(name, str),
            )
            for number, digest, started, revision, machine, toolchain, context, name in connection.execute(wanted)
        ]

    def series(self, metric: str = TIME.name, pattern: str = "*") -> list[Series]:
        """By case, in the order of their names. A case that was never measured has its series of the time."""
        found = [series for series in self.history(metric) if fnmatchcase(series.case, pattern)]
        return sorted(found, key=lambda series: (series.case, series.machine.label, series.toolchain.label, series.key))

    def history(self, metric: str, *, run_limit: int | None = None) -> dict[Series, list[Reading]]:
        """Every series of a metric, each oldest first. `run_limit`: the newest runs of each machine and toolchain."""
        with self.database.reading() as connection:
            runs = self.runs_in(connection)
            kept = _newest(runs, run_limit)
            return self._readings(connection, metric, kept, None if len(kept) == len(runs) else list(kept))

    def readings(self, series: Series) -> list[Reading]:
        """Oldest first."""
        with self.database.reading() as connection:
            runs = {
                run.id: run
                for run in self.runs_in(connection)
                if (run.machine, run.toolchain) == (series.machine, series.toolchain)
            }
            found = self._readings(connection, series.metric, runs, None, series.case)
        return found.get(series, [])

    def _readings(
        self,
        connection: Connection,
        metric: str,
        runs: dict[int, Run],
        only_runs: list[int] | None,
        only_case: str | None = None,
    ) -> dict[Series, list[Reading]]:
        column = tables.readings.c
        wanted = select(
            column.run_id,
            column.case_id,
            column.state,
            column.reason,
            column.noisy,
            column.seconds,
            column.layout_id,
            column.counters,
        )
        if only_runs is not None:
            wanted = wanted.where(column.run_id.in_(only_runs))
        if only_case is not None:
            number = select(tables.cases.c.id).where(tables.cases.c.name == only_case).scalar_subquery()
            wanted = wanted.where(column.case_id == number)
        found_names = connection.execute(select(tables.cases.c.id, tables.cases.c.name))
        names = {number: sound(name, str) for number, name in found_names}
        layouts = Layouts(connection)
        is_time = metric == TIME.name
        states = {state.value: state for state in State}
        rank = {number: place for place, number in enumerate(runs)}
        groups: dict[tuple[int, str, str], list[tuple[int, Reading]]] = {}
        for number, case, state, reason, noisy, seconds, layout, data in connection.execute(wanted):
            run = runs.get(number)
            if run is None:
                continue
            counters = Counters(layouts[layout], data)
            if seconds is not None:
                sound(seconds, float)
            value = seconds if is_time else counters.get(metric)
            reading = Reading(run, value, states[state], sound(reason, str), noisy, counters)
            groups.setdefault((case, run.machine.id, run.toolchain.id), []).append((rank[number], reading))
        found: dict[Series, list[Reading]] = {}
        for (case, _, _), readings in groups.items():
            if is_time or any(reading.value is not None for _, reading in readings):
                readings.sort(key=lambda pair: pair[0])
                run = readings[0][1].run
                series = Series(names[case], metric, run.machine, run.toolchain)
                found[series] = [reading for _, reading in readings]
        return found

    def documents(self, run: Run) -> list[Document]:
        """The files of a run, as they were written; the one with a date and a host first."""
        with self.database.reading() as connection:
            return self.documents_in(connection, run)

    def documents_in(self, connection: Connection, run: Run) -> list[Document]:
        """As documents(), within a transaction."""
        column = tables.documents.c
        rows = connection.execute(select(column.kind, column.text).where(column.run_id == run.id)).all()
        kept = [(kind, documents.unpacked(data, f"{self.database.name}: run {run.id}")) for kind, data in rows]
        return [documents.of_text(Path(run.name), text)[1] for _, text in sorted(kept, reverse=True)]

    def case_details(self, run: Run) -> dict[str, CaseDetails]:
        return documents.details(self.documents(run))

    def result(self, run: Run) -> Result:
        """As the file that was added; where both formats were, the one with a date."""
        kept = self.documents(run)
        if not kept:
            raise self.database.refused(f"run {run.id} has lost its file")
        return kept[0].written

    def accept(self, pattern: str, since: datetime, why: str, machine_id: str = "", kind: str = KINDS[0]) -> Annotation:
        made = datetime.now(timezone.utc)
        row = {
            "pattern": storable(pattern),
            "machine_id": machine_id,
            "since": naive(since),
            "why": storable(why),
            "kind": kind,
            "made": naive(made),
        }
        if kind not in KINDS or len(machine_id) > 12:
            raise UnusableInputError("an annotation is of a kind and a machine that a history knows")
        with self.database.writing() as connection:
            number = connection.execute(tables.remarks.insert().values(row)).inserted_primary_key[0]  # type: ignore[index]
        return next(annotation for annotation in self.annotations() if annotation.id == number)

    def annotations(self) -> list[Annotation]:
        """In the order in which they were made."""
        with self.database.reading() as connection:
            rows = connection.execute(select(tables.remarks).order_by(tables.remarks.c.id)).all()
            return [
                Annotation(
                    row.id,
                    sound(row.pattern, str),
                    sound(row.machine_id, str),
                    row.since.replace(tzinfo=timezone.utc),
                    sound(row.why, str),
                    sound(row.kind, str),
                    row.made.replace(tzinfo=timezone.utc),
                )
                for row in rows
            ]


def _newest(runs: Iterable[Run], limit: int | None) -> dict[int, Run]:
    groups: dict[tuple[str, str], list[Run]] = {}
    runs = list(runs)
    if limit is None:
        return {run.id: run for run in runs}
    for run in runs:
        groups.setdefault((run.machine.id, run.toolchain.id), []).append(run)
    kept = {run.id for group in groups.values() for run in group[-limit:]}
    return {run.id: run for run in runs if run.id in kept}
