# SPDX-License-Identifier: Apache-2.0
"""Serving curves as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from roofreport import units
from roofreport.compare.serving import Curve, Point
from roofreport.render.chart import SHAPES, Chart, Key, Line, Mark, color, spanning
from roofreport.render.table import Cell, Table
from roofreport.text import printable

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


def table(curves: Sequence[Curve]) -> Table:
    """A row a batch of each curve."""
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


def chart(curves: Sequence[Curve]) -> Chart:
    """All curves in one picture: each point says its batch, and its share of the roof where that is known."""
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
