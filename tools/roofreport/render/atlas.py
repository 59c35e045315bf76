# SPDX-License-Identifier: Apache-2.0
"""The records of an atlas, and published figures, as tables of a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from roofreport import units
from roofreport.compare.machine import LATENCY, PRODUCT, Passport
from roofreport.io.load import load
from roofreport.render.formats import Cell, Column, Table, figure, markdown, table, words

PUBLISHED = "published.json"
_CEILINGS = (
    "read",
    "copy",
    LATENCY,
    "fp32",
    "bf16",
    "int8",
    "fp64",
    *(f"{PRODUCT} {dtype}" for dtype in ("fp32", "bf16", "int8", "fp64")),
)


def passports(folder: Path) -> dict[str, Passport]:
    """By the name of the machine, which is that of its record."""
    return {path.stem: Passport([load(path)]) for path in sorted(folder.glob("*.jsonl"))}


def published(folder: Path) -> list[dict[str, Any]]:
    """Figures of others: `figure`, `unit`, `what`, `hardware`, `source`."""
    path = folder / PUBLISHED
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return rows


def _levels(passport: Passport) -> str:
    """ "to 64 KiB 252 GB/s, …", of reads with the fewest threads that have levels."""
    found = next((memory for memory in passport.memory if len(memory.levels) > 1), None)
    if found is None:
        return ""
    levels = (level for level in found.levels[:-1] if "read" in level.values)
    return ", ".join(f"to {units.size(one.largest)} {units.quantity(one.values['read'], 'B/s')}" for one in levels)


def machines_table(machines: dict[str, Passport]) -> Table:
    def ceiling(name: str) -> Callable[[str], Cell]:
        def cell(machine: str) -> Cell:
            found = machines[machine].ceilings.get(name)
            shown = figure(
                found.trusted if found else None, lambda value: units.spelled(value, found.unit if found else "")
            )
            return Cell("in doubt") if found and found.doubt else shown

        return cell

    def fact(name: str, length: int) -> Callable[[str], Cell]:
        return lambda machine: words(machines[machine].context.get(name, "")[:length])

    columns: list[Column[str]] = [
        ("machine", words),
        ("device", fact("device", 80)),
        ("threads", lambda machine: figure(machines[machine].threads or None, str)),
        *((name, ceiling(name)) for name in _CEILINGS),
        ("caches of a thread (read)", lambda machine: words(_levels(machines[machine]))),
        ("measured", fact("started", len("2026-01-31"))),
    ]
    return table(machines, columns).without_empty_columns()


def _as_published(value: float, unit: str) -> str:
    """With its four digits."""
    return (
        units.quantity(value, unit, 4) if unit.endswith("/s") and value >= 1e6 else f"{units.digits(value, 4)} {unit}"
    )


def published_table(rows: Iterable[dict[str, Any]]) -> Table:
    columns: list[Column[dict[str, Any]]] = [
        ("published", lambda row: words(row["what"])),
        ("hardware", lambda row: words(row["hardware"])),
        ("figure", lambda row: figure(row["figure"], lambda value: _as_published(value, row["unit"]))),
        ("source", lambda row: words(row["source"])),
    ]
    return table(rows, columns)


def lines(folder: Path) -> list[str]:
    """Of Markdown."""
    found = [machines_table(passports(folder)), published_table(published(folder))]
    return "\n".join(markdown(one) for one in found if one.rows).splitlines()
