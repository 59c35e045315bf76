# SPDX-License-Identifier: Apache-2.0
"""The fence around what a series has been: median ± 4 × 1.4826 × MAD."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

READINGS = 20  # that a fence is made of, the newest ones
FEWEST_READINGS = 5  # of fewer there is none
DEVIATIONS = 4.0
FLOOR = 0.05  # a smaller change needs more than one night
# Standard deviation of a normal sample over its median absolute deviation.
MAD_SCALE = 1 / NormalDist().inv_cdf(0.75)


@dataclass(frozen=True)
class Fence:
    """In logarithms of the metric."""

    center: float
    width: float

    def outside(self, value: float) -> bool:
        return abs(value - self.center) > self.width


def around(logs: Sequence[float], practical: float) -> Fence | None:
    """Of the newest accepted readings, as logarithms; None where they are too few."""
    newest = logs[-READINGS:]
    if len(newest) < FEWEST_READINGS:
        return None
    center = median(newest)
    deviation = MAD_SCALE * median(abs(value - center) for value in newest)
    return Fence(center, max(DEVIATIONS * deviation, math.log1p(max(practical, FLOOR))))
