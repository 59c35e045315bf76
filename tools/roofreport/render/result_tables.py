# SPDX-License-Identifier: Apache-2.0
"""Results as tables: the cases of a run, the cases over several processes, and the conclusions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple, TypeGuard

from roofreport import units
from roofreport.compare import axes
from roofreport.compare.axes import DIVERGENCE, Precisions, Ranking
from roofreport.errors import UnusableInputError
from roofreport.io.contract import Contract
from roofreport.io.reliability import IN_DOUBT, doubt
from roofreport.io.result import Case, Result, State
from roofreport.io.result import over_processes as over_all
from roofreport.render.formats import (
    LONGEST_NAME,
    MOST_COLUMNS,
    NOTES,
    Cell,
    Column,
    Table,
    figure,
    kind,
    note,
    spanning,
    table,
    words,
)
from roofreport.stats import places
from roofreport.stats.growth import Series
from roofreport.stats.places import doubt_between
from roofreport.text import shortened


def _unranked(ranking: Ranking) -> str:
    """Empty where the ranking stands."""
    return f"no ranking: {ranking.unranked}" if ranking.unranked else ""


def _lead(winner: Ranking) -> str:
    return f"{winner.lead:.2f}x {winner.values[1]}"


def _left(case: Case) -> str:
    roof = case.counters.get("roof")
    if roof is None:
        return "no roof known"
    left = f"{100 * (1 - roof):.1f} % left" if roof < 1 else "nothing left"
    return f"{100 * roof:.1f} % of the roof, {left}"


def _best(winner: Ranking) -> str:
    work, best = winner.work, winner.values[0]
    return f"fastest: {work}: {best}, {units.time(winner.cases[0].seconds)}, {_left(winner.cases[0])}"


def fastest(winner: Ranking) -> str:
    """One line, for the end of a table."""
    if winner.unranked:
        return f"fastest: {winner.work}: {_unranked(winner)}"
    return f"{_best(winner)}, {_lead(winner)}"


def _over_the_second(choice: Ranking, of: str = "") -> str:
    """The lead of the best precision, and the weights that it reads for that."""
    best, second = (case.counters["model_bytes"] for case in choice.cases[:2])
    share = f"at {best / second:.2f} of its bytes"
    return f"{choice.lead:.2f}x {of}{choice.values[1]} {share}"


_UNSCORED = "by speed alone: quality scores what it does to the text of a checkpoint"


def _closest(choice: Precisions) -> str:
    """ "closest to the checkpoint: bf16, kl_mean 0.0004 nats; int8 0.002, int4 0.24"."""
    scored = [
        (score.counters[DIVERGENCE], value) for value, score in zip(choice.values, choice.scores, strict=True) if score
    ]
    if len(scored) < 2:
        return _UNSCORED
    (least, best), *others = sorted(scored)
    further = ", ".join(f"{value} {units.digits(divergence)}" for divergence, value in others)
    return f"closest to the checkpoint: {best}, {DIVERGENCE} {units.digits(least)} nats; {further}"


def serve_in(choice: Precisions) -> str:
    """One line, for the end of a table."""
    title = f"precision to serve in: {choice.work}"
    if choice.unranked:
        return f"{title}: {_unranked(choice)}; {_closest(choice)}"
    rate = units.spelled(choice.cases[0].counters["tokens/s"], "tokens/s")
    return f"{title}: {choice.values[0]}, {rate}, {_over_the_second(choice)}; {_closest(choice)}"


_Precision = tuple[str, Case, Case | None]  # its name, what serves in it, and what scores it


def winners_table(found: Sequence[Ranking]) -> Table:
    return table(
        found,
        (
            ("work", lambda winner: words(winner.work)),
            ("fastest", lambda winner: words(winner.values[0])),
            ("time", lambda winner: figure(winner.cases[0].seconds, units.time)),
            ("left", lambda winner: Cell(_left(winner.cases[0]), winner.cases[0].counters.get("roof"), numeric=False)),
            ("lead", lambda winner: Cell(_lead(winner), winner.lead, numeric=False)),
        ),
        reason=_unranked,
    )


_SERVED = {"ttft_ms", "itl_ms", "tokens/s"}  # columns of every precision


def precision_table(choice: Precisions, contract: Contract) -> Table:
    """One row per precision, the fastest first: speed, memory, and what it does to a text where that was scored."""
    advice = f"fastest here: {choice.values[0]}, {_over_the_second(choice, 'the tokens/s of ')}"

    def time(counter: str) -> Callable[[_Precision], Cell]:
        def of(row: _Precision) -> Cell:
            milliseconds = row[1].counters.get(counter, 0.0)
            return figure(milliseconds / 1e3 if milliseconds > 0 else None, units.time)

        return of

    def scored(counter: str) -> Column[_Precision]:
        return counter, lambda row: _counter(row[2], counter, contract) if row[2] else Cell()

    scores = [score for score in choice.scores if score]
    return table(
        list(zip(choice.values, choice.cases, choice.scores, strict=True)),
        (
            (choice.work, lambda row: words(row[0])),
            ("first token", time("ttft_ms")),
            ("next token", time("itl_ms")),
            ("p95", time("itl_p95_ms")),
            ("tokens/s", lambda row: figure(row[1].counters["tokens/s"], units.digits)),
            ("weights", lambda row: figure(row[1].counters["model_bytes"], units.bytes_)),
            ("memory", lambda row: figure(row[1].counters.get("peak_mem"), units.bytes_)),
            *(
                scored(name)
                for name in contract.headlines
                if name not in _SERVED and any(name in score.counters for score in scores)
            ),
        ),
        [_unranked(choice) or advice, _closest(choice)],
    ).without_empty_columns()


_WIDEST_EXPONENT = 4.0  # which holds every growth that anyone expects


def growth_line(series: Series) -> str:
    """The fitted exponent compared with the expected one, and a note on small points."""
    fit = series.fit
    interval = f"({fit.low:.2f} to {fit.high:.2f})" if fit else ""
    if fit is None:
        text = f"no fit of {series.axis}"
    elif fit.high - fit.low > _WIDEST_EXPONENT:
        text = f"no exponent of {series.axis}: its interval is wide {interval}"
    else:
        text = f"{series.axis}^{fit.exponent:.2f} {interval}"
    if fit and series.expected is not None:
        text += f", expected {series.axis}^{series.expected:g}"
    if series.overhead_below is not None:
        text += f"; overhead-bound up to {series.axis}={series.overhead_below:.15g}"
    if doubts := [why for case in series.cases if (why := doubt(case))]:
        reasons = ", ".join(dict.fromkeys(reason for why in doubts for reason in kind(why).split(", ")))
        of_all = f"{len(doubts)} of {units.counted(len(series.cases), 'point')} {units.are(len(doubts))}"
        text += f"; {of_all} in doubt and left out: {reasons}"
    return f"{shortened(f'{series.family}/{series.rest}', LONGEST_NAME)}: {shortened(text, LONGEST_NAME)}"


NAME = "case"
MEDIAN = "median"
MEAN = "mean"
INTERVAL = "ci"
_FIGURES = ("samples", "FLOP/s", "bytes/s", "roof", "<ref>_flop_util", "<ref>_mem_util")
_HEADLINES = "<headline>"  # the counters that the contract marks: what a case is run for
# Columns that most cases have; a column that no case has is left out.
DEFAULT_COLUMNS = (NAME, MEDIAN, MEAN, *_FIGURES, _HEADLINES, NOTES)

_MILLISECOND = 1e-3


def _notes(cases: Sequence[Case | None]) -> str:
    """ "noisy (ci 40 %), disturbed"; of several results "noisy; [2] 3 samples"."""
    found = [(number, doubt(case)) for number, case in enumerate(cases, 1) if _is_measured(case)]
    return "; ".join(f"[{number}] {why}" if number > 1 else why for number, why in found if why)


def _cell(case: Case | None, column: str, contract: Contract) -> Cell:
    if not _is_measured(case):
        return Cell()
    if column == MEDIAN:
        return figure(case.seconds, units.time)
    if column == MEAN:
        mean, deviation = case.counters.get("mean_ms"), case.deviation("stddev_ms")
        if mean is None:
            return Cell()
        scale, unit = (1.0, "ms") if mean >= 1 else (1e3, "µs")
        spread = "" if deviation is None else f" ± {units.digits(deviation * scale, 2)}"
        return Cell(f"{units.digits(mean * scale)}{spread} {unit}", mean * _MILLISECOND)
    return _counter(case, column, contract)


def _counter(case: Case, name: str, contract: Contract) -> Cell:
    metric = contract.metric(name)
    unit = metric.unit if metric else ""
    shown = units.half_width if name == INTERVAL else lambda value: units.spelled(value, unit)
    return figure(case.counters.get(name), shown)


def _missing(case: Case | None) -> Cell:
    return spanning("missing" if case is None else case.why_not)


def _in_doubt() -> Cell:
    return Cell(IN_DOUBT)


def _is_measured(case: Case | None) -> TypeGuard[Case]:
    return case is not None and case.state is State.MEASURED


def _expanded(columns: Sequence[str], result: Result) -> list[str]:
    """The columns with patterns replaced by the existing counters, without those that no case has."""
    contract = result.contract
    known = dict.fromkeys(name for case in result.cases for name in case.counters)
    special = {row.name for row in contract.counters}
    chosen: list[str] = []
    for column in columns:
        if column in (NAME, MEDIAN, MEAN, NOTES) or column in known:
            chosen.append(column)
        elif column == _HEADLINES:
            chosen += [name for name in contract.headlines if name in known]
        elif column.startswith("<") and (metric := contract.metric(column)) is not None:
            chosen += [name for name in known if name not in special and contract.metric(name) is metric][:MOST_COLUMNS]
        elif column not in DEFAULT_COLUMNS and contract.metric(column) is None:
            choices = ", ".join([NAME, MEDIAN, MEAN, NOTES, *known])
            raise UnusableInputError(f"--columns: no case has {column!r}; there are {shortened(choices, 900)}")
    return list(dict.fromkeys(chosen))


def result_table(
    results: Sequence[Result], columns: Sequence[str] = DEFAULT_COLUMNS, baseline: str | None = None
) -> Table:
    """One row per case. A baseline adds its time over the case's own; every result after the first adds its median and
    the first's time over its own.
    """
    groups = [result.merged() for result in results]
    base, contract = groups[0], results[0].contract
    names = list(dict.fromkeys(name for group in groups for name in group))
    doubtful = {name: why for name in names if (why := _notes([group.get(name) for group in groups]))}
    chosen = [column for column in _expanded(columns, results[0]) if column != NOTES or doubtful]
    headers = list(chosen)
    speedups = axes.speedups(baseline, base, contract) if baseline else {}
    if baseline:
        headers.append(f"over {shortened(baseline, 60)}")
    for number in range(2, len(results) + 1):
        headers += [f"{MEDIAN} [{number}]", f"ratio [{number}]"]
    rows = []
    for name in names:
        case = base.get(name)
        cells: list[Cell] = []
        explained = _is_measured(case)
        for column in chosen:
            if column == NAME:
                cells.append(words(name))
            elif not explained:
                cells.append(_missing(case))
                explained = True
            elif column == NOTES:
                cells.append(note(doubtful.get(name, "")))
            else:
                cells.append(_cell(case, column, contract))
        if baseline:
            speedup = speedups.get(name)
            cells.append(_in_doubt() if name in speedups and speedup is None else figure(speedup, units.times))
        for group in groups[1:]:
            other = group.get(name)
            if not _is_measured(other):
                cells += [_missing(other), Cell()]
                continue
            over = figure(case.seconds / other.seconds if _is_measured(case) else None, units.times)
            is_in_doubt = _is_measured(case) and doubt_between(case, other)
            cells += [_cell(other, MEDIAN, contract), _in_doubt() if is_in_doubt else over]
        rows.append(tuple(cells))
    legend = [fastest(winner) for winner in axes.winners(base.values(), contract)]
    legend += [serve_in(choice) for choice in axes.precisions([*base.values()], contract)]
    if baseline or len(results) > 1:
        legend += places.legend([case for group in groups for case in group.values()])
    if len(results) > 1:
        legend += [f"[{number}] {result.name}" for number, result in enumerate(results, 1)]
        legend.append("ratio: time of [1] over the time of the other, above 1 is faster")
    return Table(tuple(headers), tuple(rows), tuple(legend))


# Shared machines have a slow and a fast memory mode. Roofs this far apart are two of them.
TWO_MODES = 1.25


def memory_rate(case: Case) -> float | None:
    """The rate of the roof of the case in bytes/s: the speed of memory at that time."""
    rate, roof = case.counters.get("bytes/s", 0.0), case.counters.get("roof", 0.0)
    return rate / roof if rate > 0 and roof > 0 and math.isfinite(rate / roof) else None


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


class _Spread(NamedTuple):
    """One case in all processes that have it."""

    name: str
    cases: Sequence[Case]

    @property
    def measured(self) -> list[Case]:
        return [case for case in self.cases if case.state is State.MEASURED]

    def share(self, of: Callable[[list[float]], float], which: Callable[[Sequence[Case]], list[float]]) -> Cell:
        values = which(self.measured)
        return figure(of(values) if values else None, units.tenths)

    def rates(self) -> Cell:
        found = [rate for case in self.measured if (rate := memory_rate(case)) is not None]
        if not found:
            return Cell()
        return Cell(f"{units.digits(min(found) / 1e9)} … {units.digits(max(found) / 1e9)} GB/s", median(found))


_SPREAD: Sequence[Column[_Spread]] = (
    ("case", lambda row: words(row.name)),
    ("processes", lambda row: figure(len(row.measured), str)),
    ("time", lambda row: figure(median(case.seconds for case in row.measured), units.time)),
    ("least", lambda row: figure(min(case.seconds for case in row.measured), units.time)),
    ("most", lambda row: figure(max(case.seconds for case in row.measured), units.time)),
    ("roof", lambda row: row.share(median, _roofs)),
    ("least roof", lambda row: row.share(min, _roofs)),
    ("most roof", lambda row: row.share(max, _roofs)),
    ("memory slow", lambda row: row.share(median, lambda cases: _by_mode(cases)[0])),
    ("memory fast", lambda row: row.share(median, lambda cases: _by_mode(cases)[1])),
    ("roof next to it", lambda row: row.rates()),
)


def _verdict(winner: Ranking, processes: Sequence[dict[str, Case]]) -> str:
    """The best implementation of a piece of work compared with each other one, process by process."""
    best, *others = (case.name for case in winner.cases)
    parts = []
    for implementation, other in zip(winner.values[1:], others, strict=True):
        ratios = [
            process[other].seconds / process[best].seconds
            for process in processes
            if all(_is_measured(process.get(name)) for name in (best, other))
        ]
        if ratios:
            ahead = sum(ratio > 1 for ratio in ratios)
            faster = f"(faster in {ahead} of {units.counted(len(ratios), 'process', 'es')})"
            parts.append(f"{median(ratios):.2f}x {implementation} {faster}")
    return ", ".join(parts)


def over_processes(results: Sequence[Result]) -> Table:
    """One row per case; then one line for each piece of work that has several implementations."""
    processes = [result.merged() for result in results]
    names = list(dict.fromkeys(name for process in processes for name in process))
    cases = {name: [process[name] for process in processes if name in process] for name in names}
    medians = {name: over_all(group) for name, group in cases.items()}
    legend = [
        fastest(winner) if winner.unranked else f"{_best(winner)}; {_verdict(winner, processes)}"
        for winner in axes.winners(medians.values(), results[0].contract)
    ]
    rows = [_Spread(name, cases[name]) for name in names]
    return table(rows, _SPREAD, legend, lambda row: "" if row.measured else row.cases[0].why_not)
