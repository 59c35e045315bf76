# SPDX-License-Identifier: Apache-2.0
"""The record of a machine for an atlas: a journal of the rows that its passport needs, small enough to be kept by the
hundred.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from roofreport.compare.machine import LATENCY, PRODUCT, TRAFFIC, Passport, Row
from roofreport.errors import UnusableInputError
from roofreport.io.load import JOURNAL_SCHEMA
from roofreport.io.reliability import FEWEST_SAMPLES, half_width

MOST_BYTES = 20_000
_MOST_ROWS = 2000  # of a result of which a record is made
_DIGITS = 4
_SHARED = 3  # how many times as long a curve of read or latency may be: they show the levels that others share
# Facts that say what the machine is, how it was measured, and how quiet it was.
_FACTS = (
    *("started", "roofbench_version", "roofbench_revision", "command_line", "device_kind", "device", "device_arch"),
    *("cpu_isa", "cpu_count", "cpu_caches", "cpu_governor", "turbo", "cpu_quota", "numa_nodes", "kernel", "huge_pages"),
    *("memory_bytes", "threads", "allocator", "build_type", "torch_version", "onednn_version", "compiler"),
    *("other_load", "memory_speed", "roofs"),
)
_FOLDERS = re.compile(r"(?<![^\s='\"])/(?:[^\s'\"/]+/)*")  # of absolute paths: an atlas is public
_COUNTERS = ("latency_ns", "noisy", "disturbed", "throttled")  # those at 0 say nothing


def _rounded(value: float) -> float:
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _line(row: Row) -> dict[str, Any]:
    case = row.case
    counters = {name: _rounded(value) for name in _COUNTERS if (value := case.counters.get(name, 0.0)) > 0}
    half = half_width(case)
    counters |= {"ci": _rounded(half)} if half > 0 else {}
    samples = case.counters.get("samples", FEWEST_SAMPLES)
    few = {"samples": samples} if samples < FEWEST_SAMPLES else {}
    work = {"median_s": _rounded(case.seconds), "flops": _rounded(case.flops), "bytes": int(case.bytes)}
    stop = {"stop": case.stop} if case.is_interrupted else {}
    head = {"name": case.name, "repetition": 0, "verdict": case.state.value}
    return {**head, **stop, **work, "counters": counters | few}


def _chosen(passport: Passport) -> list[Row]:
    """All rows of its parts, but the fastest product of each type alone, and the largest cold size."""
    fastest = {one.source for one in passport.ceilings.values()}
    largest = {row.family: row.size for row in sorted(passport.own_rows, key=lambda row: row.size) if row.is_cold}

    def is_kept(row: Row) -> bool:
        if row.case.name in fastest:
            return True
        return row.family != PRODUCT and not (row.is_cold and row.size < largest[row.family])

    return [row for row in passport.own_rows if is_kept(row)]


def _thinned(rows: list[Row]) -> list[Row]:
    """Without every second inner size of the longest curve."""
    curves: dict[tuple[str, int, bool], list[Row]] = {}
    for row in rows:
        if row.family in (*TRAFFIC, LATENCY):
            curves.setdefault((row.curve, row.threads, row.is_cold), []).append(row)

    def length(curve: list[Row]) -> int:
        return len(curve) * (1 if curve[0].curve in (TRAFFIC[0], LATENCY) else _SHARED)

    longest = max(reversed(curves.values()), key=length, default=[])
    dropped = {row.case.name for row in sorted(longest, key=lambda row: row.size)[1:-1:2]}
    return [row for row in rows if row.case.name not in dropped]


def _text(lines: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)


def record_text(passport: Passport) -> str:
    """At most MOST_BYTES: curves lose sizes until it fits."""
    roofs = {key: value for key, value in passport.context.items() if key.startswith("roof_")}
    context = {fact: passport.context[fact] for fact in _FACTS if fact in passport.context} | roofs
    if "command_line" in context:
        context["command_line"] = _FOLDERS.sub("", context["command_line"])
    header = {"schema": JOURNAL_SCHEMA, "context": context}
    rows = _chosen(passport)
    while True:
        text = _text([header, *map(_line, rows[:_MOST_ROWS])])
        if len(text.encode()) <= MOST_BYTES:
            return text
        fewer = _thinned(rows) if len(rows) < _MOST_ROWS else rows
        if len(fewer) == len(rows):
            raise UnusableInputError(f"{len(rows)} rows do not fit into a record of {MOST_BYTES} bytes")
        rows = fewer
