# SPDX-License-Identifier: Apache-2.0
"""The nightly runs of one machine and toolchain, from a history and from results that may not be in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roofreport.errors import UnusableInputError
from roofreport.gate import series_state
from roofreport.gate.series_state import History
from roofreport.history.record import of_files, readings_of, run_of
from roofreport.history.records import Environment, Reading, Run, Series, by_environment
from roofreport.io.contract import Metric
from roofreport.io.result import State
from roofreport.stats import places

if TYPE_CHECKING:
    from roofreport.history.store import Store

Floats = NDArray[np.float64]

# Runs of one revision that begin within this time of the first one count as one nightly run.
LONGEST_RUN = timedelta(hours=12)
# Below this work per byte, memory is the roof of a case on every machine.
MOST_FLOPS_A_BYTE = 4.0
# Threads that are farther apart make a case slower by a share of this power of what a cache line takes between them: at
# most 1.6 times at 4.4 times the distance (docs/comparing.md).
MOST_OF_HANDOVER = 0.32
# The columns of paces; between them, that of the nearest roof that is memory.
OWN_ROOF, MEETINGS = 0, 2


def numbered(runs: Sequence[Run]) -> list[int]:
    """The number of the nightly run that each run belongs to, from 0; oldest first."""
    found: list[int] = []
    first: Run | None = None
    for run in runs:
        if first is None or run.revision != first.revision or run.started - first.started > LONGEST_RUN:
            first = run
            found.append(found[-1] + 1 if found else 0)
        else:
            found.append(found[-1])
    return found


@dataclass(frozen=True)
class NightlyRuns:
    """The nightly runs of one machine and toolchain, oldest first."""

    runs: list[Run]
    numbers: NDArray[np.int64]  # of each run
    series: list[Series]  # in the order that cases run in
    readings: list[dict[int, Reading]]  # of each series, by the place of the run
    metric: Metric
    judged: Sequence[int]  # the places of the series whose newest night is the last one

    @property
    def count(self) -> int:
        return int(self.numbers[-1]) + 1

    def first_run(self, number: int) -> Run:
        return self.runs[int(np.searchsorted(self.numbers, number))]

    def since(self, moment: datetime) -> int:
        """The first nightly run that does not begin before it; count, if there is none."""
        starts = [self.first_run(number).started for number in range(self.count)]
        return sum(start < moment for start in starts)

    @cached_property
    def selections(self) -> set[tuple[str, ...]]:
        """Those of the newest nightly run."""
        return {run.selection for run in self.tonight}

    @property
    def tonight(self) -> list[Run]:
        """The processes of the newest nightly run."""
        return self.runs[int(np.searchsorted(self.numbers, self.numbers[-1])) :]

    def first_without(self, number: int) -> Run:
        """The first run after a nightly run that selects as the newest one does."""
        later = self.runs[int(np.searchsorted(self.numbers, number, side="right")) :]
        return next(run for run in later if run.selection in self.selections)

    def parts(self) -> list[NightlyRuns]:
        """One for each nightly run that is the newest of some series, the newest first.

        A series is judged in the newest run that measured it, or should have: that selects as an earlier one that did.
        """
        last = {run.selection: int(number) for run, number in zip(self.runs, self.numbers, strict=True)}
        newest: dict[int, list[int]] = {self.count - 1: []}
        for place, readings in enumerate(self.readings):
            ran = [(row, one) for row, one in readings.items() if one.state in (State.MEASURED, State.FAILED)]
            covers = {int(self.numbers[row]) for row, _ in ran or readings.items()}
            covers |= {last[one.run.selection] for _, one in ran if one.state is State.MEASURED}
            newest.setdefault(max(covers, default=0), []).append(place)
        return [self._until(number, newest[number]) for number in sorted(newest, reverse=True)]

    def _until(self, number: int, judged: Sequence[int]) -> NightlyRuns:
        end = int(np.searchsorted(self.numbers, number, side="right"))
        readings = [{row: one for row, one in own.items() if row < end} for own in self.readings]
        return NightlyRuns(self.runs[:end], self.numbers[:end], self.series, readings, self.metric, judged)

    def of(self, series: int, number: int) -> list[Reading]:
        """The series' readings in one nightly run."""
        return self.nights(series).get(number, [])

    def nights(self, series: int) -> dict[int, list[Reading]]:
        """The series' readings by nightly run, oldest first."""
        found: dict[int, list[Reading]] = {}
        for place, reading in self.readings[series].items():
            found.setdefault(int(self.numbers[place]), []).append(reading)
        return found

    def history(self, series: int, accepted: int) -> History:
        logs, *tables = self._tables
        paces = np.column_stack([one[:, series] for one in tables])
        return History(self.numbers, logs[:, series], paces if self.metric.noisy else paces[:, :0], accepted)

    def counting(self, series: int) -> NDArray[np.int64]:
        return series_state.counting(series_state.by_nightly_run(self.history(series, 0))[0])

    @cached_property
    def _tables(self) -> tuple[Floats, Floats, Floats, Floats]:
        """[run, series]: the figure, the rate of the roof next to it, that of the nearest roof that is memory, and the
        pace at which threads as near to each other meet."""
        shape = (len(self.runs), len(self.series))
        logs, rates, apart = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
        follows_memory = np.zeros(len(self.series), dtype=np.bool_)
        for column, readings in enumerate(self.readings):
            for row, reading in readings.items():
                value = reading.value
                if value is not None and counts(reading, self.metric) and 0 < value < math.inf:
                    logs[row, column] = self.metric.sign * math.log(value)
                if self.metric.noisy:
                    rate, of_memory = roof_rate(reading.counters)
                    rates[row, column] = rate
                    follows_memory[column] = of_memory
                apart[row, column] = meeting_pace(reading.counters)
        # A row beside which others ran has none; its neighbors mostly ran in the same place.
        apart = series_state.nearest(apart, np.ones_like(follows_memory))
        for paces in apart.T:
            known = np.flatnonzero(np.isfinite(paces))
            for place in places.groups(np.exp(-paces[known] / MOST_OF_HANDOVER).tolist()):
                paces[known[place]] = np.median(paces[known[place]])
        return logs, rates, series_state.nearest(rates, follows_memory), apart


