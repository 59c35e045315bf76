# SPDX-License-Identifier: Apache-2.0
"""The levels of a memory, found from rates (or latencies) over sizes alone: a virtual machine's CPUID names the caches
of its whole host.

On logarithms, curves of one memory are cut into segments of a constant each, by dynamic programming over the sum of
absolute deviations from the medians, so that one point far off moves nothing. The curves (read, copy, …) share their
cuts. A segment whose points agree is a level; the others are the slopes between levels, where a size is in two of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

LEAST_STEP = 0.15  # between neighboring levels, as a share: closer ones are one
_FEWEST = 2  # points of a level, in one curve
_SCATTER = 0.08  # of the points of a level, by the median of their deviations
_CUT = 0.12  # what a further segment has to save, in each curve
_MOST_SIZES = 64  # the time grows with their cube; a curve in factors of two has 17


@dataclass(frozen=True)
class Level:
    """`smallest` and `largest`: of the sizes that lie in it."""

    smallest: float
    largest: float
    values: Mapping[str, float]  # the median of each curve that has points in it


Curve = Mapping[float, float]  # size to value


class _Table:
    """The logarithms of all curves, a row a size."""

    def __init__(self, curves: Mapping[str, Curve]) -> None:
        sizes = sorted({size for curve in curves.values() for size in curve if _log(curve[size]) is not None})
        self.sizes = sizes[:: 1 + len(sizes) // _MOST_SIZES]
        self.columns = [[_log(curve.get(size)) for size in self.sizes] for curve in curves.values()]
        self.weight = sum(value is not None for column in self.columns for value in column) / max(1, len(self.sizes))

    def deviations(self, start: int, end: int) -> list[float]:
        """Of the sizes from `start` up to `end`, from the median of each curve."""
        found = []
        for column in self.columns:
            known = [value for value in column[start:end] if value is not None]
            middle = median(known) if known else 0.0
            found += [abs(value - middle) for value in known]
        return found

    def agrees(self, start: int, end: int) -> bool:
        most = max(sum(value is not None for value in column[start:end]) for column in self.columns)
        return most >= _FEWEST and median(self.deviations(start, end)) <= _SCATTER

    def segments(self) -> list[tuple[int, int]]:
        count = len(self.sizes)
        best, cut = [0.0] + [math.inf] * count, [0] * (count + 1)
        for end in range(1, count + 1):
            for start in range(end):
                cost = best[start] + sum(self.deviations(start, end)) + _CUT * self.weight
                if cost < best[end]:
                    best[end], cut[end] = cost, start
        found = []
        while count:
            found.append((cut[count], count))
            count = cut[count]
        return found[::-1]


def _log(value: float | None) -> float | None:
    return math.log(value) if value is not None and 0 < value < math.inf else None


def _are_one(table: _Table, before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether no curve takes a step between two segments."""
    for column in table.columns:
        sides = [[value for value in column[start:end] if value is not None] for start, end in (before, after)]
        if all(sides) and abs(median(sides[0]) - median(sides[1])) > math.log1p(LEAST_STEP):
            return False
    return True


def find_levels(curves: Mapping[str, Curve]) -> list[Level]:
    """From small sizes to large ones; the curves are of one memory, with sizes of all bytes that a step touches."""
    table = _Table(curves)
    levels: list[tuple[int, int]] = []
    for segment in table.segments():
        if not table.agrees(*segment):
            continue
        if levels and _are_one(table, levels[-1], segment):
            levels[-1] = levels[-1][0], segment[1]
        else:
            levels.append(segment)
    return [_level(curves, table.sizes[start], table.sizes[end - 1]) for start, end in levels]


def _level(curves: Mapping[str, Curve], smallest: float, largest: float) -> Level:
    return Level(smallest, largest, medians_within(curves, smallest, largest))


def medians_within(curves: Mapping[str, Curve], smallest: float, largest: float) -> dict[str, float]:
    """Of each curve that has points from one size to another."""
    inside = {
        name: [value for size, value in curve.items() if smallest <= size <= largest] for name, curve in curves.items()
    }
    return {name: median(values) for name, values in inside.items() if values}
