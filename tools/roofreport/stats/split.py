# SPDX-License-Identifier: Apache-2.0
"""Whether times fall into two groups with nothing between them, as where a program is in one of two states.

lib/timing/statistics.h has the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from roofreport import units

_FEWEST = 4
_LEAST_GAP = 0.1  # of the value below it
_GAP_OVER_GROUP = 3.0  # a gap that groups of this width do not make by themselves


@dataclass(frozen=True)
class Split:
    fast: tuple[float, ...]
    slow: tuple[float, ...]

    def text(self) -> str:
        """ "1 near 202 µs, 8 near 284 µs"."""
        return ", ".join(f"{len(group)} near {units.time(median(group))}" for group in (self.fast, self.slow))


def find(values: Sequence[float]) -> Split | None:
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
