# SPDX-License-Identifier: Apache-2.0
"""One run as the pages that compare runs, or draw a roofline, want it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roofreport.history.records import Reading, Run, Series
from roofreport.io.contract import TIME
from roofreport.io.result import Case, Result
from roofreport.render import roofline
from roofreport.render.chart import SHAPES, Mark
from roofreport.site.data.catalogue import Catalogue, facts
from roofreport.site.data.script import number, words

# By the digest of the run, then by the metric.
Readings = Mapping[str, Mapping[str, Sequence[tuple[Series, Reading]]]]


def by_run(histories: Mapping[str, Mapping[Series, Sequence[Reading]]]) -> Readings:
    found: dict[str, dict[str, list[tuple[Series, Reading]]]] = {}
    for metric, history in histories.items():
        for series, readings in history.items():
            for reading in readings:
                found.setdefault(reading.run.digest, {}).setdefault(metric, []).append((series, reading))
    return found


def _case(series: Series, reading: Reading) -> Case:
    seconds = reading.value or 0.0
    return Case(
        name=series.case,
        repetition=0,
        state=reading.state,
        seconds=seconds,
        flops=reading.counters.get("FLOP/s", 0.0) * seconds,
        bytes=reading.counters.get("bytes/s", 0.0) * seconds,
        counters=dict(reading.counters),
    )


def _mark(mark: Mark, case: Case, catalogue: Catalogue, colors: Sequence[str]) -> list[Any]:
    """The case, FLOP/byte, FLOP/s, the share of its roof, and how the mark looks."""
    share = number(case.counters.get("roof"), 3)
    looks = colors.index(mark.color), SHAPES.index(mark.shape)
    return [catalogue.case(case.name), number(mark.x, 4), number(mark.y, 4), share, *looks]


def _roofline(run: Run, timed: Sequence[tuple[Series, Reading]], catalogue: Catalogue) -> dict[str, Any]:
    context = {"device": run.machine.label, **run.context}
    cases = tuple(_case(series, reading) for series, reading in timed)
    chart = roofline.chart(Result(Path(words(run.name)), context, cases))
    colors = sorted({key.color for key in chart.keys} | {mark.color for mark in chart.marks})
    return {
        "colors": colors,
        "lines": [
            [line.label, line.dashed, *(number(one, 4) for point in line.points for one in point)]
            for line in chart.lines
        ],
        "marks": [_mark(mark, cases[mark.index], catalogue, colors) for mark in chart.marks],
        "keys": [[key.label, colors.index(key.color), SHAPES.index(key.shape)] for key in chart.keys],
    }


def data(run: Run, readings: Mapping[str, Sequence[tuple[Series, Reading]]], catalogue: Catalogue) -> dict[str, Any]:
    return {
        "file": words(run.name),
        "facts": facts(run.context),
        "values": {
            words(metric, 100): [[catalogue.case(series.case), number(one.value)] for series, one in rows]
            for metric, rows in readings.items()
        },
        "roofline": _roofline(run, readings.get(TIME.name, []), catalogue),
    }
