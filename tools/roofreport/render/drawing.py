# SPDX-License-Identifier: Apache-2.0
"""Charts laid out as shapes and texts with coordinates: the one drawing that svg.py and png.py put down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roofreport.render.chart import Chart, Key, Line, Mark, clipped

WIDTH, HEIGHT = 960, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 44, 54
_LEGEND_LINE = 20
_CHARACTER = 6.3  # width of a character of a label, about
_RADIUS = 5.0
# Of several charts on one sheet.
_SMALLER = (0.62, 0.72)


@dataclass(frozen=True)
class Style:
    """Colours are "ink", "faint" and "back", which follow the reader's theme, or a text as "#0072b2"."""

    stroke: str = ""
    width: float = 0.0
    fill: str = ""
    opacity: float = 1.0
    dashes: tuple[float, ...] = ()
    size: float = 0.0  # of a font
    bold: bool = False


# By class, as in style sheets.
STYLES = {
    "grid": Style(stroke="faint", width=1),
    "frame": Style(stroke="ink", width=1, opacity=0.5),
    "label": Style(fill="ink"),
    "title": Style(fill="ink", size=15, bold=True),
    "line": Style(width=2),
    "plain": Style(stroke="ink"),
    "dashed": Style(width=1.5, dashes=(7, 5), opacity=0.65),
    "halo": Style(stroke="back", width=4),
    "mark": Style(stroke="back", width=1.2),
    "hollow": Style(stroke="ink", width=1.2, dashes=(2, 2), opacity=0.55),  # a mark that is in doubt
}


@dataclass(frozen=True)
class Path:
    """A line through points; closed: an area without filling."""

    points: tuple[tuple[float, float], ...]
    classes: tuple[str, ...]
    color: str = ""  # empty: that of the class
    closed: bool = False


@dataclass(frozen=True)
class Symbol:
    """A mark of a chart or of its legend."""

    kind: str
    x: float
    y: float
    color: str
    title: str = ""
    index: int = -1  # of the row that explains it
    doubtful: bool = False

    def corners(self) -> tuple[tuple[float, float], ...]:
        """Empty for a circle."""
        shapes: dict[str, tuple[tuple[float, float], ...]] = {
            "circle": (),
            "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
            "diamond": ((0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)),
            "triangle": ((0.0, -1.2), (1.2, 0.9), (-1.2, 0.9)),
        }
        return tuple((self.x + self.radius * dx, self.y + self.radius * dy) for dx, dy in shapes[self.kind])

    @property
    def radius(self) -> float:
        return _RADIUS


@dataclass(frozen=True)
class Text:
    """`angle` turns it clockwise, in degrees; `below` moves it then across its own direction."""

    x: float
    y: float
    text: str
    classes: tuple[str, ...] = ("label",)
    anchor: str = "start"  # middle, end
    angle: float = 0.0
    below: float = 0.0


Item = Path | Symbol | Text


@dataclass(frozen=True)
class Panel:
    """One chart with its legend."""

    items: tuple[Item, ...]
    width: float
    height: float


@dataclass(frozen=True)
class Sheet:
    """Panels, each at its left upper corner."""

    panels: tuple[tuple[float, float, Panel], ...]
    width: float
    height: float


