# SPDX-License-Identifier: Apache-2.0
"""Result files as a history keeps them: whole, with a digest that distinguishes runs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

from roofreport.errors import UnusableInputError
from roofreport.history.records import JOURNAL, JSON, CaseDetails, Document
from roofreport.io import case_name
from roofreport.io.load import result_of
from roofreport.io.result import Case, Result, State, merged
from roofreport.io.source import LARGEST_FILE, read_text

# Samples are noise in their last digits, which no level compresses; this one is the fastest but one.
_LEVEL = 2


def of_file(path: Path) -> tuple[Result, Document]:
    """Raises UnusableInputError."""
    return of_text(path, read_text(path))


def of_text(path: Path, text: str) -> tuple[Result, Document]:
    written = result_of(path, text)
    # Only Google Benchmark's context must have a date.
    kind = JSON if "date" in written.context else JOURNAL
    return written, Document(kind, text, written)


def of_result(result: Result) -> Document:
    """The document of a result without a file: as Google Benchmark would write it."""
    context = result.context | {"date": result.date, "host_name": result.host}
    rows = [_row(case) for case in result.cases]
    return Document(JSON, json.dumps({"context": context, "benchmarks": rows}), result)


def _row(case: Case) -> dict[str, Any]:
    name = case.name + case_name.MANUAL_TIME
    row: dict[str, Any] = {
        "name": name,
        "run_name": name,
        "run_type": "iteration",
        "repetition_index": case.repetition,
        "real_time": case.seconds,
        "cpu_time": case.cpu_seconds,
        "time_unit": "s",
        "label": case.stop,
        **case.counters,
    }
    if case.state is not State.MEASURED:
        row |= {"error_occurred": True, "error_message": f"{case.state.value}: {case.reason}"}
    return row


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
    has neither date nor host.

    Nine digits: the two formats round differently.
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
        lines = _lines(document.text) if document.kind == JOURNAL else {}
        for name, repetitions in document.written.by_name().items():
            found[name] = _details(merged(repetitions), lines.get(name, []))
    return found


def _lines(text: str) -> dict[str, list[dict[str, Any]]]:
    """A journal's lines by case. They were checked when they were read as a result; the last one may be cut off."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for raw in text.split("\n")[1:]:
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        groups.setdefault(line["name"], []).append(line)
    return groups


def _details(case: Case, lines: list[dict[str, Any]]) -> CaseDetails:
    samples: list[float] = []
    ratios: list[float] = []
    chunks: list[dict[str, float]] = []
    phases: dict[str, list[float]] = {}
    for line in lines:
        samples += line.get("samples_s", [])
        ratios += line.get("roof", {}).get("ratios", [])
        chunks += line.get("chunks", [])
        for phase, times in line.get("phase_samples_s", {}).items():
            phases.setdefault(phase, []).extend(times)
    roof = next((line["roof"]["name"] for line in lines if "roof" in line), "")
    return CaseDetails(samples, roof, ratios, chunks, phases, case.counters, case.stop, case.state, case.reason)
