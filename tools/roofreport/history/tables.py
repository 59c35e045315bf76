# SPDX-License-Identifier: Apache-2.0
"""The tables of a history. All else in it follows from `documents`, the result files as they were written."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

VERSION = 1
# SQLite's mark of whose file it is: "roof".
APPLICATION_ID = 0x726F6F66
# PostgreSQL's lock that every writer holds.
WRITERS_LOCK = 0x726F6F66

metadata = MetaData()
_ROWID = BigInteger().with_variant(Integer, "sqlite")

meta = Table(
    "roofbench_meta",
    metadata,
    Column("key", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)


def _described(name: str) -> Table:
    """A table of shared facts of runs: one row for each set, under the start of its digest."""
    return Table(
        name,
        metadata,
        Column("id", String(12), primary_key=True),
        Column("label", Text, nullable=False),
        Column("facts", Text, nullable=False),  # JSON
    )


machines = _described("roofbench_machines")
toolchains = _described("roofbench_toolchains")
runs = Table(
    "roofbench_runs",
    metadata,
    Column("id", _ROWID, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    # As the digest, but without date and host, which a journal lacks.
    Column("content", String(64), nullable=False, index=True),
    Column("dated", Boolean, nullable=False),
    Column("started", DateTime, nullable=False),  # UTC
    Column("revision", Text, nullable=False),
    Column("machine_id", ForeignKey(machines.c.id), nullable=False),
    Column("toolchain_id", ForeignKey(toolchains.c.id), nullable=False),
    Column("context", Text, nullable=False),  # JSON
    Column("name", Text, nullable=False),
)
documents = Table(
    "roofbench_documents",
    metadata,
    Column("run_id", ForeignKey(runs.c.id, ondelete="CASCADE"), primary_key=True),
    Column("kind", String(10), primary_key=True),
    Column("digest", String(64), nullable=False),  # of the text
    Column("text", LargeBinary, nullable=False),  # zlib
)
cases = Table(
    "roofbench_cases",
    metadata,
    Column("id", _ROWID, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)
# The names of a row of counters: hundreds of thousands of readings share a few of them.
layouts = Table(
    "roofbench_layouts",
    metadata,
    Column("id", _ROWID, primary_key=True),
    Column("names", Text, nullable=False, unique=True),  # JSON
)
readings = Table(
    "roofbench_readings",
    metadata,
    Column("run_id", ForeignKey(runs.c.id, ondelete="CASCADE"), primary_key=True),
    Column("case_id", ForeignKey(cases.c.id), primary_key=True),
    Column("state", String(12), nullable=False),
    Column("reason", Text, nullable=False),
    Column("noisy", Boolean, nullable=False),
    Column("seconds", Double),  # median over repetitions; null: not measured
    Column("layout_id", ForeignKey(layouts.c.id), nullable=False),
    Column("counters", LargeBinary, nullable=False),  # doubles, little-endian, in the order of the layout
)
Index("roofbench_readings_of_case", readings.c.case_id)
remarks = Table(
    "roofbench_annotations",
    metadata,
    Column("id", _ROWID, primary_key=True),
    Column("pattern", Text, nullable=False),
    Column("machine_id", String(12), nullable=False),
    Column("since", DateTime, nullable=False),  # UTC
    Column("why", Text, nullable=False),
    Column("kind", String(10), nullable=False),
    Column("made", DateTime, nullable=False),  # UTC
)
