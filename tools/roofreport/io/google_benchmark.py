# SPDX-License-Identifier: Apache-2.0
"""Google Benchmark's JSON as roofbench writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roofreport import files
from roofreport.io import case_name, described
from roofreport.io.result import Case, Result, State
from roofreport.io.schemas import load_schema, violation
from roofreport.io.source import refuse
from roofreport.text import printable

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
# Fields of a row that Google Benchmark owns: every other one is a counter.
LIBRARY_FIELDS = frozenset(load_schema("google_benchmark")["$defs"]["row"]["properties"])


def _state(row: dict[str, Any]) -> tuple[State, str]:
    if not row.get("error_occurred") and not row.get("skipped"):
        return State.MEASURED, ""
    message = str(row.get("error_message") or row.get("skip_message") or "")
    verdict, colon, reason = message.partition(": ")
    if colon and verdict in {state.value for state in State}:
        return State(verdict), reason
    return (State.SKIPPED if row.get("skipped") else State.FAILED), message


def _case(row: dict[str, Any]) -> Case:
    state, reason = _state(row)
    unit = SECONDS[row["time_unit"]]
    seconds = row["real_time"] * unit
    counters = {key: float(value) for key, value in row.items() if key not in LIBRARY_FIELDS}
    return Case(
        name=case_name.plain(row["run_name"]),
        repetition=row.get("repetition_index", 0),
        state=state,
        reason=reason,
        seconds=seconds,
        cpu_seconds=row["cpu_time"] * unit,
        flops=counters.get("FLOP/s", 0.0) * seconds,
        bytes=counters.get("bytes/s", 0.0) * seconds,
        stop=row.get("label", ""),
        counters=counters if state is State.MEASURED else {},
    )


def read(path: Path, document: dict[str, Any]) -> Result:
    context = document.get("context")
    if not isinstance(context, dict) or "benchmarks" not in document:
        raise refuse(path, "is JSON, but no result of roofbench (it has no context and benchmarks)")
    if "roofbench_version" not in context:
        raise refuse(path, "was written by another Google Benchmark program (its context has no roofbench_version)")
    wrong = violation(document, "google_benchmark")
    if wrong:
        raise refuse(path, f"does not fit the schema of results: {wrong}")
    cases: list[Case] = []
    seen: set[tuple[str, int]] = set()
    for row in document["benchmarks"]:
        if row["run_type"] != "iteration":
            continue
        case = _case(row)
        if (case.name, case.repetition) in seen:
            raise refuse(path, f"has the case {printable(case.name, 300)} (repetition {case.repetition}) twice")
        seen.add((case.name, case.repetition))
        cases.append(case)
    if document["benchmarks"] and not cases:
        raise refuse(path, "has aggregates only; write it without --benchmark_report_aggregates_only")
    facts = {key: value for key, value in context.items() if isinstance(value, str)}
    contract = described.read(path, described.unpacked(path, facts.pop(described.KEY, None)))
    return Result(path, facts, tuple(cases), host=facts.get("host_name", ""), date=facts["date"], contract=contract)


def write(path: Path, result: Result, cases: list[Case]) -> None:
    """A file for compare.py: measured cases alone, since it takes the time 0 of a skipped one for a speed-up.

    Raises OSError."""
    rows = [
        {
            "name": case.name + case_name.MANUAL_TIME,
            "run_name": case.name + case_name.MANUAL_TIME,
            "run_type": "iteration",
            "repetition_index": index,
            "threads": 1,
            "iterations": 1,
            "real_time": case.seconds / SECONDS["ms"],
            "cpu_time": case.cpu_seconds / SECONDS["ms"],
            "time_unit": "ms",
        }
        for index, case in enumerate(cases)
        if case.state is State.MEASURED
    ]
    context = {**result.context, "date": result.date}
    files.write_text(path, json.dumps({"context": context, "benchmarks": rows}, indent=1))
