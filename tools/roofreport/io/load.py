# SPDX-License-Identifier: Apache-2.0
"""Result files, whichever of the two formats they have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofreport.errors import UnusableInputError
from roofreport.io import google_benchmark, journal, renames, strict_json
from roofreport.io.hardware import differences
from roofreport.io.result import Case, Result
from roofreport.io.source import read_text, refuse
from roofreport.text import printable


def load(path: Path) -> Result:
    """With today's names of cases. Raises UnusableInputError that names the file."""
    return of_today(as_written(path, read_text(path)))


def of_today(result: Result) -> Result:
    """A file of an older program than these reports gets today's names, and a note that says which."""
    contract = renames.in_force(result.contract)
    if contract is None:
        return result
    cases: list[Case] = []
    changes: list[str] = []
    for case in result.cases:
        name, changed = renames.today(case.name, contract)
        cases.append(replace(case, name=name))
        changes += changed
    note = renames.note(changes)
    notes = (*result.notes, note) if note else result.notes
    return replace(result, cases=tuple(cases), notes=notes, renamed=bool(note), contract=contract)


def _parsed(text: str) -> tuple[Any, strict_json.StrictJsonError | None]:
    try:
        return strict_json.parse(text), None
    except strict_json.StrictJsonError as error:
        return None, error


def as_written(path: Path, text: str) -> Result:
    """The result that `text`, which `path` holds, is: with the names of cases that it gives them."""
    first, _, rest = text.partition("\n")
    document, broken = _parsed(first)
    if isinstance(document, dict) and "schema" in document:
        return journal.read(path, text, document)
    if rest.strip():
        document, broken = _parsed(text)
    if broken is not None:
        if not text.lstrip().startswith("{"):
            raise refuse(path, "is neither Google Benchmark's JSON nor a journal of roofbench") from broken
        kind = "is cut off" if broken.at_end else "is damaged"
        raise refuse(path, f"{kind}: {broken}") from broken
    if not isinstance(document, dict):
        raise refuse(path, "is JSON, but no result of roofbench")
    return google_benchmark.read(path, document)


def expand(patterns: Iterable[str]) -> list[Path]:
    """File names, and patterns that the shell has left alone."""
    paths: list[Path] = []
    for pattern in patterns:
        path = Path(pattern)
        if not any(character in path.name for character in "*?[") or path.exists():
            paths.append(path)
            continue
        found = sorted(path.parent.glob(path.name))
        if not found:
            raise UnusableInputError(f"{printable(pattern)}: matches no file")
        paths += found
    return paths


COMPARABLE = ".comparable.json"


def without_copies(paths: Sequence[Path]) -> list[Path]:
    """A pattern as run-*.json finds the copy for compare.py too, which would count as a second process."""
    given = set(paths)
    return [
        path
        for path in paths
        if not (path.name.endswith(COMPARABLE) and path.with_name(path.name.replace(COMPARABLE, ".json")) in given)
    ]


def load_all(patterns: Sequence[str]) -> list[Result]:
    """Results that are several processes of one thing: of one machine, or refused."""
    results = [load(path) for path in without_copies(expand(patterns))]
    for other in results[1:]:
        mixed = differences(results[0], other, with_host=True)
        if mixed:
            raise UnusableInputError(
                f"{printable(str(results[0].path))} and {printable(str(other.path))} are of different machines"
                f" ({', '.join(mixed)}): they cannot be one side of a comparison"
            )
    return results
