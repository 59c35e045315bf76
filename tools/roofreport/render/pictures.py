# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG, by Matplotlib. Its import takes half a second, so that this module is imported on demand."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from itertools import groupby
from textwrap import fill
from typing import Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import AutoLocator, LogLocator

from roofreport import units
from roofreport.io.profile import Part, Profile
from roofreport.io.snapshot import Snapshot
from roofreport.render.chart import SHAPES, Chart, Key, Line, Range, clipped
from roofreport.render.labels import LETTER, Floats, Labels, is_flat
from roofreport.render.memory import CATEGORIES, MemoryCurve, phase_at

INK, FAINT, BACK = "#1c2430", "#dfe3e8", "#ffffff"
WIDTH, HEIGHT = 960, 560  # pixels of a single chart
PHONE = 380, 420  # of one on a small screen
_THEME = f"""<style>
svg {{ --ink: {INK}; --faint: {FAINT}; --back: {BACK}; }}
@media (prefers-color-scheme: dark) {{ svg {{ --ink: #e6e9ee; --faint: #2c333d; --back: #14181e; }} }}
</style>
"""
_SMALLER = (0.62, 0.72)  # of several charts in one picture
_PIXELS_PER_INCH = 100
_POINT = 72 / _PIXELS_PER_INCH
_LABEL = "label"  # the gid of text that lines may pass under
_MOST_DECADES = 16  # labeled on an axis
_WIDEST_TICK = 60  # pixels
_MARKERS = {
    shape: Path.make_compound_path(*(Path([*loop, loop[0]], closed=True) for loop in loops))
    for shape, loops in SHAPES.items()
}
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 12 * _POINT,
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "legend.frameon": False,
}


def _figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """A figure with a size in pixels."""
    return Figure((width / _PIXELS_PER_INCH, height / _PIXELS_PER_INCH), facecolor=BACK, layout=layout)


@contextmanager
def _styled() -> Iterator[None]:
    """Every figure is made and saved in this."""
    with warnings.catch_warnings(), rc_context(_SETTINGS):  # type: ignore[arg-type]
        warnings.simplefilter("ignore")  # fonts without a glyph: the reader's own font has it
        yield


def svg_of(figure: Figure, titles: Mapping[str, str]) -> str:
    """The figure as an <svg> element. `titles`: the text that an artist shows under the pointer, by its gid."""
    out = io.StringIO()
    # Pictures of a page of which it hides some are not to share what they refer to.
    with _styled(), rc_context({"svg.hashsalt": str(figure.get_size_inches())}):
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))

    def titled(match: re.Match[str]) -> str:
        title = titles.get(match[1])
        return match[0] if title is None else f"{match[0]}<title>{escape(title)}</title>"

    # Text has a rim in the color of the page.
    rim = f'<g paint-order="stroke" stroke="{BACK}" stroke-width="{4 * _POINT:.3g}" stroke-linejoin="round">'
    text = out.getvalue().replace(f'<g id="{_LABEL}">', rim)
    return _NOT_IN_XML.sub(
        "\N{REPLACEMENT CHARACTER}", re.sub(r'<g id="([\w-]+)">', titled, text[text.index("<svg") :])
    )


def themed(element: str) -> str:
    """With variables of a style sheet as its neutral colors."""
    for name, color in (("ink", INK), ("faint", FAINT), ("back", BACK)):
        element = element.replace(color, f"var(--{name})")
    return element


def svg_file(element: str) -> str:
    """A file that follows the reader's light or dark theme."""
    element = themed(element)
    end = element.index(">") + 1
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{element[:end]}\n{_THEME}{element[end:]}'


def _label_lines(axes: Axes, lines: Sequence[tuple[Line, Floats]], marks: Sequence[tuple[float, float]]) -> None:
    """`lines`: with their points."""
    in_pixels = axes.transData
    drawn = [(line, in_pixels.transform(points)) for line, points in lines]
    labels = Labels(
        axes.bbox.get_points(), [points for _, points in drawn], in_pixels.transform(marks or np.empty((0, 2)))
    )
    for line, points in sorted(drawn, key=lambda one: not is_flat(one[1])):  # flat ones have fewer places
        spot = labels.place(line.label, points, line.below) if line.label else None
        if spot is not None:
            x, y = in_pixels.inverted().transform(spot[:2])
            style: dict[str, Any] = {"rotation": math.degrees(spot.angle), "rotation_mode": "anchor", "gid": _LABEL}
            axes.text(x, y, line.label, va="center", zorder=2.5, **style).set_in_layout(False)


