# SPDX-License-Identifier: Apache-2.0
"""Results as tables: the cases of a run, the cases over several processes, and the conclusions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from roofreport import units
from roofreport.compare import axes
from roofreport.compare.axes import Choice, Winner
from roofreport.errors import UnusableInputError
from roofreport.io.contract import Contract
from roofreport.io.result import Case, Result, State, merged
from roofreport.render.formats import MOST_COLUMNS, Cell, Table
from roofreport.stats.growth import Series
from roofreport.text import printable

_LONGEST_NAME = 300


def fastest(winner: Winner) -> str:
    """One line, for the end of a table."""
    return (
        f"fastest: {printable(winner.work, _LONGEST_NAME)}: {printable(winner.implementation)},"
        f" {units.time(winner.seconds)}, {winner.left}, {winner.lead:.2f}x {printable(winner.runner_up)}"
    )


def serve_in(choice: Choice) -> str:
    """One line, for the end of a table."""
    best, second = choice.servings[:2]
    return (
        f"precision to serve in: {printable(choice.work, _LONGEST_NAME)}: {printable(best.precision)},"
        f" {best.rate:.1f} tokens/s, {choice.lead:.2f}x {printable(second.precision)}"
        f" at {choice.share_of_bytes:.2f} of its bytes"
    )


def winners_table(found: Sequence[Winner]) -> Table:
    rows = tuple(
        (
            Cell(printable(winner.work, _LONGEST_NAME), numeric=False),
            Cell(printable(winner.implementation), numeric=False),
            Cell(units.time(winner.seconds), winner.seconds),
            Cell(winner.left, winner.roof, numeric=False),
            Cell(f"{winner.lead:.2f}x {printable(winner.runner_up)}", winner.lead, numeric=False),
        )
        for winner in found
    )
    return Table(("work", "fastest", "time", "left", "lead"), rows)


def precision_table(choice: Choice) -> Table:
    """One row per precision, the fastest first."""

    def seconds(value: float) -> Cell:
        return Cell(units.time(value), value) if value > 0 else Cell()

    rows = tuple(
        (
            Cell(printable(one.precision), numeric=False),
            seconds(one.first_token),
            seconds(one.next_token),
            seconds(one.next_token_p95),
            Cell(f"{one.rate:.1f}", one.rate),
            Cell(units.quantity(one.weights, "B"), one.weights),
        )
        for one in choice.servings
    )
    best, second = (printable(one.precision) for one in choice.servings[:2])
    lead, share = choice.lead, choice.share_of_bytes
    advice = f"fastest here: {best}, {lead:.2f}x the tokens/s of {second} at {share:.2f} of its bytes"
    headers = (printable(choice.work, _LONGEST_NAME), "first token", "next token", "p95", "tokens/s", "weights")
    return Table(headers, rows, (advice,))


def growth_line(series: Series) -> str:
    """The fitted exponent compared with the expected one, and a note on small points."""
    fit = series.fit
    text = f"{series.axis}^{fit.exponent:.2f} ({fit.low:.2f} to {fit.high:.2f})"
    if series.expected is not None:
        text += f", expected {series.axis}^{series.expected:g}"
    if series.overhead_below is not None:
        text += f"; overhead-bound up to {series.axis}={series.overhead_below:g}"
    return f"{printable(f'{series.family}/{series.rest}', _LONGEST_NAME)}: {printable(text, _LONGEST_NAME)}"


NAME = "case"
MEDIAN = "median"
MEAN = "mean"
# Columns that most cases have; a column that no case has is left out.
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
    """The columns with patterns replaced by the existing counters, without those that no case has."""
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


def result_table(
    results: Sequence[Result], columns: Sequence[str] = DEFAULT_COLUMNS, baseline: str | None = None
) -> Table:
    """One row per case. A baseline adds its time over the case's own; every result after the first adds its median and
    the first's time over its own.
    """
    groups = [{name: merged(cases) for name, cases in result.by_name().items()} for result in results]
    names = list(dict.fromkeys(name for group in groups for name in group))
    base = groups[0]
    chosen = _expanded(columns, results[0])
    contract = results[0].contract
    headers = list(chosen)
    speedups = axes.speedups(baseline, base, contract) if baseline else {}
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
    legend = [fastest(winner) for winner in axes.winners(base.values(), contract)]
    legend += [serve_in(choice) for choice in axes.precisions(base.values())]
    if len(results) > 1:
        legend += [f"[{number}] {printable(str(result.path))}" for number, result in enumerate(results, 1)]
        legend.append("ratio: time of [1] over the time of the other, above 1 is faster")
    return Table(tuple(headers), tuple(rows), tuple(legend))


# Shared machines have a slow and a fast memory mode. Roofs this far apart are two of them.
TWO_MODES = 1.25


def memory_rate(case: Case) -> float | None:
    """The rate of the roof of the case in bytes/s: the speed of memory at that time."""
    rate, roof = case.counters.get("bytes/s", 0.0), case.counters.get("roof", 0.0)
    return rate / roof if rate > 0 and roof > 0 and math.isfinite(rate / roof) else None


def _percent(fraction: float | None) -> Cell:
    return Cell() if fraction is None else Cell(f"{100 * fraction:.1f} %", fraction)


def _roofs(cases: Sequence[Case]) -> list[float]:
    return [case.counters["roof"] for case in cases if "roof" in case.counters]


def _by_mode(cases: Sequence[Case]) -> tuple[list[float], list[float]]:
    """The roof fractions while memory was slow and while it was fast; both empty where it had one speed."""
    rated = [(rate, case) for case in cases if (rate := memory_rate(case)) is not None]
    if not rated:
        return [], []
    slowest, fastest = min(rate for rate, _ in rated), max(rate for rate, _ in rated)
    if fastest < TWO_MODES * slowest:
        return [], []
    middle = math.sqrt(slowest) * math.sqrt(fastest)
    return _roofs([c for rate, c in rated if rate < middle]), _roofs([c for rate, c in rated if rate >= middle])


def _row(name: str, cases: Sequence[Case]) -> tuple[Cell, ...]:
    measured = [case for case in cases if case.state is State.MEASURED]
    label = Cell(printable(name, 300), numeric=False)
    if not measured:
        return label, Cell(cases[0].why_not, numeric=False), *(Cell() for _ in range(7))
    roofs = _roofs(measured)
    rates = [rate for case in measured if (rate := memory_rate(case)) is not None]
    slow, fast = _by_mode(measured)
    time = median(case.seconds for case in measured)
    return (
        label,
        Cell(str(len(measured)), len(measured)),
        Cell(units.time(time), time),
        _percent(median(roofs) if roofs else None),
        _percent(min(roofs, default=None)),
        _percent(max(roofs, default=None)),
        _percent(median(slow) if slow else None),
        _percent(median(fast) if fast else None),
        Cell(f"{units.digits(min(rates) / 1e9)} … {units.digits(max(rates) / 1e9)} GB/s", median(rates))
        if rates
        else Cell(),
    )


_HEADERS = ("case", "processes", "time", "roof", "least", "most", "memory slow", "memory fast", "roof beside it")


def _verdict(winner: Winner, processes: Sequence[dict[str, Case]], contract: Contract) -> str:
    """The best implementation of a piece of work compared with each other one, process by process."""
    best, *others = winner.ranking
    parts = []
    for other in others:
        ratios = [
            process[other].seconds / process[best].seconds
            for process in processes
            if all(name in process and process[name].state is State.MEASURED for name in (best, other))
        ]
        if not ratios:
            continue
        ahead = sum(ratio > 1 for ratio in ratios)
        parts.append(
            f"{median(ratios):.2f}x {printable(axes.implementation_of(other, contract))}"
            f" (faster in {ahead} of {len(ratios)} processes)"
        )
    return ", ".join(parts)


def over_processes(results: Sequence[Result]) -> Table:
    """One row per case; then one line for each piece of work that has several implementations."""
    processes = [{name: merged(cases) for name, cases in result.by_name().items()} for result in results]
    names = list(dict.fromkeys(name for process in processes for name in process))
    cases = {name: [process[name] for process in processes if name in process] for name in names}
    medians = {name: merged(list(group)) for name, group in cases.items()}
    contract = results[0].contract
    legend = [
        f"{fastest(winner).rpartition(', ')[0]}; {_verdict(winner, processes, contract)}"
        for winner in axes.winners(medians.values(), contract)
    ]
    return Table(_HEADERS, tuple(_row(name, cases[name]) for name in names), tuple(legend))
