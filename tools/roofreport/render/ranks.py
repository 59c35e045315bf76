# SPDX-License-Identifier: Apache-2.0
"""Steps that ranks share, as a table and a chart: measured, and predicted for more ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from roofreport import units
from roofreport.io.reliability import IN_DOUBT, doubts, half_width
from roofreport.render.chart import Chart, Key, Line, Mark, around, color, shape
from roofreport.render.formats import Cell, Column, Table, figure, note, table, words
from roofreport.stats import places
from roofreport.stats.ranks import MOST_RANKS, Series


class _Row(NamedTuple):
    series: Series
    ranks: int
    seconds: float
    interval: float | None
    computation: float
    communication: float | None
    origin: str
    is_in_doubt: bool = False

    def of_series(self, value: float, shown: Callable[[float], str]) -> Cell:
        """A figure over that of the smallest point."""
        return Cell(IN_DOUBT) if self.is_in_doubt or self.series.points[0].doubt else figure(value, shown)


def _rows(series: Series, ranks: Sequence[int]) -> list[_Row]:
    rows = []
    for point in series.points:
        why = point.doubt or places.apart(series.points[0].case, point.case)
        communication = point.communication if point.ranks > 1 else None
        origin = f"measured; {why}" if why else "measured"
        half = half_width(point.case)
        width = None if math.isnan(half) else half
        times = (point.computation, communication)
        rows.append(_Row(series, point.ranks, point.seconds, width, *times, origin, is_in_doubt=bool(why)))
    model = series.model
    for more in ranks:
        if model and series.points[-1].ranks < more <= model.reach:
            times = (model.computing(more), model.communication(more))
            rows.append(_Row(series, more, model.seconds(more), None, *times, "predicted"))
    return rows


def conclusion(series: Series) -> str:
    """A sentence."""
    model = series.model
    in_doubt = doubts({units.counted(point.ranks, "rank"): point.case for point in series.points})
    if not model and in_doubt:
        return f"{_title(series)}: no prediction: {in_doubt}"
    if not model:
        return f"{_title(series)}: no prediction without two numbers of ranks above 1, inside a node and beyond it"
    bound = f"from {model.bound_from} ranks on" if model.bound_from else f"never, up to {model.reach} ranks"
    if series.errors:
        worst = max(series.errors, key=abs)
        error = f"the time of a point left out of the fit is off by {units.percent(worst)} at most"
    else:
        error = "too few points to leave one out: the error of the prediction is unknown"
    start, move = map(units.time, model.inside)
    takes = f"communication of n ranks takes {start} (n-1) + {move} (n-1)/n"
    if model.node < model.reach:
        message, moved = map(units.time, model.between)
        takes += f", on m nodes {start} (n-1-m) + {message} m + {moved} (n-1)/n"
    elif model.node < MOST_RANKS:
        bound += "; more are on several nodes, whose links are unknown without two numbers of nodes"
    hidden = units.share(model.hidden)
    return f"{_title(series)}: {takes}, {hidden} of it hidden; longer than computation {bound}; {error}"


def _title(series: Series) -> str:
    return f"{'strong' if series.is_strong else 'weak'} scaling of {series.name}"


def scaling_table(found: Sequence[Series], ranks: Sequence[int]) -> Table:
    """One row per number of ranks."""
    columns: list[Column[_Row]] = [
        ("case", lambda row: words(row.series.name)),
        ("scaling", lambda row: words("strong" if row.series.is_strong else "weak")),
        ("ranks", lambda row: figure(row.ranks, str)),
        ("time", lambda row: figure(row.seconds, units.time)),
        ("+-ci", lambda row: figure(row.interval, units.half_width)),
        ("speed-up", lambda row: row.of_series(row.series.speedup(row.ranks, row.seconds), units.times)),
        ("efficiency", lambda row: row.of_series(row.series.efficiency(row.ranks, row.seconds), units.share)),
        ("computation", lambda row: figure(row.computation, units.time)),
        ("communication", lambda row: figure(row.communication, units.time)),
        ("", lambda row: note(row.origin)),
    ]
    legend = "predicted: each further rank has a processor and a link like those of the largest measured point"
    rows = [row for series in found for row in _rows(series, ranks)]
    return table(rows, columns, [legend, *map(conclusion, found)])


def scaling_chart(found: Sequence[Series], ranks: Sequence[int]) -> Chart:
    """Measured points are full, predicted ones hollow, on the dashed line of the model."""
    lines: list[Line] = []
    marks: list[Mark] = []
    keys: list[Key] = []
    for i, series in enumerate(found):
        style = color(i), shape(i)
        predicted = []
        for row in _rows(series, ranks):
            is_predicted = row.interval is None
            label = f"{units.counted(row.ranks, 'rank')}: {units.time(row.seconds)}, {row.origin}"
            marks.append(Mark(row.ranks, row.seconds, label, *style, doubtful=is_predicted))
            if is_predicted:
                predicted.append((float(row.ranks), row.seconds))
        lines.append(Line(tuple((p.ranks, p.seconds) for p in series.points), color=style[0]))
        last = series.points[-1]
        lines.append(Line(((last.ranks, last.seconds), *predicted), dashed=True, color=style[0]))
        keys.append(Key(_title(series), *style))
    return around(
        marks,
        lines,
        keys,
        title="time of a step by ranks (hollow: predicted)",
        x_label="ranks",
        y_label="median time of a step",
        x_tick=lambda value: f"{value:g}",
        y_tick=units.time,
    )
