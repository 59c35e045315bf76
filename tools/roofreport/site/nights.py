# SPDX-License-Identifier: Apache-2.0
"""A history by nights: the processes of a nightly run are one reading, as they are to the gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from statistics import median

import numpy as np

from roofreport.gate import nightly_runs, series_state
from roofreport.history.records import Reading, Run, Series, by_environment
from roofreport.io.contract import Metric
from roofreport.io.result import State


class Medians(Mapping[str, float]):
    """Each counter is the median of the processes that have it, computed when it is asked for."""

    def __init__(self, processes: Sequence[Mapping[str, float]]) -> None:
        self._processes = processes

    def __getitem__(self, name: str) -> float:
        values = [one[name] for one in self._processes if name in one]
        if not values:
            raise KeyError(name)
        return median(values)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(chain.from_iterable(self._processes)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Night:
    """One series in one nightly run."""

    reading: (
        Reading  # the median of the processes that count, or else of all; its run is the first one of the nightly run
    )
    processes: Sequence[Reading]  # oldest first
    paced: float | None  # the figure that the gate judges: at one pace of the machine; None: not measured
    level: int | None  # the level of the series that it is at, from 0; None: as paced


def _reading(run: Run, processes: Sequence[Reading], metric: Metric) -> Reading:
    states = [one.state for one in processes]
    counting = [one for one in processes if nightly_runs.counts(one, metric)]
    chosen = counting or processes
    values = [one.value for one in chosen if one.value is not None]
    # As to the gate, one failed process makes a failure, and one measured process a figure.
    state = next((one for one in (State.FAILED, State.MEASURED) if one in states), states[-1])
    return Reading(
        run,
        median(values) if values else None,
        state,
        next((one.reason for one in processes if one.state is state and one.reason), ""),
        "" if counting else nightly_runs.doubts(processes),
        chosen[0].counters if len(chosen) == 1 else Medians([one.counters for one in chosen]),
    )


Histories = Mapping[str, Mapping[Series, Sequence[Night]]]  # by metric


def by_night(
    history: Mapping[Series, Sequence[Reading]], runs: Sequence[Run], metric: Metric
) -> dict[Series, list[Night]]:
    """Joins the processes of each night. `runs`: those of the whole history, oldest first."""
    found: dict[Series, list[Night]] = {}
    for group in nightly_runs.grouped(history, runs, metric):
        firsts = [group.first_run(number) for number in range(group.count)]
        for place, series in enumerate(group.series):
            logs, _ = series_state.by_nightly_run(group.history(place, 0))
            paced = np.exp(np.clip(metric.sign * logs, -700.0, 700.0))
            levels = _levels(logs)
            found[series] = [
                Night(
                    _reading(firsts[number], own, metric),
                    own,
                    float(paced[number]) if number in levels else None,
                    levels.get(number),
                )
                for number, own in group.nights(place).items()
            ]
    return found


def _levels(logs: series_state.Floats) -> dict[int, int]:
    """Each measured night to its level, by the change points that the gate looks for as well."""
    known = series_state.counting(logs)
    starts = series_state.change_points(logs[known].tolist())
    levels = np.searchsorted(starts, np.arange(len(known)), side="right")
    return dict(zip(known.tolist(), levels.tolist(), strict=True))


def first_runs(runs: Iterable[Run]) -> dict[str, Run]:
    """The first run of the night of each run, by its digest."""
    found: dict[str, Run] = {}
    for own in by_environment(runs).values():
        for _, night in groupby(zip(own, nightly_runs.numbered(own), strict=True), key=lambda one: one[1]):
            processes = [run for run, _ in night]
            found |= {run.digest: processes[0] for run in processes}
    return found
