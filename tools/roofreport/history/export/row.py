# SPDX-License-Identifier: Apache-2.0
"""What every export is made of: one case of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from roofreport.history.records import Reading, Run
from roofreport.history.store import Store
from roofreport.io import case_name
from roofreport.io.contract import TIME, Better, Metric, packaged
from roofreport.io.result import State

_FLAG = "0 or 1"


@dataclass(frozen=True)
class Row:
    case: str
    run: Run
    reading: Reading  # of the time

    @property
    def seconds(self) -> float | None:
        return self.reading.value

    @property
    def measured(self) -> bool:
        return self.reading.state is State.MEASURED

    @property
    def dtype(self) -> str:
        axes = case_name.axes(self.case)
        return axes.get(case_name.DTYPE, axes.get(case_name.PRECISION, ""))

    def metrics(self) -> Iterator[tuple[Metric, float]]:
        """The time and every counter that has a direction, but no flags: services divide one night by another."""
        if not self.measured or self.seconds is None:
            return
        contract = packaged()
        yield contract.time, self.seconds
        for name, value in self.reading.counters.items():
            metric = contract.metric(name)
            if metric is not None and metric.better is not Better.NEITHER and metric.unit != _FLAG:
                yield Metric(name, metric.unit, metric.better, metric.practical, metric.noisy), value

    def half_width(self) -> float | None:
        """Of the 95 % confidence interval of the time, in seconds."""
        relative = self.reading.counters.get("ci")
        return None if relative is None or self.seconds is None else relative * self.seconds


def rows(store: Store, newest: int | None = None) -> list[Row]:
    """Run by run, oldest first; `newest`: that many runs of each machine and toolchain alone."""
    found = [
        Row(series.case, reading.run, reading)
        for series, readings in store.history(TIME.name, run_limit=newest).items()
        for reading in readings
    ]
    return sorted(found, key=lambda row: (row.run.started, row.run.id, row.case))


def texts(facts: Mapping[str, object]) -> dict[str, str]:
    """Facts as tools have them that take texts alone; what is not known is left out."""
    return {key: str(value) for key, value in facts.items() if value not in (None, "")}
