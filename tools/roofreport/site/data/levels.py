# SPDX-License-Identifier: Apache-2.0
"""The levels that a series has had, with the band in which its noise kept it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from roofreport.gate import change_points, fence
from roofreport.io.contract import Metric
from roofreport.render.chart import LEAST, MOST


@dataclass(frozen=True)
class Level:
    """From one reading to the one before the next level: its median, and the fence around it."""

    first: int
    last: int
    middle: float
    low: float
    high: float


def usable(value: float | None) -> bool:
    """What has a logarithm, and a place on a chart."""
    return value is not None and math.isfinite(value) and LEAST <= value <= MOST


# Of a level that is too young for a fence.
_WIDTH = math.log1p(fence.FAR_FLOOR)
_WIDEST = 50.0  # whose exponential is a number


def _level(places: Sequence[int], logs: Sequence[float], metric: Metric) -> Level:
    found = fence.around(logs, metric)
    center, width = (median(logs), _WIDTH) if found is None else (found.center, min(found.far, _WIDEST))
    low, middle, high = (math.exp(center + side * width) for side in (-1, 0, 1))
    return Level(places[0], places[-1], middle, low, high)


def of(values: Sequence[float | None], metric: Metric) -> list[Level]:
    """In the places of `values`; what was not measured belongs to no level."""
    kept = [(place, math.log(value)) for place, value in enumerate(values) if value is not None and usable(value)]
    if not kept:
        return []
    places, logs = [place for place, _ in kept], [log for _, log in kept]
    starts = [0, *(start for start in change_points.find(logs) if 0 < start < len(logs)), len(logs)]
    return [_level(places[start:end], logs[start:end], metric) for start, end in pairwise(starts)]
