# SPDX-License-Identifier: Apache-2.0
"""Where a series moved to another level: slow drifts that no single night gives away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SHORTEST = 3  # values of a segment
THRESHOLD = 5.0  # of the largest standardised difference of two means


def _deviation(values: NDArray[np.float64]) -> float:
    """From neighbours, so that the levels themselves do not count."""
    return float(1.4826 * np.median(np.abs(np.diff(values))) / np.sqrt(2))


def find(values: Sequence[float]) -> list[int]:
    """The positions at which a new level begins, in ascending order; values that are no numbers are not allowed."""
    series = np.asarray(values, dtype=np.float64)
    if len(series) < 2 * SHORTEST:
        return []
    deviation = _deviation(series)
    if deviation == 0:
        deviation = float(np.std(series)) * 1e-3
    found: list[int] = []
    open_parts = [(0, len(series))]
    while open_parts and deviation > 0:
        start, end = open_parts.pop()
        n = end - start
        if n < 2 * SHORTEST:
            continue
        part = series[start:end] / deviation
        part = np.clip(part, np.median(part) - 12, np.median(part) + 12)
        sums = np.cumsum(part)
        left = np.arange(SHORTEST, n - SHORTEST + 1)
        gap = (sums[-1] - sums[left - 1]) / (n - left) - sums[left - 1] / left
        score = np.abs(gap) * np.sqrt(left * (n - left) / n)
        best = int(np.argmax(score))
        if score[best] > THRESHOLD:
            position = start + int(left[best])
            found.append(position)
            open_parts += [(start, position), (position, end)]
    return sorted(found)
