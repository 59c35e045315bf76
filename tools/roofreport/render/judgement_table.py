# SPDX-License-Identifier: Apache-2.0
"""Judgements as a table, and their count in one line."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence

from roofreport import units
from roofreport.io.contract import TIME, Metric
from roofreport.render.formats import Cell, Table
from roofreport.stats.verdict import Judgement, Verdict
from roofreport.text import printable

HEADERS = ("verdict", "case", "base", "new", "change", "interval", "floor", "note")


def figure(value: float, metric: Metric) -> str:
    if math.isnan(value):
        return ""
    if metric.unit in ("s", "ms"):
        return units.time(value if metric.unit == "s" else value / 1e3)
    return units.quantity(value, metric.unit if "/s" in metric.unit or metric.unit == "B" else "").rstrip()


def _change(value: float) -> str:
    return "" if math.isnan(value) else units.percent(value)


def _row(judgement: Judgement, metric: Metric) -> tuple[Cell, ...]:
    floor = "" if math.isnan(judgement.floor) else f"{100 * judgement.floor:.1f} %"
    return (
        Cell(judgement.verdict.value, numeric=False),
        Cell(printable(judgement.name, 300), numeric=False),
        Cell(figure(judgement.base, metric), judgement.base),
        Cell(figure(judgement.new, metric), judgement.new),
        Cell(_change(judgement.effect), judgement.effect),
        Cell(judgement.interval(), numeric=False),
        Cell(floor, judgement.floor),
        Cell(judgement.note, numeric=False),
    )


def build(judgements: Sequence[Judgement], metric: Metric = TIME) -> Table:
    rows = tuple(_row(judgement, metric) for judgement in judgements)
    if any(judgement.note for judgement in judgements):
        return Table(HEADERS, rows)
    return Table(HEADERS[:-1], tuple(row[:-1] for row in rows))


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_json(judgements: Sequence[Judgement], metric: Metric = TIME) -> str:
    """For programs: figures in base units, effects as shares; null where one is missing."""
    cases = [
        {
            "name": judgement.name,
            "verdict": judgement.verdict.value,
            "base": _or_none(judgement.base),
            "new": _or_none(judgement.new),
            "change": _or_none(judgement.effect),
            "low": _or_none(judgement.low),
            "high": _or_none(judgement.high),
            "floor": _or_none(judgement.floor),
            "note": judgement.note,
        }
        for judgement in judgements
    ]
    return json.dumps({"metric": metric.name, "unit": metric.unit, "cases": cases}, indent=1) + "\n"


def summary(judgements: Sequence[Judgement]) -> str:
    """ "12 cases: 10 SAME, 1 SLOWER, 1 AMBIGUOUS"."""
    counts = Counter(judgement.verdict for judgement in judgements)
    parts = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    return f"{len(judgements)} case{'' if len(judgements) == 1 else 's'}: {', '.join(parts) or 'none'}"
