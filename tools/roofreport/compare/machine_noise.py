# SPDX-License-Identifier: Apache-2.0
"""How the processes of this machine scatter, from earlier runs of it: kept repetitions of a program, or a history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from roofreport import units
from roofreport.history.record import moment
from roofreport.history.records import machine_of, toolchain_of
from roofreport.io.contract import Metric
from roofreport.io.reliability import doubt
from roofreport.io.result import Result, State
from roofreport.stats.processes import ELSEWHERE, Noise, noise_of

_PAUSE = timedelta(hours=1)  # ends a stretch of time
MOST_RUNS = 400


@dataclass(frozen=True)
class Known:
    """`sessions`: the logarithms of each case, by stretch of time."""

    sessions: Mapping[str, Sequence[Sequence[float]]]
    source: str  # for people

    def of(self, name: str) -> Noise:
        return noise_of(self.sessions[name]) if name in self.sessions else ELSEWHERE

    def text(self, names: Sequence[str]) -> str:
        """Where the noise of these cases is from."""
        count = sum(self.of(name).known > 0 for name in names)
        elsewhere = "that of another machine; several processes of one program here, --noise FILE..., tell this one's"
        if not count:
            return f"noise: {elsewhere}"
        rest = f"; for the other {len(names) - count}, {elsewhere}" if count < len(names) else ""
        return f"noise: of {count} of {units.counted(len(names), 'case')} from {self.source}{rest}"


NOTHING = Known({}, "")

_Value = tuple[datetime, str, float]  # when a process began, its program, and the logarithm of its figure


def _sessions(values: Iterable[_Value]) -> list[list[float]]:
    found: list[list[float]] = []
    last: tuple[datetime, str] | None = None
    for began, program, value in sorted(values):
        if last is None or began - last[0] > _PAUSE or program != last[1]:
            found.append([])
        found[-1].append(value)
        last = began, program
    return found


def of_results(results: Sequence[Result], metric: Metric) -> Known:
    """Processes of one program; those of each date without a pause are one stretch of time."""
    values: dict[str, list[_Value]] = {}
    for result in results:
        began = moment(result.date) or datetime.fromtimestamp(0).astimezone()
        for name, case in result.merged().items():
            value = case.value(metric.name) if case.state is State.MEASURED and not doubt(case) else None
            if value is not None and 0 < value < math.inf:
                values.setdefault(name, []).append((began, "", math.log(value)))
    source = f"{units.counted(len(results), 'process', 'es')} of --noise"
    return Known({name: _sessions(own) for name, own in values.items()}, source)


def of_history(where: str, compared: Sequence[Result], metric: Metric) -> Known:
    """The runs of the same machine and toolchain, without those that are compared."""
    if "://" not in where and not Path(where).exists():
        return NOTHING
    from roofreport.history.store import open_store

    first = compared[0]
    here = machine_of(first.context).id, toolchain_of(first.context, first.contract).id
    dates = {moment(result.date) for result in compared}
    with open_store(where) as store:
        history = store.history(metric.name, run_limit=MOST_RUNS)
    found = {}
    for series, readings in history.items():
        if series.environment == here:
            found[series.case] = _sessions(
                (one.run.started, one.run.revision, math.log(one.value))
                for one in readings
                if one.value is not None and 0 < one.value < math.inf and not one.doubt and one.run.started not in dates
            )
    return Known(found, "its history")
