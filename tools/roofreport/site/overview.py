# SPDX-License-Identifier: Apache-2.0
"""The first page: a row for each series, the change and its first nightly run, worst first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from markupsafe import Markup

from roofreport import units
from roofreport.gate import series_state
from roofreport.gate.verdicts import Finding
from roofreport.history.records import Run, Series
from roofreport.io import case_name
from roofreport.io.contract import Contract, Metric
from roofreport.site import data
from roofreport.site.data import Status, token, words
from roofreport.site.nights import Histories, Night

_UNKNOWN = "-"


def shown(value: float | None, unit: str) -> str:
    return _UNKNOWN if value is None or not math.isfinite(value) else units.spelled(value, unit)


def change(ratio: float | None) -> str:
    """A relative change with its sign: +8.2 %, or 12 times where a percentage would be long."""
    if ratio is None or not math.isfinite(ratio):
        return _UNKNOWN
    return f"{units.digits(1 + ratio)} times" if ratio >= 9 else units.percent(ratio)


WIDTH, HEIGHT = 120, 26
_MARGIN = 3.0
_MOST_POINTS = 60
# Half of the height, in every row: a change looks the same in all of them. Farther is cut off.
_SCALE = math.log(1.1)


def _thinned(values: Sequence[float]) -> list[float]:
    """As many values as fit into the width; a median of each stretch keeps levels and drops outliers."""
    if len(values) <= _MOST_POINTS:
        return list(values)
    edges = [round(i * len(values) / _MOST_POINTS) for i in range(_MOST_POINTS + 1)]
    return [sorted(values[start:end])[(end - start) // 2] for start, end in pairwise(edges)]


def sparkline(values: Sequence[float | None]) -> Markup:
    """Decoration: the adjacent words carry its content."""
    logs = _thinned([math.log(value) for value in values if value is not None and data.usable(value)])
    if len(logs) < 2:
        return Markup("")
    middle = median(logs)
    step = (WIDTH - 2 * _MARGIN) / (len(logs) - 1)
    heights = [max(-1.0, min(1.0, (log - middle) / _SCALE)) for log in logs]
    points = [(_MARGIN + i * step, HEIGHT / 2 - up * (HEIGHT / 2 - _MARGIN)) for i, up in enumerate(heights)]
    path = " ".join(f"{x:.4g},{y:.3g}" for x, y in points)
    x, y = points[-1]
    return Markup(
        f'<svg class="spark" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f'<polyline points="{path}"/><circle cx="{x:.4g}" cy="{y:.3g}" r="2.4"/></svg>'
    )


@dataclass(frozen=True)
class SeriesRow:
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
    change_value: float  # nan where it is missing
    since: str  # a day
    revision: str
    text: str
    spark: Markup

    @property
    def searched(self) -> str:
        """The text that the filter box searches."""
        return " ".join(
            (self.case, self.metric, self.machine, self.toolchain, self.status.word, self.revision, self.text)
        )

    @property
    def order(self) -> tuple[int, float, str]:
        size = abs(self.change_value)
        return self.status.rank, -(size if math.isfinite(size) else 0.0), self.case


_WHOSE = ("metric", "machine")


@dataclass(frozen=True)
class Overview:
    rows: Sequence[SeriesRow]
    latest: Run | None  # the first run of the newest night

    @property
    def latest_milliseconds(self) -> int:
        return data.milliseconds(self.latest.started) if self.latest else 0

    def choices(self, column: str) -> list[str]:
        """The values of a column, for its filter."""
        return sorted({str(getattr(row, column)) for row in self.rows})

    @property
    def columns(self) -> list[str]:
        """Those that tell the rows apart."""
        return [column for column in _WHOSE if len(self.choices(column)) > 1]

    @property
    def shared(self) -> str:
        """What all rows have in the others."""
        return ", ".join(one for column in _WHOSE if column not in self.columns for one in self.choices(column))

    def words(self) -> list[tuple[Status, int]]:
        """The statuses that occur, most urgent first, with their counts."""
        return sorted(Counter(row.status for row in self.rows).items(), key=lambda one: one[0].rank)


def _change(nights: Sequence[Night]) -> float:
    """The newest night compared with those before at its level, of which a fence would be made."""
    paced = [(night.paced, night.level) for night in nights if night.paced is not None and data.usable(night.paced)]
    if len(paced) <= series_state.FEWEST_NIGHTS:
        return math.nan
    newest, level = paced[-1]
    before = [value for value, own in paced[:-1] if own == level][-series_state.FENCE_NIGHTS :]
    return newest / median(before) - 1 if before else math.nan


def _last_runs(history: Mapping[Series, Sequence[Night]]) -> dict[str, Run]:
    """The first run of the last night of each machine."""
    newest: dict[str, Run] = {}
    for nights in history.values():
        for run in (one.reading.run for one in nights[-1:]):
            if run.machine.id not in newest or newest[run.machine.id].started < run.started:
                newest[run.machine.id] = run
    return newest


def _row(
    series: Series, nights: Sequence[Night], findings: Sequence[Finding], metric: Metric, last: Run | None
) -> SeriesRow:
    """`last`: of the newest night of its machine."""
    readings = [night.reading for night in nights]
    quiet, why = data.unjudged(nights)
    found, finding = data.worst_status(findings, metric, quiet)
    if last is not None and last.toolchain.id != series.toolchain.id:
        found, finding = data.ENDED, None
    now = readings[-1].value if readings else None
    effect = finding.effect if finding is not None else _change(nights)
    since = None if finding is None else finding.since or finding.run
    if found is data.ENDED and readings:
        since = readings[-1].run
    name = words(series.case)
    return SeriesRow(
        key=token(series.key),
        case=name,
        family=words(case_name.family(series.case), 100),
        metric=words(series.metric, 100),
        machine=words(series.machine.label),
        toolchain=words(series.toolchain.label),
        status=found,
        now=shown(now, metric.unit),
        now_value=math.nan if now is None else now,
        change=change(effect),
        change_value=effect,
        since=f"{since.started:%Y-%m-%d}" if since else "",
        revision=words(since.revision, 40)[:12] if since else "",
        text=words(finding.text if finding else why if found is quiet else ""),
        spark=sparkline([one.value for one in readings if not one.doubt]),
    )


def overview(
    histories: Histories,
    findings: Mapping[Series, Sequence[Finding]],
    contract: Contract,
) -> Overview:
    found = []
    latest: Run | None = None
    for name, history in histories.items():
        metric = contract.metric(name) or contract.time
        last = _last_runs(history)
        for series, nights in history.items():
            found.append(_row(series, nights, findings.get(series, []), metric, last.get(series.machine.id)))
            newest = nights[-1].reading.run if nights else None
            if newest and (latest is None or newest.started > latest.started):
                latest = newest
    return Overview(sorted(found, key=lambda row: row.order), latest)
