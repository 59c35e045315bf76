# SPDX-License-Identifier: Apache-2.0
"""Drawings as PNG: the shapes and texts of drawing.py, painted by Matplotlib, which brings fonts and smooth edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path as File
from typing import Any

from roofreport import files
from roofreport.errors import UnusableInputError
from roofreport.render.chart import Chart
from roofreport.render.drawing import STYLES, Path, Style, Symbol, Text, sheet

_COLORS = {"ink": "#1c2430", "faint": "#dfe3e8", "back": "#ffffff"}
_PIXELS_PER_INCH = 100  # of the drawing
_SCALE = 2  # pixels of the picture for one of the drawing
_POINT = 72 / _PIXELS_PER_INCH
_LABEL_SIZE = 12
# Matplotlib's own font is wider than those of browsers, for which the drawing leaves room.
_NARROWER = 0.88
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def _style(classes: Sequence[str]) -> Style:
    """Each class adds to those before it, or goes before them."""
    found = Style()
    for style in (STYLES[name] for name in classes):
        found = Style(
            style.stroke or found.stroke,
            style.width or found.width,
            style.fill or found.fill,
            style.opacity * found.opacity,
            style.dashes or found.dashes,
            style.size or found.size,
            style.bold or found.bold,
        )
    return found


def _paint_path(axes: Any, path: Path, left: float, top: float, order: int) -> None:
    points = [*path.points, *([path.points[0]] if path.closed else [])]
    style = _style(path.classes)
    width = style.width * _POINT
    axes.plot(
        [left + x for x, _ in points],
        [top + y for _, y in points],
        color=path.color or _COLORS[style.stroke],
        linewidth=width,
        alpha=style.opacity,
        # Matplotlib counts dashes in widths of the line.
        linestyle=(0, tuple(dash / style.width for dash in style.dashes)) if style.dashes else "-",
        solid_capstyle="butt",
        zorder=order,
    )


def _paint_symbol(axes: Any, symbol: Symbol, left: float, top: float, order: int) -> None:
    from matplotlib import patches

    style = STYLES["hollow" if symbol.doubtful else "mark"]
    corners = [(left + x, top + y) for x, y in symbol.corners()]
    circle = patches.Circle((left + symbol.x, top + symbol.y), symbol.radius)
    patch = patches.Polygon(corners, closed=True) if corners else circle
    edge = {"edgecolor": _COLORS[style.stroke], "linewidth": style.width * _POINT}
    patch.set(facecolor=symbol.color, zorder=order, alpha=style.opacity, **edge)
    axes.add_patch(patch)


def _paint_text(axes: Any, text: Text, left: float, top: float, order: int) -> None:
    from matplotlib import patheffects

    style = _style(text.classes)
    turn = math.radians(text.angle)
    halo = patheffects.withStroke(linewidth=style.width * _POINT, foreground=_COLORS[style.stroke or "back"])
    axes.text(
        left + text.x - text.below * math.sin(turn),
        top + text.y + text.below * math.cos(turn),
        text.text,
        fontsize=(style.size or _LABEL_SIZE) * _POINT * _NARROWER,
        fontweight="bold" if style.bold else "normal",
        color=_COLORS[style.fill],
        ha=_ANCHORS[text.anchor],
        va="baseline",
        rotation=-text.angle,
        rotation_mode="anchor",
        parse_math=False,
        path_effects=[halo] if style.stroke else [],
        zorder=order,
    )


def write(path: File, charts: Sequence[Chart], columns: int = 1) -> None:
    """Raises UnusableInputError where Matplotlib is not installed, and OSError."""
    # Half a second to import: only who wants a PNG waits for it.
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise UnusableInputError(f"a PNG needs the Python package {missing.name}: pip install matplotlib") from missing
    whole = sheet(charts, columns)
    figure = Figure(figsize=(whole.width / _PIXELS_PER_INCH, whole.height / _PIXELS_PER_INCH), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, whole.width)
    axes.set_ylim(whole.height, 0)
    for left, top, drawn in whole.panels:
        for order, item in enumerate(drawn.items):  # what comes later lies above
            if isinstance(item, Path):
                _paint_path(axes, item, left, top, order)
            elif isinstance(item, Symbol):
                _paint_symbol(axes, item, left, top, order)
            else:
                _paint_text(axes, item, left, top, order)
    with files.replacing(path) as file:
        figure.savefig(file, format="png", dpi=_SCALE * _PIXELS_PER_INCH)
