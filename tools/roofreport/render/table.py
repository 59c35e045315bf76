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
