# SPDX-License-Identifier: Apache-2.0
"""Result files as a history keeps them: whole, with a digest that distinguishes runs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.history.records import CaseDetails, Reading, Run, machine_of, toolchain_of
from roofreport.io.load import result_of
from roofreport.io.reliability import doubt
from roofreport.io.result import Result, State, merged
from roofreport.io.source import LARGEST_FILE, read_text
from roofreport.text import inert

# Samples are noise in their last digits, which no level compresses; this one is the fastest but one.
_LEVEL = 2


@dataclass(frozen=True)
class Document:
    """A result file as it was written."""

    kind: str  # JSON or JOURNAL
    text: str
    written: Result = field(compare=False)


JSON, JOURNAL = "json", "journal"


def of_file(path: Path) -> Document:
    """Raises UnusableInputError."""
    return of_text(path, read_text(path))


def of_text(path: Path, text: str) -> Document:
    written = result_of(path, text)
    return Document(JOURNAL if written.is_record else JSON, text, written)


def run_of(document: Document, number: int = 0, started: datetime | None = None) -> Run:
    """As a history has it. `started`: when it began, in place of its own date; a journal of version 0.1 lacks
    a date and is as old as its file.
    """
    result = document.written
    begun = started or moment(result.date)
    if begun is None:
        begun = datetime.fromtimestamp(result.path.stat().st_mtime, timezone.utc)
    # Results of a separate program change with its own commits.
    revision = result.context.get("program_revision") or result.context.get("roofbench_revision", "")
    return Run(
        number,
        digests(document)[0],
        begun,
        "" if revision == "unknown" else revision,
        machine_of(result.context),
        toolchain_of(result.context, result.contract),
        result.context,
        inert(result.path.name),
    )


def readings_of(document: Document, run: Run, metric: str) -> dict[str, Reading]:
    """By case."""
    found = {}
    for name, repetitions in document.written.by_name().items():
        case = merged(repetitions)
        measured = case.state is State.MEASURED
        value, why = (case.value(metric), doubt(case)) if measured else (None, "")
        found[name] = Reading(run, value, case.state, case.reason, why, case.counters)
    return found


def packed(text: str) -> bytes:
    return zlib.compress(text.encode(), _LEVEL)


def unpacked(data: bytes, name: str) -> str:
    """Raises UnusableInputError for data that packed() has not made."""
    try:
        stream = zlib.decompressobj()
        text = stream.decompress(data, LARGEST_FILE)
        if not stream.eof:
            raise UnusableInputError(f"{name}: the kept file is cut off")
        return text.decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise UnusableInputError(f"{name}: the kept file is damaged: {error}") from error


def text_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _sha(parts: object) -> str:
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def digests(document: Document) -> tuple[str, str]:
    """The digest of the run, and the digest of the content that a journal and a JSON file of one run share. A journal
    of version 0.1 has neither date nor host.

    Nine digits: the two formats have other units of time.
    """
    result = document.written
    facts = {key: value for key, value in result.context.items() if key.startswith(("roof", "device", "seed"))}
    cases = sorted(
        (case.name, case.repetition, case.state.value, f"{case.seconds:.9g}")
        for case in result.cases
        if case.state is not State.INTERRUPTED
    )
    content = _sha([facts, cases])
    return _sha([content, result.date, result.host]), content


def moment(date: str) -> datetime | None:
    """The time from a result's date, which is untrusted; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(date.replace("Z", "+00:00"))
        return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def details(documents: Iterable[Document]) -> dict[str, CaseDetails]:
    """Each case to its details in the files of one run. A journal's samples are those of all repetitions."""
    found: dict[str, CaseDetails] = {}
    for document in sorted(documents, key=lambda document: document.kind == JOURNAL):
        for name, repetitions in document.written.by_name().items():
            samples = [sample for one in repetitions for sample in one.samples]
            found[name] = CaseDetails(samples, merged(repetitions).stop)
    return found
