# SPDX-License-Identifier: Apache-2.0
"""A chart on logarithmic axes as data; pictures.py draws it."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Colors of series that color-blind readers can distinguish, on white and on black (after Okabe & Ito, 2008).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#b3589a", "#c98500", "#2f9fd8", "#8c6bb1", "#7f7f7f")
Loop = tuple[tuple[float, float], ...]


def _polygon(corners: int, turn: float = 0.0, inner: float = 1.0) -> Loop:
    """Corners at a distance of 1, or every other one at `inner`; the first is at the top, or a part of a turn on."""
    turns = (math.tau * (turn + i / corners) for i in range(corners))
    return tuple(
        (inner ** (i % 2) * math.sin(angle), inner ** (i % 2) * math.cos(angle)) for i, angle in enumerate(turns)
    )


_ARM = 0.35
_OUTLINES = {
    "circle": _polygon(32),
    "square": _polygon(4, 1 / 8),
    "diamond": _polygon(4),
    "triangle": _polygon(3),
    "inverted_triangle": _polygon(3, 1 / 2),
    "hex": _polygon(6),
    "star": _polygon(10, inner=0.4),
    "plus": tuple(
        (x * cos + y * sin, y * cos - x * sin)
        for cos, sin in ((1, 0), (0, 1), (-1, 0), (0, -1))
        for x, y in ((-_ARM, 1.0), (_ARM, 1.0), (_ARM, _ARM))
    ),
}
_HOLE = tuple((0.3 * x, 0.3 * y) for x, y in reversed(_polygon(12)))
# As Bokeh calls them: the closed lines of each, whose second one is a hole.
SHAPES: Mapping[str, tuple[Loop, ...]] = {
    **{name: (outline,) for name, outline in _OUTLINES.items()},
    **{f"{name}_dot": (_OUTLINES[name], _HOLE) for name in ("circle", "square", "diamond", "triangle", "hex", "star")},
}


def shape(index: int) -> str:
    """The shape of a series, whose color tells it from others with that shape."""
    return [*SHAPES][index % len(SHAPES)]


def outline(shape: str) -> str:
    """The path of an SVG, 2 units wide around 0; without a shape it is a swatch's."""
    loops = SHAPES[shape] if shape else (((-1.1, 0.7), (1.1, 0.7), (1.1, -0.7), (-1.1, -0.7)),)
    return "".join(f"M{'L'.join(f'{x:.3g},{-y:.3g}' for x, y in loop)}Z" for loop in loops)


def color(index: int) -> str:
    """The color of a series: the first ones are easy to distinguish, and every series has a different one."""
    if index < len(COLORS):
        return COLORS[index]
    # Hues by the golden section lie between all earlier ones; four lightnesses distinguish neighbors.
    turn, lightness = (index * 0.618034) % 1.0, (0.32, 0.5, 0.68, 0.42)[index % 4]
    red, green, blue = colorsys.hls_to_rgb(turn, lightness, 0.65)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


@dataclass(frozen=True)
class Line:
    points: tuple[tuple[float, float], ...]
    label: str = ""
    dashed: bool = False
    color: str = ""  # empty: that of text
    below: bool = False  # the label lies under the line, where there is room


@dataclass(frozen=True)
class Mark:
    x: float
    y: float
    label: str
    color: str
    shape: str = "circle"
    index: int = -1  # of the row that explains it
    doubtful: bool = False  # drawn pale with a rim
    caption: str = ""  # shown next to it; the label shows where the mark is pointed at


@dataclass(frozen=True)
class Key:
    """A line of the legend."""

    label: str
    color: str
    shape: str = ""  # empty: a swatch of the color
    doubtful: bool = False
    family: str | None = None  # whose color it explains


# The limits of axes. Beyond them the product of two values overflows.
LEAST, MOST = 1e-100, 1e100


def within(value: float) -> float:
    """The value, or the nearer end of the axis if it lies beyond."""
    return min(max(value, LEAST), MOST)


@dataclass(frozen=True)
class Range:
    """Between LEAST and MOST, low below high."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high one, on a logarithmic scale."""
        low = math.log(self.low)
        return (math.log(within(value)) - low) / (math.log(self.high) - low)


def spanning(values: Iterable[float], margin: float = 1.5) -> Range:
    """The range that holds positive values with a margin."""
    kept = [value for value in values if value > 0 and math.isfinite(value)]
    if not kept:
        return Range(1.0, 10.0)
    # The margin stays where a value is beyond the axes.
    return Range(within(min(MOST / margin, min(kept)) / margin), within(max(LEAST * margin, max(kept)) * margin))


@dataclass(frozen=True)
class Chart:
    title: str
    x_label: str
    y_label: str
    x: Range
    y: Range
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    keys: tuple[Key, ...] = ()
    x_tick: Callable[[float], str] = field(default=str)
    y_tick: Callable[[float], str] = field(default=str)


def around(marks: Sequence[Mark], lines: Sequence[Line], keys: Sequence[Key], **rest: Any) -> Chart:
    """A chart whose axes span the marks; `rest`: its other fields."""
    x, y = spanning((mark.x for mark in marks), 1.3), spanning(mark.y for mark in marks)
    return Chart(x=x, y=y, lines=tuple(lines), marks=tuple(marks), keys=tuple(keys), **rest)


def clipped(line: Line, x: Range, y: Range) -> tuple[tuple[float, float], ...]:
    """The part of a straight line (on logarithmic axes) of two points that lies inside the ranges; empty if none."""
    (x0, y0), (x1, y1) = [(x.place(px), y.place(py)) for px, py in line.points]
    start, end = 0.0, 1.0
    for from_, delta in ((x0, x1 - x0), (y0, y1 - y0)):
        if delta == 0:
            if not 0 <= from_ <= 1:
                return ()
            continue
        near, far = sorted((-from_ / delta, (1 - from_) / delta))
        start, end = max(start, near), min(end, far)
    if start >= end:
        return ()

    def at(t: float) -> tuple[float, float]:
        px, py = x0 + t * (x1 - x0), y0 + t * (y1 - y0)
        return x.low * (x.high / x.low) ** px, y.low * (y.high / y.low) ** py

    return (at(start), at(end))
