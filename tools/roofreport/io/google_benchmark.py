# SPDX-License-Identifier: Apache-2.0
"""Google Benchmark's JSON as roofbench writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roofreport import files
from roofreport.io import case_name, described
from roofreport.io.contract import Contract, Family
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


def _is_axis(name: str, value: Any, family: Family | None, contract: Contract) -> bool:
    """Whether a field that is not the library's is an axis of the row's case. One that is called like a counter is a
    counter; of a family that the contract does not know, text is an axis."""
    if contract.metric(name) is not None:
        return False
    return isinstance(value, str) if family is None else family.axis(name) is not None


def _counters(path: Path, row: dict[str, Any], contract: Contract) -> dict[str, float]:
    family = contract.families.get(case_name.family(row["run_name"]))
    counters = {}
    for name, value in row.items():
        if name in LIBRARY_FIELDS or _is_axis(name, value, family, contract):
            continue
        if isinstance(value, str):
            raise refuse(path, f"the counter {printable(name, 100)} of {printable(row['run_name'], 300)} is no number")
        counters[name] = float(value)
    return counters


def _case(path: Path, row: dict[str, Any], contract: Contract) -> Case:
    state, reason = _state(row)
    unit = SECONDS[row["time_unit"]]
    seconds = row["real_time"] * unit
    counters = _counters(path, row, contract)
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
    facts = {key: value for key, value in context.items() if isinstance(value, str)}
    contract = described.read(path, described.unpacked(path, facts.pop(described.KEY, None)))
    cases: list[Case] = []
    seen: set[tuple[str, int]] = set()
    for row in document["benchmarks"]:
        if row["run_type"] != "iteration":
            continue
        case = _case(path, row, contract)
        if (case.name, case.repetition) in seen:
            raise refuse(path, f"has the case {printable(case.name, 300)} (repetition {case.repetition}) twice")
        seen.add((case.name, case.repetition))
        cases.append(case)
    if document["benchmarks"] and not cases:
        raise refuse(path, "has aggregates only; write it without --benchmark_report_aggregates_only")
    return Result(path, facts, tuple(cases), host=facts.get("host_name", ""), date=facts["date"], contract=contract)


def write(path: Path, result: Result, cases: list[Case]) -> None:
    """A file for compare.py: measured cases alone, since it takes the time 0 of a skipped one for a speed-up.

    Raises OSError."""
    rows = [
        {
            "name": case.name,
            "run_name": case.name,
            "run_type": "iteration",
            "repetition_index": index,
            "threads": 1,
            "iterations": 1,
            "real_time": case.seconds / SECONDS["us"],
            "cpu_time": case.cpu_seconds / SECONDS["us"],
            "time_unit": "us",  # compare.py shows whole ones
        }
        for index, case in enumerate(cases)
        if case.state is State.MEASURED
    ]
    context = {**result.context, "date": result.date}
    files.write_text(path, json.dumps({"context": context, "benchmarks": rows}, indent=1))
