# SPDX-License-Identifier: Apache-2.0
"""Rows and columns, before they get a format."""

from __future__ import annotations

from dataclasses import dataclass

# Of one kind, as counters by a pattern: with every row and counter of a file it would grow by its square.
MOST_COLUMNS = 32


@dataclass(frozen=True)
class Cell:
    text: str = ""
    value: float | None = None  # as a file for machines has it
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    legend: tuple[str, ...] = ()

    def without_empty_columns(self) -> Table:
        kept = [i for i in range(len(self.headers)) if any(row[i].text for row in self.rows)]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return Table(tuple(self.headers[i] for i in kept), rows, self.legend)
