# SPDX-License-Identifier: Apache-2.0
"""Whether the rows of a case support a conclusion about its time, by what they say of their own measurement."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from roofreport import units
from roofreport.io.result import Case

FEWEST_SAMPLES = 6  # fewer cannot bound a median at 95 %
LARGEST_INTERVAL = 0.05  # of a quiet row; lib/results/counters.cc calls a row with a larger one noisy


def doubt(case: Case) -> str:
    """Why the rows that make up a measured case support no conclusion: "noisy (ci 110 %), 3 samples"; or empty."""
    rows = case.repetitions or [case]
    if case.is_interrupted:
        return "interrupted"
    reasons = [name + _interval(rows, name) for name in ("noisy", "throttled") if _mostly(rows, name)]
    counts = [row.counters["samples"] for row in rows if "samples" in row.counters]
    if len(counts) == len(rows) and sum(counts) < FEWEST_SAMPLES:
        reasons.append(f"{sum(counts):.0f} sample{'' if sum(counts) == 1 else 's'}")
    return ", ".join(reasons)


def _mostly(rows: Sequence[Case], flag: str) -> bool:
    """In half of the rows or more: the median of the others would be that of a minority."""
    return 2 * sum(row.counters.get(flag, 0.0) > 0 for row in rows) >= len(rows)


def _interval(rows: Sequence[Case], flag: str) -> str:
    known = [row.counters["ci"] for row in rows if row.counters.get(flag, 0.0) > 0 and "ci" in row.counters]
    ci = median(known) if known else 0.0
    return f" (ci {units.share(ci)})" if flag == "noisy" and ci > LARGEST_INTERVAL else ""
