# SPDX-License-Identifier: Apache-2.0
"""How time grows, as panels: points, fitted lines and expected slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofreport import units
from roofreport.render.chart import COLORS, SHAPES, Chart, Key, Line, Mark, spanning
from roofreport.stats import growth
from roofreport.stats.growth import Series
from roofreport.text import printable


def charts(found: Sequence[Series]) -> list[Chart]:
    """One panel a family and axis: points, the fitted line, and the expected slope through the last point."""
    panels: dict[tuple[str, str], list[Series]] = {}
    for series in found:
        panels.setdefault((series.family, series.axis), []).append(series)
    drawn = []
    for (family, axis), members in panels.items():
        lines: list[Line] = []
        marks: list[Mark] = []
        keys: list[Key] = []
        for i, series in enumerate(members):
            color, shape = COLORS[i % len(COLORS)], SHAPES[i % len(SHAPES)]
            first, last = series.sizes[0], series.sizes[-1]
            fit = series.fit
            lines.append(Line(tuple((x, fit.seconds(x)) for x in (first, last)), color=color))
            if series.expected is not None:
                end = series.seconds[-1]
                start = growth.power(math.log(end) + series.expected * math.log(first / last))
                lines.append(Line(((first, start), (last, end)), dashed=True, color=color))
            marks += [
                Mark(x, y, f"{axis}={x:g}: {units.time(y)}", color, shape)
                for x, y in zip(series.sizes, series.seconds, strict=True)
            ]
            expected = "" if series.expected is None else f", expected {series.expected:g}"
            keys.append(Key(f"{printable(series.rest, 60)}: {axis}^{fit.exponent:.2f}{expected}", color, shape))
        drawn.append(
            Chart(
                title=f"{printable(family, 40)}: time against {printable(axis, 40)} (dashed: expected growth)",
                x_label=printable(axis, 40),
                y_label="median time of a step",
                x=spanning((mark.x for mark in marks), 1.3),
                y=spanning(mark.y for mark in marks),
                lines=tuple(lines),
                marks=tuple(marks),
                keys=tuple(keys),
                x_tick=lambda value: f"{value:g}",
                y_tick=units.time,
            )
        )
    return drawn
