"""Draws charts as SVG: presentation attributes and classes alone, so that a strict policy can forbid the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from roofreport.chart import Chart, Key, Line, Mark, clipped

WIDTH, HEIGHT = 960, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 44, 54
_LEGEND_LINE = 20
_CHARACTER = 6.3  # width of a character of a label, about
_RADIUS = 5.0

# The styles of a file of its own; a page has them in its sheet.
STYLE = """
.chart { font: 12px system-ui, sans-serif; --ink: #1c2430; --faint: #dfe3e8; --back: #ffffff; }
.back { fill: var(--back); }
.grid { stroke: var(--faint); stroke-width: 1; }
.frame { stroke: var(--ink); stroke-width: 1; fill: none; opacity: .5; }
.label { fill: var(--ink); }
.title { fill: var(--ink); font-size: 15px; font-weight: 600; }
.line { stroke-width: 2; fill: none; }
.plain { stroke: var(--ink); }
.dashed { stroke-dasharray: 7 5; stroke-width: 1.5; opacity: .65; }
.halo { stroke: var(--back); stroke-width: 4; paint-order: stroke; stroke-linejoin: round; }
.mark { stroke: var(--back); stroke-width: 1.2; }
"""
DARK = ".chart { --ink: #e6e9ee; --faint: #2c333d; --back: #14181e; }"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def shape(kind: str, x: float, y: float, attributes: str, inner: str = "") -> str:
    """One mark, centred."""
    r = _RADIUS
    if kind == "circle":
        return f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(r)}" {attributes}>{inner}</circle>'
    corners = {
        "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        "diamond": ((0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)),
        "triangle": ((0.0, -1.2), (1.2, 0.9), (-1.2, 0.9)),
    }[kind]
    points = " ".join(f"{_number(x + r * dx)},{_number(y + r * dy)}" for dx, dy in corners)
    return f'<polygon points="{points}" {attributes}>{inner}</polygon>'


class _Plot:
    """The mapping of one chart onto its rectangle."""

    def __init__(self, chart: Chart, width: float, height: float) -> None:
        self._chart = chart
        self._width, self._height = width, height
        self.left, self.right = _LEFT, width - _RIGHT
        self.top, self.bottom = _TOP, height - _BOTTOM
        self._taken: list[tuple[float, float, float]] = []  # labels: x from, x to, y

    def x(self, value: float) -> float:
        return self.left + self._chart.x.place(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self._chart.y.place(value) * (self.bottom - self.top)

    def axes(self, title: bool = True) -> list[str]:
        parts = []
        for tick in self._chart.x.ticks():
            x = _number(self.x(tick))
            parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{self.top}" y2="{_number(self.bottom)}"/>')
            text = escape(self._chart.x_tick(tick))
            parts.append(
                f'<text class="label" x="{x}" y="{_number(self.bottom + 18)}" text-anchor="middle">{text}</text>'
            )
        for tick in self._chart.y.ticks():
            y = self.y(tick)
            at = _number(y)
            parts.append(f'<line class="grid" x1="{self.left}" x2="{_number(self.right)}" y1="{at}" y2="{at}"/>')
            text = escape(self._chart.y_tick(tick))
            parts.append(
                f'<text class="label" x="{self.left - 8}" y="{_number(y + 4)}" text-anchor="end">{text}</text>'
            )
        parts.append(
            f'<rect class="frame" x="{self.left}" y="{self.top}" width="{_number(self.right - self.left)}"'
            f' height="{_number(self.bottom - self.top)}"/>'
        )
        middle_x, middle_y = _number((self.left + self.right) / 2), _number((self.top + self.bottom) / 2)
        parts.append(
            f'<text class="label" x="{middle_x}" y="{_number(self.bottom + 40)}" text-anchor="middle">'
            f"{escape(self._chart.x_label)}</text>"
        )
        parts.append(
            f'<text class="label" transform="translate(16 {middle_y}) rotate(-90)" text-anchor="middle">'
            f"{escape(self._chart.y_label)}</text>"
        )
        if title:
            parts.append(f'<text class="title" x="{self.left}" y="24">{escape(self._chart.title)}</text>')
        return parts

    def line(self, line: Line) -> list[str]:
        points = clipped(line, self._chart.x, self._chart.y) if len(line.points) == 2 else line.points
        if not points:
            return []
        path = " ".join(f"{_number(self.x(x))},{_number(self.y(y))}" for x, y in points)
        classes = "line" + (" dashed" if line.dashed else "") + ("" if line.color else " plain")
        stroke = f' stroke="{line.color}"' if line.color else ""
        parts = [f'<polyline class="{classes}"{stroke} points="{path}"/>']
        if line.label:
            parts.append(self._line_label(line, points))
        return parts

    def _line_label(self, line: Line, points: Sequence[tuple[float, float]]) -> str:
        (x0, y0), (x1, y1) = [(self.x(x), self.y(y)) for x, y in (points[0], points[-1])]
        text = escape(line.label)
        if line.slanted:
            angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
            share = 0.06
            x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
            return (
                f'<text class="label halo" transform="translate({_number(x)} {_number(y)}) rotate({_number(angle)})'
                f' translate(0 {15 if line.below else -6})">{text}</text>'
            )
        width = _CHARACTER * len(line.label)
        x, y = x1 - 6, y1 - 5
        while any(start < x and x - width < end and abs(y - at) < 13 for start, end, at in self._taken):
            x -= width / 4
            if x - width < x0 and x - width < self.left:
                y += 17
                x = x1 - 6
        self._taken.append((x - width, x, y))
        return f'<text class="label halo" x="{_number(x)}" y="{_number(y)}" text-anchor="end">{text}</text>'

    def mark(self, mark: Mark) -> str:
        row = f' data-row="{mark.index}" tabindex="0"' if mark.index >= 0 else ""
        attributes = f'class="mark" fill="{mark.color}"{row}'
        return shape(mark.shape, self.x(mark.x), self.y(mark.y), attributes, f"<title>{escape(mark.label)}</title>")

    def legend(self, keys: Sequence[Key], top: float) -> list[str]:
        parts: list[str] = []
        x, y = float(self.left), top
        for key in keys:
            width = _CHARACTER * len(key.label) + 30
            if x + width > self.right and x > self.left:
                x, y = float(self.left), y + _LEGEND_LINE
            parts.append(shape(key.shape, x + 6, y - 4, f'class="mark" fill="{key.color}"'))
            parts.append(f'<text class="label" x="{_number(x + 17)}" y="{_number(y)}">{escape(key.label)}</text>')
            x += width
        return parts


def _legend_height(keys: Sequence[Key], width: float) -> float:
    if not keys:
        return 0.0
    lines, x = 1, float(_LEFT)
    for key in keys:
        step = _CHARACTER * len(key.label) + 30
        if x + step > width - _RIGHT and x > _LEFT:
            lines, x = lines + 1, float(_LEFT)
        x += step
    return lines * _LEGEND_LINE + 6


def panel(chart: Chart, width: float = WIDTH, height: float = HEIGHT, bare: bool = False) -> tuple[str, float]:
    """The chart as the inside of an <svg>, and its height with the legend. Bare: without title and legend."""
    plot = _Plot(chart, width, height)
    parts = plot.axes(title=not bare)
    for line in chart.lines:
        parts += plot.line(line)
    parts += [plot.mark(mark) for mark in chart.marks]
    total = height
    if not bare:
        parts += plot.legend(chart.keys, height + 8)
        total += _legend_height(chart.keys, width)
    return "\n".join(parts), total


def element(chart: Chart) -> str:
    """For a page: without title, legend and styles, which the page has."""
    inner, height = panel(chart, bare=True)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {_number(height)}" role="img" aria-label="{escape(chart.title)}">'
        f"\n{inner}\n</svg>"
    )


def document(charts: Sequence[Chart], columns: int = 1) -> str:
    """A file of its own, following the reader's light or dark theme."""
    width = WIDTH if columns == 1 else WIDTH * 0.62
    height = HEIGHT if columns == 1 else HEIGHT * 0.72
    parts: list[str] = []
    top = row_height = 0.0
    for i, chart in enumerate(charts):
        column = i % columns
        if column == 0:
            top += row_height
            row_height = 0.0
        inner, used = panel(chart, width, height)
        row_height = max(row_height, used + 8)
        parts.append(f'<g transform="translate({_number(column * width)} {_number(top)})">\n{inner}\n</g>')
    total_width, total_height = _number(min(columns, len(charts)) * width), _number(top + row_height)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {total_width} {total_height}"'
        f' width="{total_width}" height="{total_height}">\n'
        f"<style>{STYLE}@media (prefers-color-scheme: dark) {{ {DARK} }}</style>\n"
        f'<rect class="back" width="100%" height="100%"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
