"""Draws charts as PNG, with Matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roofreport.chart import Chart, clipped

_SHAPES = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^"}
_INK = "#1c2430"
_LONG_LABEL = 20


def _draw(axes: Any, chart: Chart) -> list[tuple[Any, Any]]:
    """The labels that run along a line, with its points: their angle is known once the figure has its layout."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(chart.x.low, chart.x.high)
    axes.set_ylim(chart.y.low, chart.y.high)
    axes.set_title(chart.title, loc="left", fontsize=11, parse_math=False)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.minorticks_off()
    axes.set_xticks(chart.x.ticks(), [chart.x_tick(tick) for tick in chart.x.ticks()])
    axes.set_yticks(chart.y.ticks(), [chart.y_tick(tick) for tick in chart.y.ticks()])
    axes.grid(color="#dfe3e8")
    slanted: list[tuple[Any, Any]] = []
    for line in chart.lines:
        points = clipped(line, chart.x, chart.y) if len(line.points) == 2 else line.points
        if not points:
            continue
        xs, ys = zip(*points, strict=True)
        color = line.color or _INK
        axes.plot(xs, ys, color=color, linestyle="--" if line.dashed else "-", linewidth=1.2 if line.dashed else 1.8)
        if not line.label:
            continue
        at = points[0] if line.slanted else points[-1]
        text = axes.annotate(
            line.label,
            at,
            xytext=((4, -11) if line.below else (4, 4)) if line.slanted else (-4, 4),
            textcoords="offset points",
            ha="left" if line.slanted else "right",
            rotation_mode="anchor",
            fontsize=8,
            color=color,
            parse_math=False,
        )
        if line.slanted:
            slanted.append((text, points))
    for mark in chart.marks:
        axes.plot([mark.x], [mark.y], _SHAPES[mark.shape], color=mark.color, markeredgecolor="white", markersize=7)
    for key in chart.keys:
        axes.plot([], [], _SHAPES[key.shape], color=key.color, label=key.label.replace("$", r"\$"))
    if chart.keys:
        long = max(len(key.label) for key in chart.keys) > _LONG_LABEL
        at = (0.0 if long else 0.5, -0.13)
        place = "upper left" if long else "upper center"
        axes.legend(loc=place, bbox_to_anchor=at, ncols=1 if long else 6, fontsize=8, frameon=False)
    return slanted


def write(path: Path, charts: Sequence[Chart], columns: int = 1) -> None:
    # Half a second to import: only who wants a PNG waits for it.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(columns, len(charts))
    rows = math.ceil(len(charts) / columns)
    size = (9.6, 6.0) if columns == 1 else (6.2 * columns, 5.2 * rows)
    figure, grid = pyplot.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")
    slanted: list[tuple[Any, list[tuple[Any, Any]]]] = []
    for axes, chart in zip(grid.flat, charts, strict=False):
        slanted.append((axes, _draw(axes, chart)))
    for axes in list(grid.flat)[len(charts) :]:
        axes.set_visible(False)
    figure.draw_without_rendering()
    for axes, labels in slanted:
        for text, points in labels:
            (x0, y0), (x1, y1) = axes.transData.transform(points)
            text.set_rotation(math.degrees(math.atan2(y1 - y0, x1 - x0)))
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
