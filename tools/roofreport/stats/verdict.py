# SPDX-License-Identifier: Apache-2.0
"""The verdict of a comparison on one case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from roofreport import units


class Verdict(Enum):
    SAME = "SAME"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    AMBIGUOUS = "AMBIGUOUS"
    MISSING = "MISSING"
    NEW = "NEW"
    FAILED = "FAILED"


# Those that make a command exit with 1.
ALARMS = frozenset({Verdict.SLOWER, Verdict.FAILED})


class Estimate(NamedTuple):
    """A figure with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Judgment:
    """One case. Effects are relative changes, new over base less 1; nan where one is missing."""

    name: str
    verdict: Verdict
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    base: float = math.nan  # median over processes
    new: float = math.nan
    note: str = ""
    floor: float = math.nan  # a smaller change is not called

    def interval(self) -> str:
        """ "-1.2 … +3.4 %"; empty where one is missing."""
        if math.isnan(self.low):
            return ""
        if math.isinf(self.high):
            return "unbounded"
        return f"{units.percent(self.low)[:-2]} … {units.percent(self.high)}"


def relative(logarithm: float) -> float:
    """The relative change that corresponds to a difference of logarithms."""
    return math.inf if logarithm >= 700 else math.expm1(logarithm)


# Whether times fall into two groups with nothing between them, as where a program is in one of two states.
#
# lib/timing/statistics.h has the same rule.

_FEWEST = 4
_LEAST_GAP = 0.1  # of the value below it
_GAP_OVER_GROUP = 3.0  # a gap that groups of this width rarely have by chance


@dataclass(frozen=True)
class Split:
    fast: tuple[float, ...]
    slow: tuple[float, ...]

    def text(self) -> str:
        """ "1 near 202 µs, 8 near 284 µs"."""
        return ", ".join(f"{len(group)} near {units.time(median(group))}" for group in (self.fast, self.slow))


def find_split(values: Sequence[float]) -> Split | None:
    """The two groups on either side of the widest gap, if there are two."""
    if len(values) < _FEWEST:
        return None
    ordered = sorted(values)
    gaps = [high - low for low, high in pairwise(ordered)]
    upper = gaps.index(max(gaps)) + 1
    fast, slow = ordered[:upper], ordered[upper:]
    gap = slow[0] - fast[-1]
    widest = max(fast[-1] - fast[0], slow[-1] - slow[0])
    if gap < _LEAST_GAP * fast[-1] or gap < _GAP_OVER_GROUP * widest:
        return None
    return Split(tuple(fast), tuple(slow))
