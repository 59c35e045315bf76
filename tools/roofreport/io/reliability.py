# SPDX-License-Identifier: Apache-2.0
"""Whether the rows of a case support a conclusion about its time, by what they say of their own measurement: the one
rule of every verb that concludes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from roofreport import units
from roofreport.io.result import Case

FEWEST_SAMPLES = 6  # fewer cannot bound a median at 95 %
LARGEST_INTERVAL = 0.05  # of a quiet row: lib/results/counters.cc calls rows above it noisy
_FLAGS = ("noisy", "disturbed", "throttled")
IN_DOUBT = "in doubt"  # in place of a figure that would conclude from such rows


def doubt(case: Case) -> str:
    """Why the rows that make up a measured case support no conclusion: "noisy (ci 110 %), 3 samples"; or empty."""
    rows = case.repetitions or [case]
    if case.is_interrupted:
        return "interrupted"
    reasons = [name + _interval(rows, name) for name in _FLAGS if _mostly(rows, name)]
    counts = [row.counters["samples"] for row in rows if "samples" in row.counters]
    if len(counts) == len(rows) and sum(counts) < FEWEST_SAMPLES:
        reasons.append(units.counted(sum(counts), "sample"))
    return ", ".join(reasons)


def doubt_of_median(counters: Mapping[str, float]) -> str:
    """What the counters of merged rows alone still tell: the median of a flag is above 0 where half of the rows have
    it.
    """
    return ", ".join(name for name in _FLAGS if (counters.get(name) or 0.0) > 0)


def doubts(cases: Mapping[str, Case]) -> str:
    """Those of several cases, each after its label: "eager: noisy (ci 40 %); native: 3 samples"."""
    return "; ".join(f"{label}: {why}" for label, case in cases.items() if (why := doubt(case)))


def half_width(case: Case) -> float:
    """Half of the interval of the median, as a share of the median; NaN of fewer samples than bound one."""
    known = case.counters
    if "ci" in known:
        return known["ci"]
    if known.get("samples", FEWEST_SAMPLES) < FEWEST_SAMPLES:
        return math.nan
    return 2 * known.get("stddev_ms", 0.0) / known["mean_ms"] if known.get("mean_ms", 0.0) > 0 else 0.0


def _mostly(rows: Sequence[Case], flag: str) -> bool:
    """In half of the rows or more: the median of the others would be that of a minority."""
    return 2 * sum(row.counters.get(flag, 0.0) > 0 for row in rows) >= len(rows)


def _interval(rows: Sequence[Case], flag: str) -> str:
    known = [row.counters["ci"] for row in rows if row.counters.get(flag, 0.0) > 0 and "ci" in row.counters]
    ci = median(known) if known else 0.0
    return f" (ci {units.half_width(ci)})" if flag == "noisy" and ci > LARGEST_INTERVAL else ""
