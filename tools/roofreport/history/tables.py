# SPDX-License-Identifier: Apache-2.0
"""The tables of a history. All else in it follows from `records`."""

from __future__ import annotations

import json
import zlib
from datetime import datetime, timezone
from typing import Any, TypeVar

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
    TypeDecorator,
)

from roofreport.io.source import LARGEST_FILE
from roofreport.text import escaped, inert

VERSION = 2
# The version that kept files of two formats, which roofreport.history.upgrade turns into records, and their table.
WITH_FILES = 1
FILES = "roofbench_documents"
# SQLite's mark of whose file it is: "roof".
APPLICATION_ID = 0x726F6F66
# PostgreSQL's lock that every writer holds.
WRITERS_LOCK = 0x726F6F66

_Kind = TypeVar("_Kind")


def sound(value: object, kind: type[_Kind]) -> _Kind:
    """A value from a database, which another program may have written. Raises TypeError for one of another type."""
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} has to be")
    return value


def storable(text: str) -> str:
    """Both databases reject some text that JSON can spell."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


class Lines(TypeDecorator[str]):
    """Text that another program may have written, of lines."""

    impl: type[String] = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _: object) -> str | None:
        return None if value is None else storable(value)

    def process_result_value(self, value: object, _: object) -> str:
        return escaped(sound(value, str))


class Words(Lines):
    """The same of one line."""

    cache_ok = True

    def process_result_value(self, value: object, _: object) -> str:
        return inert(sound(value, str))


class Token(Words):
    """Text of a limited length."""

    impl = String
    cache_ok = True


class Facts(TypeDecorator[dict[str, str]]):
    """JSON as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, _: object) -> str:
        return json.dumps(dict(value))

    def process_result_value(self, value: Any, _: object) -> dict[str, str]:
        facts = sound(json.loads(value), dict)
        return {inert(name): inert(sound(fact, str)) for name, fact in facts.items()}


class Moment(TypeDecorator[datetime]):
    """Aware here, UTC without a zone in the database."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: object) -> datetime | None:
        return None if value is None else value.astimezone(timezone.utc).replace(tzinfo=None)

    def process_result_value(self, value: Any, _: object) -> datetime:
        return sound(value, datetime).replace(tzinfo=timezone.utc)


# Samples are noise in their last digits, which no level compresses; this one is the fastest but one.
_LEVEL = 2


def packed(text: str) -> bytes:
    return zlib.compress(text.encode(), _LEVEL)


def unpacked(data: object) -> str:
    """Raises TypeError or ValueError for data that packed() has not made."""
    try:
        stream = zlib.decompressobj()
        text = stream.decompress(sound(data, bytes), LARGEST_FILE)
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from error
    if not stream.eof:
        raise ValueError("it is cut off")
    return text.decode()


metadata = MetaData()
_ROWID = BigInteger().with_variant(Integer, "sqlite")

meta = Table(
    "roofbench_meta",
    metadata,
    Column("key", Token(40), primary_key=True),
    Column("value", Text, nullable=False),
)


def _described(name: str) -> Table:
    """A table of shared facts of runs: one row for each set, under the start of its digest."""
    return Table(
        name,
        metadata,
        Column("id", Token(12), primary_key=True),
        Column("label", Words, nullable=False),
        Column("facts", Facts, nullable=False),
    )


machines = _described("roofbench_machines")
toolchains = _described("roofbench_toolchains")
runs = Table(
    "roofbench_runs",
    metadata,
    Column("id", _ROWID, primary_key=True),
    Column("digest", Token(64), nullable=False, unique=True),  # of the record's text
    Column("identity", Token(64), nullable=False, index=True),  # empty: the record does not say when its run began
    Column("converted", Boolean, nullable=False),  # the record was made of Google Benchmark's JSON
    Column("started", Moment, nullable=False),
    Column("revision", Words, nullable=False),
    Column("machine_id", ForeignKey(machines.c.id), nullable=False),
    Column("toolchain_id", ForeignKey(toolchains.c.id), nullable=False),
    Column("context", Facts, nullable=False),
    Column("name", Words, nullable=False),
)
records = Table(
    "roofbench_records",
    metadata,
    Column("run_id", ForeignKey(runs.c.id, ondelete="CASCADE"), primary_key=True),
    Column("text", LargeBinary, nullable=False),  # packed()
)
cases = Table(
    "roofbench_cases",
    metadata,
    Column("id", _ROWID, primary_key=True),
    Column("name", Words, nullable=False, unique=True),
)
# The names of a row of counters: hundreds of thousands of readings share a few of them.
layouts = Table(
    "roofbench_layouts",
    metadata,
    Column("id", _ROWID, primary_key=True),
    Column("names", Words, nullable=False),  # JSON; too long for an index of PostgreSQL
)
readings = Table(
    "roofbench_readings",
    metadata,
    Column("run_id", ForeignKey(runs.c.id, ondelete="CASCADE"), primary_key=True),
    Column("case_id", ForeignKey(cases.c.id), primary_key=True),
    Column("state", Token(12), nullable=False),
    Column("reason", Words, nullable=False),
    Column("noisy", Boolean, nullable=False),  # measured, but not to be judged: the reason says why
    Column("seconds", Double),  # median over repetitions; null: not measured
    Column("layout_id", ForeignKey(layouts.c.id), nullable=False),
    Column("counters", LargeBinary, nullable=False),  # doubles, little-endian, in the order of the layout
)
Index("roofbench_readings_of_case", readings.c.case_id)
remarks = Table(
    "roofbench_annotations",
    metadata,
    Column("id", _ROWID, primary_key=True),
    Column("pattern", Words, nullable=False),
    Column("machine_id", Token(12), nullable=False),
    Column("since", Moment, nullable=False),
    Column("why", Lines, nullable=False),
    Column("kind", Token(10), nullable=False),
    Column("made", Moment, nullable=False),
)
