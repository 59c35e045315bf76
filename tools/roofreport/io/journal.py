# SPDX-License-Identifier: Apache-2.0
"""The journal: a header, then one JSON line a finished case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roofreport.io import described, strict_json
from roofreport.io.result import Case, Result, State
from roofreport.io.schemas import violation
from roofreport.io.source import refuse
from roofreport.text import printable

SCHEMA = "roofbench-journal-1"
CUT_OFF = "the last line is cut off: its case is left out"


def _case(line: dict[str, Any]) -> Case:
    return Case(
        name=line["name"],
        repetition=line["repetition"],
        state=State(line["verdict"]),
        reason=line.get("reason", ""),
        seconds=line.get("median_s", 0.0),
        cpu_seconds=line.get("cpu_s", 0.0),
        flops=line.get("flops", 0.0),
        bytes=line.get("bytes", 0.0),
        stop=line.get("stop", ""),
        counters={key: float(value) for key, value in line.get("counters", {}).items()},
        samples=line.get("samples_s", ()),
    )


def _after_the_first(text: str) -> Iterator[tuple[str, bool]]:
    """Line by line, and whether each has its end: a list of all would take many times the file."""
    start = text.find("\n") + 1
    while 0 < start < len(text):
        end = text.find("\n", start)
        yield text[start : end if end >= 0 else None], end >= 0
        start = end + 1


def read(path: Path, text: str, header: dict[str, Any]) -> Result:
    """`header` is the first line's value."""
    if header["schema"] != SCHEMA:
        raise refuse(path, f"has the schema {str(header['schema'])[:60]!r}; this program reads {SCHEMA!r}")
    wrong = violation(header, "journal", "header")
    if wrong:
        raise refuse(path, f"line 1 does not fit the schema of journals: {wrong}")
    cases: list[Case] = []
    notes: list[str] = []
    seen: set[tuple[str, int]] = set()
    for number, (raw, ended) in enumerate(_after_the_first(text), 2):
        try:
            line = strict_json.parse(raw)
        except strict_json.StrictJsonError as error:
            if not ended and error.at_end:
                notes.append(CUT_OFF)
                break
            raise refuse(path, f"line {number} is damaged: {error}") from error
        if isinstance(line, dict) and "schema" in line:
            raise refuse(path, f"holds several journals mixed together (line {number} is a header)")
        wrong = violation(line, "journal", "case")
        if wrong:
            raise refuse(path, f"line {number} does not fit the schema of journals: {wrong}")
        case = _case(line)
        if (case.name, case.repetition) in seen:
            raise refuse(path, f"has the case {printable(case.name, 300)} (repetition {case.repetition}) twice")
        seen.add((case.name, case.repetition))
        cases.append(case)
    contract = described.read(path, header.get(described.KEY))
    return Result(path, dict(header["context"]), tuple(cases), tuple(notes), contract=contract)
