# SPDX-License-Identifier: Apache-2.0
"""The nights of one machine and toolchain, out of the runs and readings of a history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roofreport.gate import pace
from roofreport.gate.standing import History
from roofreport.io.contract import Better, Metric
from roofreport.io.result import State

if TYPE_CHECKING:
    from roofreport.history.records import Reading, Run, Series

Floats = NDArray[np.float64]

# Runs of one revision that begin within this time of the first one are one night.
LONGEST_NIGHT = timedelta(hours=12)
# Of less work a byte, memory is the roof of a case on every machine.
MOST_FLOPS_A_BYTE = 4.0


def numbered(runs: Sequence[Run]) -> list[int]:
    """The night of each run, from 0; oldest first."""
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
    """Of one machine and toolchain, oldest first."""

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
        """The first night that does not begin before it; count, if there is none."""
        starts = [self.first_run(night).started for night in range(self.count)]
        return sum(start < moment for start in starts)

    def of(self, series: int, night: int) -> list[Reading]:
        """Its readings in one night."""
        return [reading for place, reading in self.readings[series].items() if self.numbers[place] == night]

    def history(self, series: int, accepted: int) -> History:
        places = slice(None)
        paces = np.column_stack([self._rates[places, series], self._beside[places, series]])
        return History(self.numbers, self._logs[:, series], paces if self.metric.noisy else paces[:, :0], accepted)

    @cached_property
    def _tables(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """[run, series]: the figure, the rate of the roof beside it; [series]: whether that roof is memory."""
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
        return pace.beside(rates, follows_memory)


def roof_rate(counters: Mapping[str, float]) -> tuple[float, bool]:
    """The logarithm of what the roof beside a case allowed, up to a constant of the case; whether it is memory's. nan:
    the case has no roof."""
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
