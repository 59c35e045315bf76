# SPDX-License-Identifier: Apache-2.0
"""The fence around what a series has been: its median, and so many robust standard deviations to either side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofreport.io.contract import Metric

NIGHTS = 20  # that a fence is made of, the newest accepted ones
FEWEST_NIGHTS = 5  # of fewer there is none
FAR = 4.0  # deviations: what no other process has to confirm to be worth a word
NEAR = 2.5  # deviations: what is worth some fresh processes
FAR_FLOOR = 0.05
NEAR_FLOOR = 0.03
# Standard deviation of a normal sample over its median absolute deviation.
MAD_SCALE = 1.4826


@dataclass(frozen=True)
class Fence:
    """In logarithms; above is worse."""

    center: float
    near: float  # widths
    far: float

    def excess(self, value: float) -> float:
        return value - self.center


def deviation(values: NDArray[np.float64]) -> float:
    """Robust: half of the values may be anything."""
    return MAD_SCALE * float(np.median(np.abs(values - np.median(values))))


def around(nights: Sequence[float] | NDArray[np.float64], metric: Metric) -> Fence | None:
    """Of accepted nights, the newest last; None where they are too few."""
    newest = np.asarray(nights, dtype=np.float64)[-NIGHTS:]
    if len(newest) < FEWEST_NIGHTS:
        return None
    center = float(np.median(newest))
    if not metric.noisy:  # the same work gives the same figure
        width = math.log1p(metric.practical)
        return Fence(center, width, width)
    spread = deviation(newest)
    floors = (math.log1p(max(metric.practical, floor)) for floor in (NEAR_FLOOR, FAR_FLOOR))
    near, far = (max(factor * spread, floor) for factor, floor in zip((NEAR, FAR), floors, strict=True))
    return Fence(center, near, far)
