# SPDX-License-Identifier: Apache-2.0
"""The record of a run: the one form in which a history keeps it, from which all else in the history follows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from roofreport.history.records import CaseDetails, Reading, Run, machine_of, toolchain_of
from roofreport.io.load import STARTED, beginning, distinct_runs, record_text, result_of
from roofreport.io.reliability import doubt
from roofreport.io.result import Result, State, merged
from roofreport.io.source import LARGEST_FILE, read_text, refuse
from roofreport.text import inert


@dataclass(frozen=True)
class Record:
    """As its program wrote it, or as Google Benchmark's JSON was turned into one."""

    text: str
    result: Result = field(compare=False)

    @property
    def is_converted(self) -> bool:
        return not self.result.is_record

    @cached_property
    def digest(self) -> str:
        """Of every figure and fact, each exactly."""
        return sha256(self.text.encode("utf-8")).hexdigest()

    @cached_property
    def identity(self) -> str:
        """What a program's own record has in common with the one that its JSON becomes: how the run began, and its
        cases, but no figures, which the JSON has in other units. Empty: it does not say when it began, as records of
        version 0.2 do not.
        """
        context = self.result.context
        if not context.get(STARTED):
            return ""
        cases = [
            (case.name, case.repetition, case.state.value)
            for case in self.result.cases
            if case.state is not State.INTERRUPTED  # which have no row in JSON
        ]
        parts = [beginning(self.result), sorted(cases)]
        return sha256(json.dumps(parts).encode()).hexdigest()


def of_file(path: Path) -> Record:
    """Raises UnusableInputError."""
    return of_text(path, read_text(path))


def of_files(paths: Iterable[Path]) -> list[Record]:
    """Each run once. Raises UnusableInputError."""
    records = {record.result.path: record for record in map(of_file, paths)}
    return [records[kept.path] for kept in distinct_runs([record.result for record in records.values()])]


def of_text(path: Path, text: str) -> Record:
    """`text`: a record, or JSON of Google Benchmark, which is turned into one here and nowhere else."""
    kept = record_text(path, text)
    if len(kept) > LARGEST_FILE:
        raise refuse(path, "would be a record above 256 MiB, which no history keeps")
    return Record(kept, result_of(path, kept))


def run_of(record: Record, number: int = 0, started: datetime | None = None) -> Run:
    """As a history has it. `started`: when it began, in place of its own date; a record without one is as old as its
    file.
    """
    result = record.result
    begun = started or moment(result.date)
    if begun is None:
        begun = datetime.fromtimestamp(result.path.stat().st_mtime, timezone.utc)
    # Results of a separate program change with its own commits.
    # That of a program of one's own is unknown outside of git; roofbench's says nothing of it.
    of_whom = "program_revision" if "program" in result.context else "roofbench_revision"
    revision = result.context.get(of_whom, "")
    return Run(
        number,
        record.digest,
        begun,
        "" if revision == "unknown" else revision,
        machine_of(result.context),
        toolchain_of(result.context, result.contract),
        result.context,
        inert(result.path.name),
    )


def readings_of(record: Record, run: Run, metric: str) -> dict[str, Reading]:
    """By case."""
    found = {}
    for name, case in record.result.merged().items():
        measured = case.state is State.MEASURED
        value, why = (case.value(metric), doubt(case)) if measured else (None, "")
        found[name] = Reading(run, value, case.state, case.reason, why, case.counters)
    return found


def details_of(record: Record) -> dict[str, CaseDetails]:
    """By case, with the samples of all of its repetitions."""
    return {
        name: CaseDetails([sample for one in repetitions for sample in one.samples], whole.stop, whole.precisions)
        for name, repetitions in record.result.by_name().items()
        for whole in [merged(repetitions)]
    }


def moment(date: str) -> datetime | None:
    """The time from a result's date, which is untrusted; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(date.replace("Z", "+00:00"))
        return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
