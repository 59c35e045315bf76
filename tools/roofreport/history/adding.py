# SPDX-License-Identifier: Apache-2.0
"""Writes a run into the tables."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import Connection, Table, select

from roofreport.history import document as documents
from roofreport.history import tables
from roofreport.history.fingerprint import machine_of, toolchain_of
from roofreport.history.records import Document, Machine, Toolchain
from roofreport.io.result import Result, State, merged

_MOST_IN_ONE_QUERY = 500


def naive(moment: datetime) -> datetime:
    """As the tables have it: UTC without saying so."""
    return moment.astimezone(timezone.utc).replace(tzinfo=None)


def storable(text: str) -> str:
    """Neither database takes every text that JSON can spell."""
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
    """Writes it where it is new."""
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
    """Of texts that many rows share, each of which is written once."""
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
