# SPDX-License-Identifier: Apache-2.0
"""Judgments as a table, and their count in one line."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence

from roofreport import units
from roofreport.io.contract import TIME, Metric
from roofreport.render.formats import Cell, Column, Table, figure, note, table, words
from roofreport.stats.verdict import Judgment, Verdict


def cell(value: float, shown: Callable[[float], str]) -> Cell:
    """As figure(); empty for nan."""
    return Cell(value=value) if math.isnan(value) else figure(value, shown)


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def build(judgments: Sequence[Judgment], metric: Metric = TIME) -> Table:
    def of_metric(value: float) -> Cell:
        return cell(value, lambda value: units.spelled(value, metric.unit))

    columns: list[Column[Judgment]] = [
        ("verdict", lambda one: words(one.verdict.value)),
        ("case", lambda one: words(one.name)),
        ("base", lambda one: of_metric(one.base)),
        ("new", lambda one: of_metric(one.new)),
        ("change", lambda one: cell(one.effect, units.percent)),
        ("interval", lambda one: words(one.interval())),
        ("floor", lambda one: cell(one.floor, units.tenths)),
        ("note", lambda one: note(one.note)),
    ]
    return table(judgments, columns if any(one.note for one in judgments) else columns[:-1])


def as_json(judgments: Sequence[Judgment], metric: Metric = TIME) -> str:
    """For programs: figures in base units, effects as shares; null where one is missing."""
    cases = []
    for one in judgments:
        figures = {
            "base": one.base,
            "new": one.new,
            "change": one.effect,
            "low": one.low,
            "high": one.high,
            "floor": one.floor,
        }
        kept = {name: finite(value) for name, value in figures.items()}
        cases.append({"name": one.name, "verdict": one.verdict.value, **kept, "note": one.note})
    return json.dumps({"metric": metric.name, "unit": metric.unit, "cases": cases}, indent=1) + "\n"


def summary(judgments: Sequence[Judgment]) -> str:
    """ "12 cases: 10 SAME, 1 SLOWER, 1 AMBIGUOUS"."""
    counts = Counter(judgment.verdict for judgment in judgments)
    parts = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    return f"{units.counted(len(judgments), 'case')}: {', '.join(parts) or 'none'}"
