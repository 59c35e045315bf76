# SPDX-License-Identifier: Apache-2.0
"""Rows and columns, before they get a format."""

from __future__ import annotations

from dataclasses import dataclass


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
