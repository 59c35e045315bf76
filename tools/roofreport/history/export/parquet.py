# SPDX-License-Identifier: Apache-2.0
"""Apache Parquet: a row a case and run, a column a fact, one of each counter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from roofreport.history.export.row import Row

# Column, type and value.
_COLUMNS: tuple[tuple[str, Any, Callable[[Row], Any]], ...] = (
    ("case", pa.string(), lambda row: row.case),
    ("run", pa.int64(), lambda row: row.run.id),
    ("digest", pa.string(), lambda row: row.run.digest),
    ("started", pa.timestamp("us", tz="UTC"), lambda row: row.run.started),
    ("revision", pa.string(), lambda row: row.run.revision),
    ("machine", pa.string(), lambda row: row.run.machine.label),
    ("machine_id", pa.string(), lambda row: row.run.machine.id),
    ("toolchain", pa.string(), lambda row: row.run.toolchain.label),
    ("toolchain_id", pa.string(), lambda row: row.run.toolchain.id),
    ("file", pa.string(), lambda row: row.run.name),
    ("state", pa.string(), lambda row: row.reading.state.value),
    ("reason", pa.string(), lambda row: row.reading.reason),
    ("noisy", pa.bool_(), lambda row: row.reading.noisy),
    ("seconds", pa.float64(), lambda row: row.seconds),
)
# A counter may be called as a column is.
_PREFIX = "counter."


def write(file: BinaryIO, rows: Sequence[Row]) -> None:
    counters = dict.fromkeys(name for row in rows for name in row.reading.counters)
    arrays = {name: pa.array([value(row) for row in rows], kind) for name, kind, value in _COLUMNS}
    for name in counters:
        values = [row.reading.counters.get(name) for row in rows]
        arrays[_PREFIX + name] = pa.array(values, pa.float64())
    pq.write_table(pa.table(arrays), file, compression="zstd")