def _place_ticks(axis: Axis, scale: Range, text: Callable[[float], str], most: int = _MOST_DECADES) -> None:
    """At decades, or at round numbers between them where there are few, or at even steps."""
    parts = (1.0,) if scale.high >= 1000 * scale.low else (1.0, 2.0, 5.0)
    locator = LogLocator(subs=parts, numticks=most)
    shown = [place for place in locator.tick_values(scale.low, scale.high) if scale.low <= place <= scale.high]
    axis.set_major_locator(locator if len(shown) > 1 else AutoLocator())
    axis.set_major_formatter(lambda value, _: text(value))


def _draw(figure: Figure, axes: Axes, chart: Chart, number: int) -> dict[str, str]:
    """The titles of its marks."""
    axes.set(xscale="log", yscale="log", xlim=(chart.x.low, chart.x.high), ylim=(chart.y.low, chart.y.high))
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    width = axes.bbox.width
    axes.set_title(fill(chart.title, int(width / LETTER)), loc="left", fontweight="bold")
    axes.minorticks_off()
    _place_ticks(axes.xaxis, chart.x, chart.x_tick, int(width / _WIDEST_TICK))
    _place_ticks(axes.yaxis, chart.y, chart.y_tick)
    axes.grid(linewidth=_POINT)
    lines = []
    for line in chart.lines:
        points = clipped(line, chart.x, chart.y) if len(line.points) == 2 else line.points
        if points:
            style = ("--", 1.5 * _POINT, 0.65) if line.dashed else ("-", 2 * _POINT, 1.0)
            axes.plot(*zip(*points, strict=True), color=line.color or INK, ls=style[0], lw=style[1], alpha=style[2])
            lines.append((line, np.array(points)))
    titles = {}
    for place, mark in enumerate(chart.marks):
        gid = f"mark-{mark.index}" if mark.index >= 0 else f"mark-{number}-{place}"
        titles[gid] = mark.label
        axes.plot(mark.x, mark.y, gid=gid, zorder=3, **_marker(mark.shape, mark.color, mark.doubtful))
        if mark.caption:
            axes.annotate(mark.caption, (mark.x, mark.y), (8, -14), textcoords="offset pixels", gid=_LABEL)
    handles = [_sign(key) for key in chart.keys]
    if handles:
        longest = max(len(key.label) for key in chart.keys)
        columns = max(1, int(figure.bbox.width / figure.dpi * _PIXELS_PER_INCH / (LETTER * longest + 60)))
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=min(columns, len(handles)))
    figure.draw_without_rendering()
    _label_lines(axes, lines, [(mark.x, mark.y) for mark in chart.marks])
    return titles


def _marker(shape: str, color: str, doubtful: bool) -> dict[str, Any]:
    edge, alpha = _edge(doubtful)
    return {"marker": _MARKERS[shape], "ms": 12 * _POINT, "mfc": color, "mec": edge, "alpha": alpha, "ls": ""}


def _edge(doubtful: bool) -> tuple[str, float]:
    """The color of a rim, and how opaque all of it is."""
    return (INK, 0.55) if doubtful else (BACK, 1.0)


def _sign(key: Key) -> Artist:
    if key.shape:
        return Line2D([], [], label=key.label, **_marker(key.shape, key.color, key.doubtful))
    edge, alpha = _edge(key.doubtful)
    return Patch(label=key.label, facecolor=key.color, edgecolor=edge, alpha=alpha)


