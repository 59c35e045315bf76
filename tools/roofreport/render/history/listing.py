# SPDX-License-Identifier: Apache-2.0
"""Runs and series of a history as tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from roofreport import units
from roofreport.history.records import Reading, Run, Series
from roofreport.io.contract import TIME, Metric
from roofreport.io.result import Case
from roofreport.render.result_table import counter_text
from roofreport.render.table import Cell, Table
from roofreport.text import printable

_LONGEST = 60
_SHORT_REVISION = 12


def _text(text: str) -> Cell:
    return Cell(printable(text, _LONGEST), numeric=False)


def _moment(moment: datetime) -> Cell:
    return Cell(moment.strftime("%Y-%m-%d %H:%M"), numeric=False)


def runs(found: Sequence[Run]) -> Table:
    rows = tuple(
        (
            Cell(str(run.id), run.id),
            _moment(run.started),
            _text(run.revision[:_SHORT_REVISION]),
            _text(run.machine.label),
            _text(run.toolchain.label),
            _text(run.name),
        )
        for run in found
    )
    return Table(("run", "started (UTC)", "revision", "machine", "toolchain", "file"), rows)


def series(found: Sequence[Series]) -> Table:
    rows = tuple(
        (
            _text(one.key),
            Cell(printable(one.case, 300), numeric=False),
            _text(one.machine.label),
            _text(one.toolchain.label),
        )
        for one in found
    )
    return Table(("series", "case", "machine", "toolchain"), rows)


def figure(value: float, metric: Metric) -> str:
    return units.time(value) if metric.name == TIME.name else counter_text(value, metric.unit)


def readings(one: Series, found: Sequence[Reading], metric: Metric) -> Table:
    rows = []
    last: float | None = None
    for reading in found:
        if reading.value is None:
            case = Case(one.case, 0, reading.state, reading.reason)
            value, change = Cell(case.why_not, numeric=False), Cell()
        else:
            value = Cell(figure(reading.value, metric), reading.value)
            ratio = reading.value / last - 1 if last else None
            change = Cell() if ratio is None else Cell(units.percent(ratio), ratio)
            last = reading.value
        note = Cell("noisy" if reading.noisy else "", numeric=False)
        run = reading.run
        rows.append(
            (
                Cell(str(run.id), run.id),
                _moment(run.started),
                _text(run.revision[:_SHORT_REVISION]),
                value,
                change,
                note,
            )
        )
    return Table(("run", "started (UTC)", "revision", one.metric, "change", ""), tuple(rows))
