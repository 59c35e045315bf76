# SPDX-License-Identifier: Apache-2.0
"""What each case reaches over several processes, by the speed that memory had."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from roofreport import units
from roofreport.compare import winners
from roofreport.compare.winners import Winner
from roofreport.io.contract import Contract
from roofreport.io.result import Case, Result, State, merged
from roofreport.render import findings
from roofreport.render.table import Cell, Table
from roofreport.text import printable

# Shared machines have a slow and a fast memory mode. Roofs this far apart are two of them.
TWO_MODES = 1.25


def memory_rate(case: Case) -> float | None:
    """Bytes a second of the roof that the case was held against: the speed of memory beside it."""
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
    """How the best of a piece of work does against each other one, process by process."""
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
            f"{median(ratios):.2f}x {printable(winners.implementation_of(other, contract))}"
            f" (faster in {ahead} of {len(ratios)} processes)"
        )
    return ", ".join(parts)


def summarise(results: Sequence[Result]) -> Table:
    """A row a case; then a line for each piece of work that has several implementations."""
    processes = [{name: merged(cases) for name, cases in result.by_name().items()} for result in results]
    names = list(dict.fromkeys(name for process in processes for name in process))
    cases = {name: [process[name] for process in processes if name in process] for name in names}
    medians = {name: merged(list(group)) for name, group in cases.items()}
    contract = results[0].contract
    legend = [
        f"{findings.fastest(winner).rpartition(', ')[0]}; {_verdict(winner, processes, contract)}"
        for winner in winners.find(medians.values(), contract)
    ]
    return Table(_HEADERS, tuple(_row(name, cases[name]) for name in names), tuple(legend))