def drawn(charts: Sequence[Chart], size: tuple[int, int] = (WIDTH, HEIGHT)) -> tuple[Figure, dict[str, str]]:
    """One chart or two, one below the other, or more in two columns, and the titles of their marks. `size`: of one."""
    columns = 1 if len(charts) < 3 else 2
    rows = -(-len(charts) // columns)
    width, height = size if columns == 1 else (size[0] * _SMALLER[0], size[1] * _SMALLER[1])
    titles: dict[str, str] = {}
    with _styled():
        keys = max((len(chart.keys) for chart in charts), default=0)
        figure = _figure(width * columns, (height + 20 * min(keys, 12) / 3) * rows)
        grid = figure.subplots(rows, columns, squeeze=False)
        for number, axes in enumerate(grid.flat):
            if number < len(charts):
                titles |= _draw(figure, axes, charts[number], number)
            else:
                axes.set_axis_off()
    return figure, titles


def svg_of_charts(charts: Sequence[Chart]) -> str:
    """A file."""
    return svg_file(svg_of(*drawn(charts)))


_MOST_POINTS = 1000  # of a layer
# After Okabe and Ito, by the place of a category.
_CATEGORY_COLORS = (
    *("#999999", "#0072b2", "#56b4e9", "#009e73", "#bbbbbb"),
    *("#e69f00", "#d55e00", "#cc79a7", "#777777"),
)
_BANDS = ("#eef1f5", "#ffffff")


def _category_color(category: str) -> str:
    return _CATEGORY_COLORS[CATEGORIES.index(category) if category in CATEGORIES else -1]


def memory_timeline(snapshot: Snapshot, curve: MemoryCurve) -> str:
    """The bytes alive over the events of a snapshot, a layer for each category, with phases as bands, as SVG."""
    count = snapshot.events + 1
    columns = sorted({*range(0, count, -(-count // _MOST_POINTS)), count - 1, curve.peak_at})
    titles = {}
    with _styled():
        figure = _figure(1100, 560)
        axes = figure.subplots()
        axes.set_title(f"{snapshot.case}: bytes alive", loc="left", pad=34)
        axes.set(xlim=(0, max(1, snapshot.events)), ylim=(0, curve.peak or 1), xlabel="allocations and frees, in order")
        axes.set_yticks(levels := [curve.peak * quarter / 4 for quarter in range(5)])
        axes.set_yticklabels([units.quantity(level, "B") if level else "0" for level in levels])
        runs = [list(run) for _, run in groupby(snapshot.phases, key=lambda phase: (phase.step, phase.name))]
        for number, run in enumerate(runs):
            begin, end, name = run[0].begin, run[-1].end, run[0].name
            titles[f"phase-{number}"] = f"{name}, step {run[0].step + 1}"
            axes.axvspan(begin, end, color=_BANDS[number % 2], gid=f"phase-{number}", zorder=0)
            if len(name) * LETTER < 1000 * (end - begin) / max(1, snapshot.events):
                axes.annotate(name, (begin, curve.peak), (3, 4), textcoords="offset pixels")
        if curve.layers:
            layers = [[layer[index] for index in columns] for layer in curve.layers]
            colors = [_category_color(name) for name in curve.categories]
            stack = axes.stackplot(columns, layers, colors=colors, labels=curve.categories, zorder=2)
            for number, (area, name, layer) in enumerate(zip(stack, curve.categories, curve.layers, strict=True)):
                area.set_gid(f"layer-{number}")
                titles[f"layer-{number}"] = f"{name}: {units.quantity(max(layer), 'B')} at most"
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1.04), ncols=9)
        axes.axvline(curve.peak_at, color=INK, ls="--", lw=_POINT, zorder=3)
        peak = f"peak {units.quantity(curve.peak, 'B')} ({phase_at(snapshot, curve.peak_at)})"
        is_right = curve.peak_at > snapshot.events / 2
        axes.annotate(
            peak,
            (curve.peak_at, curve.peak),
            (-4 if is_right else 4, -14),
            textcoords="offset pixels",
            ha="right" if is_right else "left",
            fontweight="bold",
            zorder=4,
        )
    return svg_of(figure, titles)


_ROW, _HEAD = 22, 34  # pixels
_DEEPEST = 100  # ranges inside ranges
_LEAST_WIDTH = 0.3  # pixels: narrower parts are left out
_FLAME_WIDTH = 1200.0
_FLAME_COLORS = ("#f2b56b", "#ee9f5f", "#e8895a", "#f0c27e", "#e5a86a")


def flame_graph(profile: Profile) -> str:
    """The parts of a model as SVG: each part hangs under the one that contains it, as wide as its time."""
    inside: dict[str, list[Part]] = {}
    for part in profile.parts[1:]:
        inside.setdefault(part.path.rpartition("/")[0], []).append(part)
    whole = profile.parts[0].total
    height = _HEAD + _ROW * (1 + min(_DEEPEST, max(part.depth for part in profile.parts))) + 4
    titles: dict[str, str] = {}
    with _styled():
        figure = _figure(_FLAME_WIDTH, height, None)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, _FLAME_WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        axes.text(3, 20, f"{profile.case}: {units.time(whole)} a step", fontsize=13 * _POINT)

        def place(part: Part, left: float) -> None:
            width = _FLAME_WIDTH * part.total / whole if whole > 0 else 0.0
            if width < _LEAST_WIDTH or part.depth > _DEEPEST:
                return
            name, top, gid = part.name or "step", _HEAD + part.depth * _ROW, f"part-{len(titles)}"
            share = f"{100 * part.total / whole:.1f} %"
            titles[gid] = f"{part.path or 'step'}: {units.time(part.total)}, {share}"
            color = _FLAME_COLORS[sum(map(ord, name)) % len(_FLAME_COLORS)]
            axes.add_patch(Rectangle((left, top), max(width - 0.5, 0.1), _ROW - 1, color=color, gid=gid))
            room = int((width - 6) / LETTER)
            shown = name if len(name) <= room else f"{name[: room - 1]}…" if room > 3 else ""
            if shown:
                axes.text(left + 3, top + 15, shown)
            for child in inside.get(part.path, []):
                place(child, left)
                left += _FLAME_WIDTH * child.total / whole

        place(profile.parts[0], 0)
    return svg_of(figure, titles)
