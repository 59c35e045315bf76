"""Rows and columns of results, before they get a format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofreport import metrics, units, winners
from roofreport.errors import UnusableInputError
from roofreport.result import Case, Result, State, merged
from roofreport.text import printable

NAME = "case"
MEDIAN = "median"
MEAN = "mean"
DEFAULT_COLUMNS = (NAME, MEDIAN, MEAN, "samples", "FLOP/s", "bytes/s", "roof", "<ref>_flop_util", "<ref>_mem_util")

_MILLISECOND = 1e-3


@dataclass(frozen=True)
class Cell:
    text: str = ""
    value: float | None = None  # as a file for machines has it
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    legend: tuple[str, ...] = ()


def reason_of(case: Case) -> str:
    """Why a case has no figure: "OOM: …", "skipped: …", "failed: …"."""
    kind = "OOM" if case.out_of_memory else case.state.value
    return printable(f"{kind}: {case.reason}" if case.reason else kind)


def _counter_text(name: str, value: float) -> str:
    metric = metrics.find(name)
    unit = metric.unit if metric else ""
    if unit in ("FLOP/s", "B/s", "B"):
        return units.quantity(value, unit)
    if unit == "fraction":
        return f"{units.digits(100 * value)} %"
    if unit == "ms":
        return units.time(value * _MILLISECOND)
    return units.digits(value)


def _cell(case: Case | None, column: str) -> Cell:
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
    return Cell() if value is None else Cell(_counter_text(column, value), value)


def _expanded(columns: Sequence[str], results: Sequence[Result]) -> list[str]:
    """The columns with patterns replaced by the counters that are there, without those that no case has."""
    known = list(dict.fromkeys(name for result in results for case in result.cases for name in case.counters))
    chosen: list[str] = []
    for column in columns:
        if column in (NAME, MEDIAN, MEAN) or column in known:
            chosen.append(column)
        elif column.startswith("<"):
            metric = metrics.find(column)
            special = {row.name for row in metrics.COUNTERS}
            chosen += [name for name in known if name not in special and metrics.find(name) is metric]
        elif column not in DEFAULT_COLUMNS and metrics.find(column) is None:
            choices = ", ".join([NAME, MEDIAN, MEAN, *known])
            raise UnusableInputError(
                f"--columns: no case has {printable(column)!r}; there are {printable(choices, 900)}"
            )
    return list(dict.fromkeys(chosen))


def build(results: Sequence[Result], columns: Sequence[str] = DEFAULT_COLUMNS) -> Table:
    """One row a case. Every result after the first adds its median and the first's time over its own."""
    groups = [{name: merged(cases) for name, cases in result.by_name().items()} for result in results]
    names = list(dict.fromkeys(name for group in groups for name in group))
    base = groups[0]
    chosen = _expanded(columns, results[:1])
    headers = list(chosen)
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
                cells.append(Cell("missing" if case is None else reason_of(case), numeric=False))
                explained = True
            else:
                cells.append(_cell(case, column))
        for group in groups[1:]:
            other = group.get(name)
            if other is None or other.state is not State.MEASURED:
                cells += [Cell("missing" if other is None else reason_of(other), numeric=False), Cell()]
                continue
            cells.append(_cell(other, MEDIAN))
            ratio = case.seconds / other.seconds if case is not None and case.state is State.MEASURED else None
            cells.append(Cell() if ratio is None else Cell(f"{ratio:.2f}x", ratio))
        rows.append(tuple(cells))
    legend = [winner.text() for winner in winners.find(base.values())]
    legend += [precision.text() for precision in winners.find_precisions(base.values())]
    if len(results) > 1:
        legend += [f"[{number}] {printable(str(result.path))}" for number, result in enumerate(results, 1)]
        legend.append("ratio: time of [1] over the time of the other, above 1 is faster")
    return Table(tuple(headers), tuple(rows), tuple(legend))