def meeting_pace(counters: Mapping[str, float]) -> float:
    """The pace at which threads as near to each other meet; nan: unknown."""
    handover = counters.get(places.HANDOVER, 0.0)
    return -MOST_OF_HANDOVER * math.log(handover) if 0 < handover < math.inf else math.nan


def roof_rate(counters: Mapping[str, float]) -> tuple[float, bool]:
    """The logarithm of the rate that the roof next to a case allowed, up to a constant of the case; whether the roof is
    memory's. nan: the case does not have a roof.
    """
    roof, flops, moved = (_positive(counters.get(name)) for name in ("roof", "FLOP/s", "bytes/s"))
    rate = moved or flops
    if not roof or not rate:
        return math.nan, False
    return math.log(rate) - math.log(roof), flops <= MOST_FLOPS_A_BYTE * moved


def is_measured(processes: Iterable[Reading]) -> bool:
    return any(reading.state is State.MEASURED for reading in processes)


def counts(reading: Reading, metric: Metric) -> bool:
    """Whether a reading is part of a verdict: it is measured, and its rows do not distrust the time."""
    return reading.state is State.MEASURED and not (metric.noisy and reading.doubt)


def doubts(processes: Iterable[Reading]) -> str:
    """Why none of the readings counts."""
    return "; ".join(dict.fromkeys(reading.doubt for reading in processes if reading.doubt))


def _positive(value: float | None) -> float:
    return value if value is not None and 0 < value < math.inf else 0.0


def grouped(found: Mapping[Series, Sequence[Reading]], runs: Sequence[Run], metric: Metric) -> list[NightlyRuns]:
    """One group for each machine and toolchain of `runs`, which are oldest first."""
    columns: dict[Environment, list[Series]] = {}
    for series in found:
        columns.setdefault(series.environment, []).append(series)
    groups = []
    for environment, own in by_environment(runs).items():
        place = {run.id: index for index, run in enumerate(own)}
        own_series = columns.get(environment, [])
        readings = [{place[r.run.id]: r for r in found[one] if r.run.id in place} for one in own_series]
        groups.append(NightlyRuns(own, np.array(numbered(own)), own_series, readings, metric, range(len(own_series))))
    return groups


LONGEST_READ = series_state.LONGEST + series_state.FENCE_NIGHTS


def _of_store(store: Store, metric: Metric, kept: Sequence[Run], runs: Sequence[Run]) -> dict[Series, list[Reading]]:
    """Reads runs only as far back as `kept`, some of the newest of `runs`, requires."""
    wanted = {run.id for run in kept}
    limit = 0
    for own in by_environment(runs).values():
        limit = max(limit, *(len(own) - place for place, run in enumerate(own) if run.id in wanted), 0)
    if not limit:
        return {}
    found = store.history(metric.name, run_limit=limit)
    return {series: list(readings) for series, readings in found.items()}


