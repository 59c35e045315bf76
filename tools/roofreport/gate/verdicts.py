# SPDX-License-Identifier: Apache-2.0
"""The findings of the gate: the newest nightly run of each machine against its series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from roofreport import units
from roofreport.gate import nightly_runs, stored_verdicts
from roofreport.gate.nightly_runs import NightlyRuns, is_measured
from roofreport.gate.series_state import FENCE_NIGHTS, SeriesState, state_of
from roofreport.io.contract import TIME, packaged
from roofreport.io.result import State
from roofreport.project_folder import REPORT
from roofreport.stats.verdict import relative
from roofreport.text import shortened

if TYPE_CHECKING:
    from roofreport.history.records import Annotation, Run, Series
    from roofreport.history.store import Store

Kind = Literal["slower", "faster", "drift", "failed", "vanished", "ambiguous", "new"]
# Worst first.
ORDER: tuple[Kind, ...] = ("slower", "drift", "failed", "vanished", "ambiguous", "faster", "new")
# Those that make a command exit with 1.
ALARMS: frozenset[Kind] = frozenset({"slower", "drift", "failed", "vanished"})


@dataclass(frozen=True)
class Finding:
    """`before`, `after`: medians, in the unit of the series' metric; `effect`: their relative change, above 0 where the
    figure grew. All three are nan where nothing was measured."""

    series: Series
    kind: Kind
    run: Run  # the run that is judged: the last one of the night that has the case
    before: float
    after: float
    effect: float
    since: Run | None  # the first run of the new level, or without the case, where it is older than `run`
    text: str  # one line for people; may hold untrusted text
    second_run: str = ""  # one of VERDICTS; empty: there was none
    profile: str = ""  # of the old program and the new one side by side, or why there is none; empty: was not asked for


@dataclass(frozen=True)
class Suspect:
    """A finding about a level, with the data to compare further processes with it."""

    finding: Finding
    state: SeriesState


def judge(store: Store, metric: str = TIME.name) -> list[Finding]:
    """Worst first. A level is as the gate's second run found it; without one it has to lie far beyond its fence."""
    row = packaged().metric(metric) or TIME
    groups, remarks = nightly_runs.newest(store, row), store.annotations()
    found = [finding for group in groups for finding in others(group, remarks)]
    for group in groups:
        began = group.tonight[0].started
        for suspect in levels(group, remarks):
            said = stored_verdicts.find(remarks, suspect.finding.series, began)
            if said is not None:
                found.append(replace(suspect.finding, text=said.why, second_run=said.kind))
            elif is_far(suspect):
                found.append(suspect.finding)
    return ordered(found)


def is_far(suspect: Suspect) -> bool:
    """Whether it is reported without a second run."""
    return suspect.finding.since is not None or abs(suspect.state.excess) > suspect.state.fence.far


def ordered(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda one: (ORDER.index(one.kind), -abs(one.effect), one.series.case))


def _accepted(group: NightlyRuns, case: str, remarks: Sequence[Annotation]) -> int:
    """The first nightly run that counts. What is accepted from a later night on is judged until then."""
    machine = group.runs[0].machine.id
    newest = group.first_run(group.count - 1).started
    moments = [
        one.since
        for one in remarks
        if one.kind == "accepted"
        and one.since <= newest
        and one.machine_id in ("", machine)
        and (one.pattern in ("", case) or fnmatchcase(case, one.pattern))
    ]
    return group.since(max(moments)) if moments else 0


def levels(group: NightlyRuns, remarks: Sequence[Annotation]) -> list[Suspect]:
    """Series whose newest nightly run lies outside their fence, or whose level has changed."""
    found = []
    for place in group.judged:
        accepted = _accepted(group, group.series[place].case, remarks)
        if accepted >= group.count:
            continue
        stands = state_of(group.history(place, accepted), group.metric)
        if stands is None:
            continue
        finding = _of_level(group, place, stands)
        if finding is not None:
            found.append(Suspect(finding, stands))
    return found


def _of_level(group: NightlyRuns, place: int, stands: SeriesState) -> Finding | None:
    kind: Kind
    since = None
    before, after = stands.fence.center, stands.newest
    if stands.since is not None:
        kind, since = "drift", group.first_run(stands.since)
        before, after = stands.accepted, stands.level
    elif abs(stands.excess) > stands.fence.near:
        kind = "slower" if stands.excess > 0 else "faster"
    elif stands.better_since is not None and group.count - stands.better_since <= FENCE_NIGHTS:
        kind, since = "faster", group.first_run(stands.better_since)
        before, after = stands.before_better, stands.level
    else:
        return None
    sign = group.metric.sign
    effect = relative(sign * (after - before))
    far = abs(stands.excess) > stands.fence.far or stands.since is not None
    width = 100 * relative(stands.fence.far if far else stands.fence.near)
    beyond = f"its band is ± {width:.1f} %" if far else f"suspect beyond ± {width:.1f} %"
    when = f" since {since.started:%Y-%m-%d}{_revision(since)}" if since else ""
    text = f"{units.percent(effect)}{when}; {beyond}"
    series, run = group.series[place], group.of(place, group.count - 1)[-1].run
    return Finding(series, kind, run, _figure(sign * before), _figure(sign * after), effect, since, text)


def _figure(logarithm: float) -> float:
    return math.exp(min(logarithm, 700.0))


def _revision(run: Run) -> str:
    return f" ({shortened(run.revision, 12)})" if run.revision else ""


def others(group: NightlyRuns, remarks: Sequence[Annotation]) -> list[Finding]:
    """Failed, vanished and new series, and those whose readings of tonight support no verdict."""
    found = []
    for place in group.judged:
        series = group.series[place]
        other = _other(group, place, _accepted(group, series.case, remarks))
        if other is not None:
            kind, text, since = other
            found.append(Finding(series, kind, group.runs[-1], math.nan, math.nan, math.nan, since, text))
    return found


def _other(group: NightlyRuns, place: int, accepted: int) -> tuple[Kind, str, Run | None] | None:
    last = group.count - 1
    nights = group.nights(place)
    tonight = nights.pop(last, [])
    before = {night: readings for night, readings in nights.items() if accepted <= night < last}
    measured = [night for night, readings in before.items() if is_measured(readings)]
    failed = next((reading for reading in tonight if reading.state is State.FAILED), None)
    if failed is not None and (measured or accepted == 0):
        return "failed", shortened(failed.reason or "it failed", 300), None
    if not is_measured(tonight):
        expected = [
            night
            for night, readings in before.items()
            if is_measured(one for one in readings if one.run.selection in group.selections)
        ]
        if failed or not expected:
            return None
        reason = next((reading.reason for reading in tonight if reading.reason), "")
        state = tonight[-1].state.value if tonight else "not in the run"
        without = group.first_without(max(expected))
        since = without if without.started < group.first_run(last).started else None
        text = shortened(f"{state}: {reason}" if reason else state, 300)
        return "vanished", f"{text}; if it is meant: {REPORT} accept", since
    is_judged = any(nightly_runs.counts(reading, group.metric) for reading in tonight)
    doubts = "" if is_judged else shortened(nightly_runs.doubts(tonight), 300)
    if accepted == 0 and not before:
        return "new", f"the first night of its series{f', in doubt: {doubts}' if doubts else ''}", None
    return None if is_judged else ("ambiguous", f"not judged: {doubts}", None)
