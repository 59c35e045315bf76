# SPDX-License-Identifier: Apache-2.0
"""The time of a message between ranks as a start and a time per byte (Hockney, Parallel Computing 20, 1994)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roofreport.stats.verdict import Estimate

FEWEST_SIZES = 3  # two parameters, and something to judge them by
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Link:
    """seconds = start + bytes · per_byte, with 95 % intervals."""

    start: Estimate  # seconds
    per_byte: Estimate  # seconds

    @property
    def rate(self) -> Estimate:
        """Bytes per second of long messages."""
        times = (self.per_byte.value, self.per_byte.high, self.per_byte.low)
        return Estimate(*(1 / time if time > 0 else math.inf for time in times))


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Link | None:
    """Least squares of relative errors, since times span decades; None where the sizes do not determine both parts."""
    if len(set(sizes)) < FEWEST_SIZES:
        return None
    # SciPy takes a quarter of a second to import: it is imported on use.
    from scipy.special import stdtrit

    rows = [(1 / time, size / time) for size, time in zip(sizes, seconds, strict=True)]
    aa, ab, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = (sum(row[i] for row in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    if not 0 < determinant < math.inf:
        return None
    start, move = (bb * a - ab * b) / determinant, (aa * b - ab * a) / determinant
    squares = sum((1 - start * x - move * y) ** 2 for x, y in rows)
    freedom = len(rows) - 2
    half = float(stdtrit(freedom, (1 + _CONFIDENCE) / 2)) * math.sqrt(squares / freedom)
    wide = [half * math.sqrt(part / determinant) for part in (bb, aa)]
    return Link(*(Estimate(value, value - w, value + w) for value, w in zip((start, move), wide, strict=True)))
