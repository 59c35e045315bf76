# SPDX-License-Identifier: Apache-2.0
"""Results as a table: a row a case, a column a figure."""

from __future__ import annotations

from collections.abc import Sequence

from roofreport import units
from roofreport.compare import precisions, speedup, winners
from roofreport.errors import UnusableInputError
from roofreport.io.contract import Contract
from roofreport.io.result import Case, Result, State, merged
from roofreport.render import findings
from roofreport.render.table import MOST_COLUMNS, Cell, Table
from roofreport.text import printable

NAME = "case"
MEDIAN = "median"
MEAN = "mean"
# What most cases have; a column that no case has is left out.
DEFAULT_COLUMNS = (NAME, MEDIAN, MEAN, "samples", "FLOP/s", "bytes/s", "roof", "<ref>_flop_util", "<ref>_mem_util")

_MILLISECOND = 1e-3


def counter_text(value: float, unit: str) -> str:
    if unit in ("FLOP/s", "B/s", "B"):
        return units.quantity(value, unit)
    if unit == "fraction":
        return f"{units.digits(100 * value)} %"
    if unit == "ms":
        return units.time(value * _MILLISECOND)
    return units.digits(value)


def _cell(case: Case | None, column: str, contract: Contract) -> Cell:
    if case is None or case.state is not State.MEASURED:
        return Cell()
    if column == MEDIAN:
        return Cell(units.time(case.seconds), case.seconds)
    if column == MEAN:
        mean, deviation = case.counters.get("mean_ms"), case.counters.get("stddev_ms")
        if mean is None or deviation is None:
            return Cell()
        scale, unit = (1.0, "ms") if mean >= 1 else (1e3, "µs")
        return Cell(f"{units.digits(mean * scale)} ± {units.digits(deviation * scale, 2)} {unit}", mean * _MILLISECOND)
    value = case.counters.get(column)
    metric = contract.metric(column)
    return Cell() if value is None else Cell(counter_text(value, metric.unit if metric else ""), value)


def _ratio(value: float | None) -> Cell:
    return Cell() if value is None else Cell(f"{value:.2f}x", value)


def _expanded(columns: Sequence[str], result: Result) -> list[str]:
    """The columns with patterns replaced by the counters that are there, without those that no case has."""
    contract = result.contract
    known = dict.fromkeys(name for case in result.cases for name in case.counters)
    special = {row.name for row in contract.counters}
    chosen: list[str] = []
    for column in columns:
        if column in (NAME, MEDIAN, MEAN) or column in known:
            chosen.append(column)
        elif column.startswith("<") and (metric := contract.metric(column)) is not None:
            chosen += [name for name in known if name not in special and contract.metric(name) is metric][:MOST_COLUMNS]
        elif column not in DEFAULT_COLUMNS and contract.metric(column) is None:
            choices = ", ".join([NAME, MEDIAN, MEAN, *known])
            raise UnusableInputError(
                f"--columns: no case has {printable(column)!r}; there are {printable(choices, 900)}"
            )
    return list(dict.fromkeys(chosen))


def build(results: Sequence[Result], columns: Sequence[str] = DEFAULT_COLUMNS, baseline: str | None = None) -> Table:
    """One row a case. A baseline adds its time over the case's own; every result after the first adds its median and
    the first's time over its own."""
    groups = [{name: merged(cases) for name, cases in result.by_name().items()} for result in results]
    names = list(dict.fromkeys(name for group in groups for name in group))
    base = groups[0]
    chosen = _expanded(columns, results[0])
    contract = results[0].contract
    headers = list(chosen)
    speedups = speedup.over(baseline, base, contract) if baseline else {}
    if baseline:
        headers.append(f"over {printable(baseline, 60)}")
    for number in range(2, len(results) + 1):
        headers += [f"{MEDIAN} [{number}]", f"ratio [{number}]"]
    rows = []
    for name in names:
        case = base.get(name)
        cells: list[Cell] = []
        explained = case is not None and case.state is State.MEASURED
        for column in chosen:
            if column == NAME:
                cells.append(Cell(printable(name, 300), numeric=False))
            elif not explained:
                cells.append(Cell("missing" if case is None else case.why_not, numeric=False))
                explained = True
            else:
                cells.append(_cell(case, column, contract))
        if baseline:
            cells.append(_ratio(speedups.get(name)))
        for group in groups[1:]:
            other = group.get(name)
            if other is None or other.state is not State.MEASURED:
                cells += [Cell("missing" if other is None else other.why_not, numeric=False), Cell()]
                continue
            cells.append(_cell(other, MEDIAN, contract))
            ratio = case.seconds / other.seconds if case is not None and case.state is State.MEASURED else None
            cells.append(_ratio(ratio))
        rows.append(tuple(cells))
    legend = [findings.fastest(winner) for winner in winners.find(base.values(), contract)]
    legend += [findings.serve_in(choice) for choice in precisions.find(base.values())]
    if len(results) > 1:
        legend += [f"[{number}] {printable(str(result.path))}" for number, result in enumerate(results, 1)]
        legend.append("ratio: time of [1] over the time of the other, above 1 is faster")
    return Table(tuple(headers), tuple(rows), tuple(legend))
