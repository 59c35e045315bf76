# SPDX-License-Identifier: Apache-2.0
"""The rows of the first page: a series each, what happened to it and since when, worst first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from roofreport.gate import fence
from roofreport.gate.finding import Finding
from roofreport.history.records import Reading, Run, Series
from roofreport.io import case_name
from roofreport.io.contract import Contract, Metric
from roofreport.render.markup import Markup
from roofreport.site import figures, sparkline, status
from roofreport.site.data import levels
from roofreport.site.data.catalogue import token
from roofreport.site.data.script import words
from roofreport.site.status import Group, Status


@dataclass(frozen=True)
class Row:
    key: str
    case: str
    family: str
    metric: str
    machine: str
    toolchain: str
    status: Status
    now: str
    now_value: float
    change: str
    change_value: float  # nan where there is none
    since: str  # a day
    revision: str
    text: str
    spark: Markup

    @property
    def searched(self) -> str:
        """What the filter box looks into."""
        return " ".join(
            (self.case, self.metric, self.machine, self.toolchain, self.status.word, self.revision, self.text)
        )

    @property
    def order(self) -> tuple[int, float, str]:
        size = abs(self.change_value)
        return self.status.rank, -(size if math.isfinite(size) else 0.0), self.case


@dataclass(frozen=True)
class Overview:
    rows: Sequence[Row]
    latest: Run | None

    def of(self, group: Group) -> list[Row]:
        return [row for row in self.rows if row.status.group is group]

    def choices(self, column: str) -> list[str]:
        """What a column holds, for its filter."""
        return sorted({str(getattr(row, column)) for row in self.rows})

    def words(self) -> list[tuple[Status, int]]:
        """The statuses that occur, most urgent first, and how often."""
        counted: dict[Status, int] = {}
        for row in self.rows:
            counted[row.status] = counted.get(row.status, 0) + 1
        return sorted(counted.items(), key=lambda one: one[0].rank)


def _change(values: Sequence[float]) -> float:
    """The newest against the ones that a fence would be made of."""
    if len(values) <= fence.FEWEST_NIGHTS:
        return math.nan
    return values[-1] / median(values[-1 - fence.NIGHTS : -1]) - 1


def _last_runs(history: Mapping[Series, Sequence[Reading]]) -> dict[str, Run]:
    """The last run of each machine."""
    newest: dict[str, Run] = {}
    for readings in history.values():
        for run in (one.run for one in readings[-1:]):
            if run.machine.id not in newest or newest[run.machine.id].started < run.started:
                newest[run.machine.id] = run
    return newest


def _row(
    series: Series, readings: Sequence[Reading], findings: Sequence[Finding], metric: Metric, last: Run | None
) -> Row:
    """`last`: the newest run of its machine."""
    found, finding = status.worst(findings, metric)
    if last is not None and last.toolchain.id != series.toolchain.id:
        found, finding = status.ENDED, None
    values = [one.value for one in readings if one.value is not None and levels.usable(one.value)]
    now = readings[-1].value if readings else None
    effect = finding.effect if finding is not None else _change(values)
    since = None if finding is None else finding.since or finding.run
    if found is status.ENDED and readings:
        since = readings[-1].run
    name = words(series.case)
    return Row(
        key=token(series.key),
        case=name,
        family=words(case_name.family(series.case), 100),
        metric=words(series.metric, 100),
        machine=words(series.machine.label),
        toolchain=words(series.toolchain.label),
        status=found,
        now=figures.shown(now, metric.unit),
        now_value=math.nan if now is None else now,
        change=figures.change(effect),
        change_value=effect,
        since=f"{since.started:%Y-%m-%d}" if since else "",
        revision=words(since.revision, 40)[:12] if since else "",
        text=words(finding.text) if finding else "",
        spark=sparkline.svg([one.value for one in readings]),
    )


def rows(
    histories: Mapping[str, Mapping[Series, Sequence[Reading]]],
    findings: Mapping[Series, Sequence[Finding]],
    contract: Contract,
) -> Overview:
    found = []
    latest: Run | None = None
    for name, history in histories.items():
        metric = contract.metric(name) or contract.time
        last = _last_runs(history)
        for series, readings in history.items():
            found.append(_row(series, readings, findings.get(series, []), metric, last.get(series.machine.id)))
            newest = readings[-1].run if readings else None
            if newest and (latest is None or newest.started > latest.started):
                latest = newest
    return Overview(sorted(found, key=lambda row: row.order), latest)
