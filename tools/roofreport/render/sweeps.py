# SPDX-License-Identifier: Apache-2.0
"""Sweeps of sizes and batches, as tables and charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import NamedTuple

from roofreport import units
from roofreport.compare.axes import ServingCurve, ServingPoint
from roofreport.io.reliability import IN_DOUBT, doubt
from roofreport.io.result import Case
from roofreport.render.chart import Chart, Key, Line, Mark, around, color, shape
from roofreport.render.formats import Cell, Column, Table, figure, named_like, ratio, table, words
from roofreport.stats import growth, places
from roofreport.stats.growth import Series
from roofreport.stats.places import doubt_between
from roofreport.text import shortened

_MEAN = "_mean_ms"  # every phase has <phase>_mean_ms next to its median, <phase>_ms
_MEDIAN = "_ms"


class _SweepPoint(NamedTuple):
    """A point of a sweep."""

    series: Series
    size: float
    case: Case

    def growth_of(self, counter: str) -> Cell:
        return self.over_first(lambda case: case.counters.get(counter))

    def over_first(self, value: Callable[[Case], float | None]) -> Cell:
        """Times that of the smallest point of the sweep."""
        first = self.series.cases[0]
        return Cell(IN_DOUBT) if doubt_between(self.case, first) else ratio(value(self.case), value(first))

    @property
    def expected(self) -> float | None:
        exponent, times = self.series.expected, self.size / self.series.sizes[0]
        return None if exponent is None else growth.power(exponent * math.log(times))


def sweep_table(found: Sequence[Series]) -> Table:
    """One row per point. The base of a sweep is its smallest point."""
    points = [_SweepPoint(one, *point) for one in found for point in zip(one.sizes, one.cases, strict=True)]
    phases = named_like([point.case for point in points], _MEAN)
    columns: list[Column[_SweepPoint]] = [
        ("family", lambda point: words(point.series.family, 60)),
        ("setup", lambda point: words(point.series.rest)),
        ("axis", lambda point: words(point.series.axis, 60)),
        ("value", lambda point: figure(point.size, "{:.15g}".format)),
        ("x value", lambda point: ratio(point.size, point.series.sizes[0])),
        ("time", lambda point: figure(point.case.seconds, units.time)),
        ("x time", lambda point: point.over_first(lambda case: case.seconds)),
        *((f"x {phase}", methodcaller("growth_of", phase + _MEDIAN)) for phase in phases),
        ("expected", lambda point: ratio(point.expected, 1)),
    ]
    legend = ["x: times the smallest point of the same sweep", *places.legend([point.case for point in points])]
    return table(points, columns, legend)


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
            style = color(i), shape(i)
            first, last = series.sizes[0], series.sizes[-1]
            fit = series.fit
            if fit is not None:
                lines.append(Line(tuple((x, fit.seconds(x)) for x in (first, last)), color=style[0]))
            if series.expected is not None:
                end = series.seconds[-1]
                start = growth.power(math.log(end) + series.expected * math.log(first / last))
                lines.append(Line(((first, start), (last, end)), dashed=True, color=style[0]))
            for x, case in zip(series.sizes, series.cases, strict=True):
                why = doubt(case)
                label = f"{axis}={x:.15g}: {units.time(case.seconds)}{', ' if why else ''}{why}"
                marks.append(Mark(x, case.seconds, label, *style, doubtful=bool(why)))
            exponent = f"{axis}^{fit.exponent:.2f}" if fit else f"no fit of {axis}"
            expected = "" if series.expected is None else f", expected {series.expected:g}"
            keys.append(Key(f"{shortened(series.rest, 60)}: {exponent}{expected}", *style))
        drawn.append(
            around(
                marks,
                lines,
                keys,
                title=f"{shortened(family, 40)}: time against {shortened(axis, 40)} (dashed: expected growth)",
                x_label=shortened(axis, 40),
                y_label="median time of a step",
                x_tick=lambda value: f"{value:g}",
                y_tick=units.time,
            )
        )
    return drawn


def knee(curve: ServingCurve) -> str:
    """A sentence."""
    if curve.doubt:
        return f"{curve.work}: no knee: {curve.doubt}"
    point = curve.knee
    found = f"batch {point.batch}, {units.digits(point.rate)} tokens/s at {units.time(point.latency)} a token"
    if not curve.is_knee_inside:
        return f"{curve.work}: no knee up to {found}: larger batches may serve better"
    return f"{curve.work}: knee at {found}"


def serving_table(curves: Sequence[ServingCurve]) -> Table:
    """One row per batch of each curve."""
    rows = [(curve, point) for curve in curves for point in curve.points]
    columns: list[Column[tuple[ServingCurve, ServingPoint]]] = [
        ("case", lambda row: words(row[0].work)),
        ("batch", lambda row: figure(row[1].batch, str)),
        ("latency", lambda row: figure(row[1].latency, units.time)),
        ("tokens/s", lambda row: figure(row[1].rate, units.digits)),
        ("roof", lambda row: figure(row[1].roof, units.share)),
        ("mbu_measured", lambda row: figure(row[1].mbu, units.share)),
        ("power", lambda row: _power(*row)),
        ("", lambda row: words("knee" if _is_knee(*row) else "")),
    ]
    legend = "power: tokens/s over latency, times that of the first batch; it is largest at the knee"
    return table(rows, columns, [legend, *map(knee, curves)]).without_empty_columns()


def _power(curve: ServingCurve, point: ServingPoint) -> Cell:
    first = curve.points[0]
    return Cell(IN_DOUBT) if point.doubt or first.doubt else figure(point.power / first.power, units.times)


def _is_knee(curve: ServingCurve, point: ServingPoint) -> bool:
    return not curve.doubt and point is curve.knee and curve.is_knee_inside


def _label(point: ServingPoint) -> str:
    shares = ((point.roof, "roof"), (point.mbu, "MBU"))
    said = [f"{name} {units.share(share)}" for share, name in shares if share is not None]
    said += [point.doubt] if point.doubt else []
    return ", ".join([f"batch {point.batch}", f"{units.digits(point.rate)} tokens/s", units.time(point.latency), *said])


def _caption(point: ServingPoint, is_knee: bool) -> str:
    share = "" if point.roof is None else f" ({100 * point.roof:.0f} %)"
    return f"{point.batch}{share}{' knee' if is_knee else ''}"


def serving_chart(curves: Sequence[ServingCurve]) -> Chart:
    """All curves in one picture: each point shows its batch, and its share of the roof where that is known."""
    lines: list[Line] = []
    marks: list[Mark] = []
    keys: list[Key] = []
    for i, curve in enumerate(curves):
        style = color(i), shape(i)
        for point in curve.points:
            caption = _caption(point, _is_knee(curve, point))
            doubtful = bool(point.doubt)
            marks.append(Mark(point.latency, point.rate, _label(point), *style, doubtful=doubtful, caption=caption))
        lines.append(Line(tuple((point.latency, point.rate) for point in curve.points), color=style[0]))
        keys.append(Key(shortened(curve.work, 100), *style))
    return around(
        marks,
        lines,
        keys,
        title="throughput against latency, by batch (share of the roof)",
        x_label="from a token of a sequence to its next one",
        y_label="tokens a second of all sequences",
        x_tick=units.time,
        y_tick=units.digits,
    )
