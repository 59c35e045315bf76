# SPDX-License-Identifier: Apache-2.0
"""Sweeps of sizes and batches, as tables and charts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofreport import units
from roofreport.compare.axes import Curve, Point
from roofreport.io.result import Case
from roofreport.render.chart import COLORS, SHAPES, Chart, Key, Line, Mark, color, spanning
from roofreport.render.formats import MOST_COLUMNS, Cell, Table
from roofreport.stats import growth
from roofreport.stats.growth import Series
from roofreport.text import printable

_MEAN = "_mean_ms"  # every phase has <phase>_mean_ms next to its median, <phase>_ms
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


def sweep_table(found: Sequence[Series]) -> Table:
    """One row per point. The base of a sweep is its smallest point."""
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


def growth_charts(found: Sequence[Series]) -> list[Chart]:
    """One panel per family and axis: points, the fitted line, and the expected slope through the last point."""
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


_HEADERS = ("case", "batch", "latency", "tokens/s", "roof", "mbu_measured", "power", "")
_LEGEND = "power: tokens/s over latency, times that of the first batch; it is largest at the knee"


def knee(curve: Curve) -> str:
    """A sentence."""
    point = curve.knee
    found = f"batch {point.batch}, {units.digits(point.rate)} tokens/s at {units.time(point.latency)} a token"
    if not curve.is_knee_inside:
        return f"{printable(curve.work, 200)}: no knee up to {found}: larger batches may serve better"
    return f"{printable(curve.work, 200)}: knee at {found}"


def _share(value: float | None) -> Cell:
    return Cell() if value is None else Cell(f"{units.digits(100 * value)} %", value)


def _row(curve: Curve, point: Point) -> tuple[Cell, ...]:
    power = point.power / curve.points[0].power
    is_knee = point is curve.knee and curve.is_knee_inside
    return (
        Cell(printable(curve.work, 300), numeric=False),
        Cell(str(point.batch), point.batch),
        Cell(units.time(point.latency), point.latency),
        Cell(units.digits(point.rate), point.rate),
        _share(point.roof),
        _share(point.mbu),
        Cell(f"{power:.2f}x", power),
        Cell("knee" if is_knee else "", numeric=False),
    )


def serving_table(curves: Sequence[Curve]) -> Table:
    """One row per batch of each curve."""
    rows = tuple(_row(curve, point) for curve in curves for point in curve.points)
    legend = (_LEGEND, *(knee(curve) for curve in curves))
    return Table(_HEADERS, rows, legend).without_empty_columns()


def _label(point: Point) -> str:
    shares = ((point.roof, "roof"), (point.mbu, "MBU"))
    said = [f"{name} {units.digits(100 * share)} %" for share, name in shares if share is not None]
    return ", ".join([f"batch {point.batch}", f"{units.digits(point.rate)} tokens/s", units.time(point.latency), *said])


def _caption(point: Point, is_knee: bool) -> str:
    share = "" if point.roof is None else f" ({100 * point.roof:.0f} %)"
    return f"{point.batch}{share}{' knee' if is_knee else ''}"


def serving_chart(curves: Sequence[Curve]) -> Chart:
    """All curves in one picture: each point shows its batch, and its share of the roof where that is known."""
    marks: list[Mark] = []
    for i, curve in enumerate(curves):
        for point in curve.points:
            is_knee = point is curve.knee and curve.is_knee_inside
            caption = _caption(point, is_knee)
            marks.append(
                Mark(
                    point.latency,
                    point.rate,
                    _label(point),
                    color(i),
                    SHAPES[i % len(SHAPES)],
                    caption=caption,
                )
            )
    return Chart(
        title="throughput against latency, by batch (share of the roof)",
        x_label="from a token of a sequence to its next one",
        y_label="tokens a second of all sequences",
        x=spanning((mark.x for mark in marks), 1.3),
        y=spanning(mark.y for mark in marks),
        lines=tuple(
            Line(tuple((point.latency, point.rate) for point in curve.points), color=color(i))
            for i, curve in enumerate(curves)
        ),
        marks=tuple(marks),
        keys=tuple(
            Key(printable(curve.work, 100), color(i), SHAPES[i % len(SHAPES)]) for i, curve in enumerate(curves)
        ),
        x_tick=units.time,
        y_tick=units.digits,
    )
