# SPDX-License-Identifier: Apache-2.0
"""Where a series moved to another level: slow drifts that no single night gives away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SHORTEST = 3  # values of a segment
# What a change has to be worth, in variances of a value: of the sum of squares that two levels explain and one does
# not. Chosen in the simulated year.
PENALTY = 24.0
# Deviations from its neighbours' median beyond which a value tells nothing more: one night's trouble is no level.
FARTHEST = 2.5
NEIGHBOURS = 2  # to each side


def _deviation(values: NDArray[np.float64]) -> float:
    """From neighbours, so that the levels themselves do not count."""
    return float(1.4826 * np.median(np.abs(np.diff(values))) / np.sqrt(2))


def _without_outliers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    width = 2 * NEIGHBOURS + 1
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    inner = np.median(windows, axis=1)
    # At both ends the last whole window serves: a level needs more than two nights.
    middle = np.concatenate([np.repeat(inner[0], NEIGHBOURS), inner, np.repeat(inner[-1], NEIGHBOURS)])
    return np.asarray(np.clip(values, middle - FARTHEST, middle + FARTHEST))


def steady(values: NDArray[np.float64], clipped: bool = True) -> NDArray[np.float64] | None:
    """In deviations, around 0; None where values are too few, or all the same."""
    if len(values) < 2 * SHORTEST:
        return None
    deviation = _deviation(values) or 1e-3 * float(np.std(values))
    if deviation == 0 or not np.isfinite(deviation):
        return None
    standard = (values - np.median(values)) / deviation
    return _without_outliers(standard) if clipped else np.asarray(standard)


def segments(values: NDArray[np.float64], penalty: float, kernel: str = "linear") -> list[int]:
    """Where the cheapest division begins anew, every segment costing `penalty` beside what its values cost."""
    # It takes a second to import.
    from ruptures.detection import KernelCPD  # type: ignore[import-untyped]

    search = KernelCPD(kernel=kernel, min_size=SHORTEST).fit(values[:, None])
    return [int(position) for position in search.predict(pen=penalty)[:-1]]


def find(values: Sequence[float]) -> list[int]:
    """The positions at which a new level begins, in ascending order. `values` are finite, of one scatter at every
    level: logarithms, where a figure scatters by a share of itself."""
    standard = steady(np.asarray(values, dtype=np.float64))
    return [] if standard is None else segments(standard, PENALTY)