class _Plot:
    """The mapping of one chart onto its rectangle."""

    def __init__(self, chart: Chart, width: float, height: float) -> None:
        self._chart = chart
        self.left, self.right = _LEFT, width - _RIGHT
        self.top, self.bottom = _TOP, height - _BOTTOM
        self._taken: list[tuple[float, float, float]] = []  # labels: x from, x to, y

    def x(self, value: float) -> float:
        return self.left + self._chart.x.place(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self._chart.y.place(value) * (self.bottom - self.top)

    def axes(self, title: bool = True) -> list[Item]:
        chart = self._chart
        items: list[Item] = []
        for tick in chart.x.ticks():
            x = self.x(tick)
            items.append(Path(((x, self.top), (x, self.bottom)), ("grid",)))
            items.append(Text(x, self.bottom + 18, chart.x_tick(tick), anchor="middle"))
        for tick in chart.y.ticks():
            y = self.y(tick)
            items.append(Path(((self.left, y), (self.right, y)), ("grid",)))
            items.append(Text(self.left - 8, y + 4, chart.y_tick(tick), anchor="end"))
        corners = ((self.left, self.top), (self.right, self.top), (self.right, self.bottom), (self.left, self.bottom))
        items.append(Path(corners, ("frame",), closed=True))
        middle_x, middle_y = (self.left + self.right) / 2, (self.top + self.bottom) / 2
        items.append(Text(middle_x, self.bottom + 40, chart.x_label, anchor="middle"))
        items.append(Text(16, middle_y, chart.y_label, anchor="middle", angle=-90))
        if title:
            items.append(Text(self.left, 24, chart.title, ("title",)))
        return items

    def line(self, line: Line) -> list[Item]:
        points = clipped(line, self._chart.x, self._chart.y) if len(line.points) == 2 else line.points
        if not points:
            return []
        classes = ("line", *(["dashed"] if line.dashed else []), *([] if line.color else ["plain"]))
        items: list[Item] = [Path(tuple((self.x(x), self.y(y)) for x, y in points), classes, line.color)]
        return [*items, self._line_label(line, points)] if line.label else items

    def _line_label(self, line: Line, points: Sequence[tuple[float, float]]) -> Text:
        (x0, y0), (x1, y1) = [(self.x(x), self.y(y)) for x, y in (points[0], points[-1])]
        classes = ("label", "halo")
        if line.slanted:
            angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
            share = 0.06
            x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
            return Text(x, y, line.label, classes, angle=angle, below=15 if line.below else -6)
        width = _CHARACTER * len(line.label)
        x, y = x1 - 6, y1 - 5
        while any(start < x and x - width < end and abs(y - at) < 13 for start, end, at in self._taken):
            x -= width / 4
            if x - width < x0 and x - width < self.left:
                y += 17
                x = x1 - 6
        self._taken.append((x - width, x, y))
        return Text(x, y, line.label, classes, anchor="end")

    def mark(self, mark: Mark) -> Symbol:
        return Symbol(mark.shape, self.x(mark.x), self.y(mark.y), mark.color, mark.label, mark.index, mark.doubtful)

    def caption(self, mark: Mark) -> Text:
        return Text(self.x(mark.x) + _RADIUS + 3, self.y(mark.y) + 14, mark.caption, ("label", "halo"))

    def legend(self, keys: Sequence[Key], top: float) -> tuple[list[Item], float]:
        """With its height."""
        items: list[Item] = []
        x, y = float(self.left), top
        for key in keys:
            width = _CHARACTER * len(key.label) + 30
            if x + width > self.right and x > self.left:
                x, y = float(self.left), y + _LEGEND_LINE
            items.append(Symbol(key.shape, x + 6, y - 4, key.color, doubtful=key.doubtful))
            items.append(Text(x + 17, y, key.label))
            x += width
        return items, (y - top + _LEGEND_LINE + 6 if keys else 0.0)


def panel(chart: Chart, width: float = WIDTH, height: float = HEIGHT, bare: bool = False) -> Panel:
    """Bare: without title and legend."""
    plot = _Plot(chart, width, height)
    items = plot.axes(title=not bare)
    for line in chart.lines:
        items += plot.line(line)
    items += [plot.mark(mark) for mark in chart.marks]
    items += [plot.caption(mark) for mark in chart.marks if mark.caption]
    if bare:
        return Panel(tuple(items), width, height)
    legend, legend_height = plot.legend(chart.keys, height + 8)
    return Panel((*items, *legend), width, height + legend_height)


def sheet(charts: Sequence[Chart], columns: int = 1) -> Sheet:
    """The charts row by row."""
    width, height = (WIDTH, HEIGHT) if columns == 1 else (WIDTH * _SMALLER[0], HEIGHT * _SMALLER[1])
    placed: list[tuple[float, float, Panel]] = []
    top = row_height = 0.0
    for i, chart in enumerate(charts):
        column = i % columns
        if column == 0:
            top += row_height
            row_height = 0.0
        drawn = panel(chart, width, height)
        row_height = max(row_height, drawn.height + 8)
        placed.append((column * width, top, drawn))
    return Sheet(tuple(placed), min(columns, len(charts)) * width, top + row_height)
