# SPDX-License-Identifier: Apache-2.0
"""The nightly runs of one machine and toolchain, from a history and from results that may not be in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roofreport.errors import UnusableInputError
from roofreport.gate import standing
from roofreport.gate.standing import History
from roofreport.history import document as documents
from roofreport.history.records import Reading, Run, Series, machine_of, toolchain_of
from roofreport.io.contract import Better, Metric
from roofreport.io.result import State, merged
from roofreport.text import printable

if TYPE_CHECKING:
    from roofreport.history.records import Reading, Run, Series
    from roofreport.history.store import Store


Floats = NDArray[np.float64]

# Runs of one revision that begin within this time of the first one count as one nightly run.
LONGEST_NIGHT = timedelta(hours=12)
# Below this work per byte, memory is the roof of a case on every machine.
MOST_FLOPS_A_BYTE = 4.0


def numbered(runs: Sequence[Run]) -> list[int]:
    """The number of the nightly run that each run belongs to, from 0; oldest first."""
    found: list[int] = []
    first: Run | None = None
    for run in runs:
        if first is None or run.revision != first.revision or run.started - first.started > LONGEST_NIGHT:
            first = run
            found.append(found[-1] + 1 if found else 0)
        else:
            found.append(found[-1])
    return found


@dataclass(frozen=True)
class Nights:
    """The nightly runs of one machine and toolchain, oldest first."""

    runs: list[Run]
    numbers: NDArray[np.int64]  # of each run
    series: list[Series]  # in the order that cases run in
    readings: list[dict[int, Reading]]  # of each series, by the place of the run
    metric: Metric

    @property
    def count(self) -> int:
        return int(self.numbers[-1]) + 1

    def first_run(self, night: int) -> Run:
        return self.runs[int(np.searchsorted(self.numbers, night))]

    def since(self, moment: datetime) -> int:
        """The first nightly run that does not begin before it; count, if there is none."""
        starts = [self.first_run(night).started for night in range(self.count)]
        return sum(start < moment for start in starts)

    def of(self, series: int, night: int) -> list[Reading]:
        """The series' readings in one nightly run."""
        return [reading for place, reading in self.readings[series].items() if self.numbers[place] == night]

    def history(self, series: int, accepted: int) -> History:
        places = slice(None)
        paces = np.column_stack([self._rates[places, series], self._beside[places, series]])
        return History(self.numbers, self._logs[:, series], paces if self.metric.noisy else paces[:, :0], accepted)

    @cached_property
    def _tables(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """[run, series]: the figure, the rate of the roof next to it; [series]: whether that roof is memory."""
        shape = (len(self.runs), len(self.series))
        logs, rates = np.full(shape, np.nan), np.full(shape, np.nan)
        follows_memory = np.zeros(len(self.series), dtype=np.bool_)
        sign = -1.0 if self.metric.better is Better.HIGHER else 1.0
        for column, readings in enumerate(self.readings):
            for row, reading in readings.items():
                value = reading.value
                if value is not None and reading.state is State.MEASURED and 0 < value < math.inf:
                    logs[row, column] = sign * math.log(value)
                if self.metric.noisy:
                    rate, of_memory = roof_rate(reading.counters)
                    rates[row, column] = rate
                    follows_memory[column] = of_memory
        return logs, rates, follows_memory

    @property
    def _logs(self) -> Floats:
        return self._tables[0]

    @property
    def _rates(self) -> Floats:
        return self._tables[1]

    @cached_property
    def _beside(self) -> Floats:
        _, rates, follows_memory = self._tables
        return standing.memory_pace(rates, follows_memory)


def roof_rate(counters: Mapping[str, float]) -> tuple[float, bool]:
    """The logarithm of the rate that the roof next to a case allowed, up to a constant of the case; whether the roof is
    memory's. nan: the case does not have a roof.
    """
    roof, flops, moved = (_positive(counters, name) for name in ("roof", "FLOP/s", "bytes/s"))
    rate = moved or flops
    if not roof or not rate:
        return math.nan, False
    return math.log(rate) - math.log(roof), flops <= MOST_FLOPS_A_BYTE * moved


def _positive(counters: Mapping[str, float], name: str) -> float:
    try:
        value = counters[name]
    except KeyError:
        return 0.0
    return value if 0 < value < math.inf else 0.0


def grouped(found: Mapping[Series, Sequence[Reading]], runs: Sequence[Run], metric: Metric) -> list[Nights]:
    """One group for each machine and toolchain of `runs`, which are oldest first."""
    by_house: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by_house.setdefault((run.machine.id, run.toolchain.id), []).append(run)
    columns: dict[tuple[str, str], list[Series]] = {}
    for series in found:
        columns.setdefault((series.machine.id, series.toolchain.id), []).append(series)
    groups = []
    for house, own in by_house.items():
        place = {run.id: index for index, run in enumerate(own)}
        own_series = columns.get(house, [])
        readings = [{place[r.run.id]: r for r in found[one] if r.run.id in place} for one in own_series]
        groups.append(Nights(own, np.array(numbered(own)), own_series, readings, metric))
    return groups


NIGHTS_READ = standing.LONGEST + standing.FENCE_NIGHTS


@dataclass(frozen=True)
class Given:
    """A result file, as a history would have it."""

    run: Run
    readings: Mapping[str, Reading] = field(default_factory=dict)  # by case, of one metric


def given(path: Path, number: int, metric: Metric) -> Given:
    """`number`: one that the history does not use."""
    result, document = documents.of_file(path)
    digest, _ = documents.digests(document)
    started = documents.moment(result.date) or datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    revision = result.context.get("roofbench_revision", "")
    run = Run(
        number,
        digest,
        started,
        "" if revision == "unknown" else revision,
        machine_of(result.context),
        toolchain_of(result.context, document.contract),
        result.context,
        path.name,
    )
    readings = {}
    for name, repetitions in result.by_name().items():
        case = merged(repetitions)
        value = case.value(metric.name) if case.state is State.MEASURED else None
        noisy = case.counters.get("noisy", 0.0) > 0
        readings[name] = Reading(run, value, case.state, case.reason, noisy, case.counters)
    return Given(run, readings)


def _house(run: Run) -> tuple[str, str]:
    return run.machine.id, run.toolchain.id


def _of_store(store: Store, metric: Metric, kept: Sequence[Run], runs: Sequence[Run]) -> dict[Series, list[Reading]]:
    """Reads runs only as far back as `kept`, some of the newest of `runs`, requires."""
    oldest: dict[tuple[str, str], int] = {}
    of_house: dict[tuple[str, str], int] = {}
    wanted = {run.id for run in kept}
    for run in reversed(runs):
        of_house[_house(run)] = of_house.get(_house(run), 0) + 1
        if run.id in wanted:
            oldest[_house(run)] = of_house[_house(run)]
    if not oldest:
        return {}
    found = store.history(metric.name, run_limit=max(oldest.values()))
    return {series: list(readings) for series, readings in found.items()}


def newest(store: Store, metric: Metric) -> list[Nights]:
    """The newest nightly runs of every machine, of the toolchain that it ran last."""
    runs = store.runs()
    last = {run.machine.id: run.toolchain.id for run in runs}
    kept = [run for run in runs if last[run.machine.id] == run.toolchain.id]
    kept = _newest_nights(kept)
    return grouped(_of_store(store, metric, kept, runs), kept, metric)


def _newest_nights(runs: Sequence[Run]) -> list[Run]:
    by_house: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by_house.setdefault(_house(run), []).append(run)
    kept = []
    for own in by_house.values():
        numbers = numbered(own)
        kept += [run for run, night in zip(own, numbers, strict=True) if night > numbers[-1] - NIGHTS_READ]
    return kept


def up_to(store: Store, metric: Metric, paths: Sequence[Path]) -> list[Nights]:
    """The nightly runs up to that of some results of one machine and toolchain, which are in the history or are not."""
    runs = store.runs()
    # The history may know better when a run began.
    known = {run.digest: run for run in runs}
    files = [given(path, -1 - i, metric) for i, path in enumerate(paths)]
    tonight = sorted((known.get(one.run.digest, one.run) for one in files), key=lambda run: run.started)
    newest_run = tonight[-1]
    other = next((run for run in tonight if _house(run) != _house(newest_run)), None)
    if other is not None:
        raise UnusableInputError(
            f"{printable(other.name)} and {printable(newest_run.name)} are of different machines or toolchains;"
            " the gate takes the results of one night"
        )
    chosen = {run.digest for run in tonight}
    before = [
        run
        for run in runs
        if _house(run) == _house(newest_run) and run.digest not in chosen and run.started <= newest_run.started
    ]
    kept = _newest_nights(sorted([*before, *tonight], key=lambda run: run.started))
    found = _of_store(store, metric, [run for run in kept if run.id > 0], runs)
    for one in files:
        if one.run.digest not in known:
            for case, reading in one.readings.items():
                series = Series(case, metric.name, newest_run.machine, newest_run.toolchain)
                found.setdefault(series, []).append(reading)
    return grouped(found, kept, metric)


def began(store: Store, group: Nights) -> list[str]:
    """Notes on series that are too young to be judged: their first nightly run, and the changes since the series
    before.
    """
    first = group.runs[0]
    if group.count > standing.FEWEST_NIGHTS:
        return []
    said = f"too young to be judged: {group.count} of {standing.FEWEST_NIGHTS + 1} nights"
    before = [run for run in store.runs() if run.started < first.started and _house(run) != _house(first)]
    if not before:
        return [said]
    same = [run for run in before if run.machine.id == first.machine.id]
    last = (same or before)[-1]
    changes = [
        *_changes(last.machine.facts, first.machine.facts),
        *_changes(last.toolchain.facts, first.toolchain.facts),
    ]
    return [f"{said}; a new series began on {first.started:%Y-%m-%d}: {'; '.join(changes)}"]


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    keys = [key for key in (*before, *(key for key in now if key not in before)) if before.get(key) != now.get(key)]
    return [f"{key} {now.get(key, 'unknown')}, was {before.get(key, 'unknown')}" for key in keys]
