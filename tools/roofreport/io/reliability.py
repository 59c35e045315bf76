# SPDX-License-Identifier: Apache-2.0
"""Whether the rows of a case support a conclusion about its time, by what they say of their own measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from roofreport import units
from roofreport.io.result import Case

FEWEST_SAMPLES = 6  # fewer cannot bound a median at 95 %
# Limits of a quiet row: lib/results/counters.cc calls rows above these noisy.
LARGEST_INTERVAL = 0.05
DRIFT = 0.10  # between the medians of chunks


def doubt(case: Case) -> str:
    """Why the rows that make up a measured case support no conclusion: "noisy (ci 110 %), 3 samples"; or empty."""
    rows = case.repetitions or [case]
    if case.is_interrupted:
        return "interrupted"
    reasons = [name + _interval(rows, name) for name in ("noisy", "throttled") if _mostly(rows, name)]
    counts = [row.counters["samples"] for row in rows if "samples" in row.counters]
    if len(counts) == len(rows) and sum(counts) < FEWEST_SAMPLES:
        reasons.append(units.counted(sum(counts), "sample"))
    return ", ".join(reasons)


def half_width(case: Case) -> float:
    """Half of the interval of the median, as a share of the median."""
    known = case.counters
    if "ci" in known:
        width = known["ci"]
    elif known.get("samples", FEWEST_SAMPLES) < 2:
        return math.inf
    else:
        width = 2 * known.get("stddev_ms", 0.0) / known["mean_ms"] if known.get("mean_ms", 0.0) > 0 else 0.0
    return max(width, DRIFT) if known.get("noisy", 0.0) > 0 else width


def _mostly(rows: Sequence[Case], flag: str) -> bool:
    """In half of the rows or more: the median of the others would be that of a minority."""
    return 2 * sum(row.counters.get(flag, 0.0) > 0 for row in rows) >= len(rows)


def _interval(rows: Sequence[Case], flag: str) -> str:
    known = [row.counters["ci"] for row in rows if row.counters.get(flag, 0.0) > 0 and "ci" in row.counters]
    ci = median(known) if known else 0.0
    return f" (ci {units.share(ci)})" if flag == "noisy" and ci > LARGEST_INTERVAL else ""
