# SPDX-License-Identifier: Apache-2.0
"""Sweeps point by point: each time, and that of each phase, over the time of the sweep's base."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofreport import units
from roofreport.io.result import Case
from roofreport.render.table import MOST_COLUMNS, Cell, Table
from roofreport.stats import growth
from roofreport.stats.growth import Series
from roofreport.text import printable

_MEAN = "_mean_ms"  # what every phase has: <phase>_mean_ms beside its median, <phase>_ms
_MEDIAN = "_ms"


def _phases(found: Sequence[Series]) -> list[str]:
    names = dict.fromkeys(name for series in found for case in series.cases for name in case.counters)
    return [name.removesuffix(_MEAN) for name in names if name.endswith(_MEAN)][:MOST_COLUMNS]


def _seconds(case: Case, phase: str) -> float | None:
    return case.counters.get(phase + _MEDIAN)


def _times(value: float | None, base: float | None) -> Cell:
    if not value or not base:
        return Cell()
    return Cell(f"{value / base:.2f}x", value / base)


def _expected(times: float, exponent: float | None) -> Cell:
    return Cell() if exponent is None else _times(growth.power(exponent * math.log(times)), 1)


def points(found: Sequence[Series]) -> Table:
    """A row a point. The base of a sweep is its smallest point."""
    phases = _phases(found)
    rows = []
    for series in found:
        base = series.cases[0]
        for size, case in zip(series.sizes, series.cases, strict=True):
            rows.append(
                (
                    Cell(printable(series.family, 60), numeric=False),
                    Cell(printable(series.rest, 300), numeric=False),
                    Cell(printable(series.axis, 60), numeric=False),
                    Cell(f"{size:g}", size),
                    _times(size, series.sizes[0]),
                    Cell(units.time(case.seconds), case.seconds),
                    _times(case.seconds, base.seconds),
                    *(_times(_seconds(case, phase), _seconds(base, phase)) for phase in phases),
                    _expected(size / series.sizes[0], series.expected),
                )
            )
    ratios = tuple(f"x {phase}" for phase in phases)
    headers = ("family", "setup", "axis", "value", "x value", "time", "x time", *ratios, "expected")
    return Table(headers, tuple(rows), ("x: times the smallest point of the same sweep",))