def newest(store: Store, metric: Metric) -> list[NightlyRuns]:
    """The newest nightly runs of every machine, of the toolchain that it ran last: for each series, the newest."""
    runs = store.runs()
    last = {run.machine.id: run.toolchain.id for run in runs}
    kept = _newest_nightly_runs([run for run in runs if last[run.machine.id] == run.toolchain.id])
    groups = grouped(_of_store(store, metric, kept, runs), kept, metric)
    return [part for group in groups for part in group.parts()]


def _newest_nightly_runs(runs: Sequence[Run]) -> list[Run]:
    kept = []
    for own in by_environment(runs).values():
        numbers = numbered(own)
        kept += [run for run, number in zip(own, numbers, strict=True) if number > numbers[-1] - LONGEST_READ]
    return kept


def up_to(store: Store, metric: Metric, paths: Sequence[Path]) -> list[NightlyRuns]:
    """The nightly runs up to that of some results of one machine and toolchain, which are in the history or are not."""
    runs = store.runs()
    tonight: list[Run] = []
    new: dict[Series, list[Reading]] = {}
    for index, record in enumerate(of_files(paths)):
        known = store.known(record)  # the history may know better when it began
        run = known or run_of(record, number=-1 - index)  # which the history does not use
        tonight.append(run)
        if known is None:
            for case, reading in readings_of(record, run, metric.name).items():
                new.setdefault(Series(case, metric.name, run.machine, run.toolchain), []).append(reading)
    tonight.sort(key=lambda run: run.started)
    last = tonight[-1]
    other = next((run for run in tonight if run.environment != last.environment), None)
    if other is not None:
        raise UnusableInputError(
            f"{other.name} and {last.name} are of different machines or toolchains;"
            " the gate takes the results of one nightly run"
        )
    chosen = {run.digest for run in tonight}
    before = [
        run
        for run in runs
        if run.environment == last.environment and run.digest not in chosen and run.started <= last.started
    ]
    kept = _newest_nightly_runs(sorted([*before, *tonight], key=lambda run: run.started))
    found = _of_store(store, metric, [run for run in kept if run.id > 0], runs)
    for series, readings in new.items():
        found.setdefault(series, []).extend(readings)
    return [group.parts()[0] for group in grouped(found, kept, metric)]


_MOST_NAMED = 5


def unjudged(group: NightlyRuns) -> dict[str, str]:
    """Why cases of the newest nightly run that no finding explains are not judged, by their names."""
    found = {}
    for place in group.judged:
        tonight, case = group.of(place, group.count - 1), group.series[place].case
        if tonight and not is_measured(tonight):
            found[case] = "not measured"
        elif tonight and series_state.too_young(len(group.counting(place))):
            found[case] = "too young"
    return found


def _young(group: NightlyRuns, nights: Mapping[int, NDArray[np.int64]], most: int) -> list[str]:
    """The series that count tonight, and of whose `nights` fewer count than `most`."""
    found = [
        f"{group.series[place].case} ({len(own)} of {series_state.FEWEST_NIGHTS + 1} nights)"
        for place, own in nights.items()
        if group.count - 1 in own and len(own) < most
    ]
    if not found:
        return []
    more = f", and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return [f"cases that are too young to be judged: {', '.join(found[:_MOST_NAMED])}{more}"]


def began(store: Store, group: NightlyRuns) -> list[str]:
    """Notes on series that are too young to be judged: their nights, and where all are, the changes since the series
    before.
    """
    first = group.runs[0]
    tonight = [place for place in group.judged if is_measured(group.of(place, group.count - 1))]
    nights = {place: group.counting(place) for place in tonight}
    most = max(map(len, nights.values()), default=0)
    young = series_state.too_young(most)
    younger = _young(group, nights, min(most, series_state.FEWEST_NIGHTS + 1))
    if not young or not tonight:
        return younger
    said = f"too young to be judged: {young}"
    before = [run for run in store.runs() if run.started < first.started and run.environment != first.environment]
    if not before:
        return [said, *younger]
    same = [run for run in before if run.machine.id == first.machine.id]
    last = (same or before)[-1]
    changes = [
        f"{key} {now.get(key, 'unknown')}, was {then.get(key, 'unknown')}"
        for then, now in ((last.machine.facts, first.machine.facts), (last.toolchain.facts, first.toolchain.facts))
        for key in {**then, **now}
        if then.get(key) != now.get(key)
    ]
    return [f"{said}; a new series began on {first.started:%Y-%m-%d}: {'; '.join(changes)}", *younger]
