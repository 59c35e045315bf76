# SPDX-License-Identifier: Apache-2.0
"""Fresh processes for suspected slowdowns: a slowdown that a second run does not confirm came from the conditions of
the nightly run, not from the program.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from roofreport import units
from roofreport.compare import abba, command
from roofreport.compare.command import parse
from roofreport.compare.rerun import flags_of
from roofreport.errors import UnusableInputError
from roofreport.gate.nightly_runs import MEETINGS, OWN_ROOF, meeting_pace, roof_rate
from roofreport.gate.series_state import SeriesState
from roofreport.gate.verdicts import Finding, Suspect, is_far
from roofreport.history.records import CONFIRMED, DISMISSED, machine_of
from roofreport.io.contract import Metric
from roofreport.io.load import load
from roofreport.io.reliability import doubt
from roofreport.io.result import Case, Result, State
from roofreport.stats.verdict import Judgment, Verdict, find_split

PROCESSES = 5  # of the present program, where an older one to compare it with is missing
ASKED = ("slower", "drift")


@dataclass(frozen=True)
class Programs:
    """`base`: of the last good build; empty: it is missing. `new`: empty: the second run is left out."""

    base: str
    new: str
    budget: float  # seconds, of all that is run
    folder: Path
    flags: tuple[str, ...] = ()
    pairs: int | None = None  # most of a comparison by turns


@dataclass(frozen=True)
class Answer:
    found: list[Finding]  # the remaining findings
    dismissed: list[Finding]  # with the reason as their text
    note: str = ""  # why the second run was left out


def ask(suspects: Sequence[Suspect], metric: Metric, programs: Programs, say: Callable[[str], None]) -> Answer:
    """Runs suspected slowdowns again; the others become findings where they are far beyond their fence."""
    asked = [one for one in suspects if one.finding.kind in ASKED]
    others = [one.finding for one in suspects if one.finding.kind not in ASKED and is_far(one)]
    if not asked:
        return Answer(others, [])
    if not programs.new:
        return Answer([one.finding for one in asked if is_far(one)] + others, [], "nothing was run again")
    say(f"run again: {units.counted(len(asked), 'case')}, at most {units.clock(programs.budget)}")
    commands: dict[str, list[Suspect]] = defaultdict(list)
    for one in asked:
        commands[one.finding.run.context.get("command_line", "")].append(one)
    found, dismissed, notes = others, [], []
    for number, some in enumerate(commands.values(), start=1):
        folder = programs.folder / str(number) if len(commands) > 1 else programs.folder
        part = replace(programs, budget=programs.budget * len(some) / len(asked), folder=folder)
        try:
            answers = _answers(some, metric, part, say)
        except UnusableInputError as error:
            answers = [(one.finding, True) for one in some if is_far(one)]
            notes.append(str(error))
        found = [*(one for one, stays in answers if stays), *found]
        dismissed += [one for one, stays in answers if not stays]
    what = "nothing" if len(notes) == len(commands) else "not everything"
    return Answer(found, dismissed, f"{what} was run again: {'; '.join(dict.fromkeys(notes))}" if notes else "")


def _answers(
    asked: Sequence[Suspect], metric: Metric, programs: Programs, say: Callable[[str], None]
) -> list[tuple[Finding, bool]]:
    """Of cases that one command measured: each finding, and whether it stays. Raises UnusableInputError."""
    flags = flags_of(asked[0].finding.run, [one.finding.series.case for one in asked], programs.flags)
    new = parse(programs.new, flags)
    if not programs.base:
        results = command.run_all(new, PROCESSES, programs.folder, say, programs.budget)
        _check_machine(results[0], asked[0].finding)
        return [_by_repeating(one, results, metric) for one in asked]
    # SciPy's statistics take a second to import.
    from roofreport.compare.abba import Abba, ComparisonOptions

    base = parse(programs.base, flags)
    options = ComparisonOptions(base, new, programs.budget, programs.folder, None, programs.pairs, metric=metric)
    judgments = {one.name: one for one in Abba(options, say).run()}
    _check_machine(load(abba.output(programs.folder, 0, "pilot")), asked[0].finding)
    return [_by_abba(one, judgments.get(one.finding.series.case)) for one in asked]


def _check_machine(result: Result, finding: Finding) -> None:
    here, there = machine_of(result.context), finding.series.machine
    if here.id != there.id:
        raise UnusableInputError(f"this machine ({here.label}) is not that of the series ({there.label})")


def _by_abba(suspect: Suspect, judgment: Judgment | None) -> tuple[Finding, bool]:
    finding = suspect.finding
    if judgment is None or math.isnan(judgment.low):  # without an interval nothing is known
        why = judgment.note if judgment else "the programs do not have it"
        return replace(finding, text=f"{finding.text}; the second run says nothing: {why}"), is_far(suspect)
    said = f"A B B A against the last good build: {judgment.verdict.value}, {units.percent(judgment.effect)}"
    text = f"{finding.text}; {said} ({judgment.interval()}, {judgment.note})"
    return _decided(finding, text, judgment.verdict in (Verdict.SLOWER, Verdict.FAILED))


def _decided(finding: Finding, text: str, stays: bool) -> tuple[Finding, bool]:
    return replace(finding, text=text, second_run=CONFIRMED if stays else DISMISSED), stays


def _by_repeating(suspect: Suspect, results: Sequence[Result], metric: Metric) -> tuple[Finding, bool]:
    finding, stands = suspect.finding, suspect.state
    logs = [log for result in results if (log := _steady_log(result, finding.series.case, stands, metric)) is not None]
    if not logs:
        doubts = dict.fromkeys(
            doubt(case) or case.why_not
            for result in results
            if (case := result.merged().get(finding.series.case)) is not None
        )
        why = f" ({', '.join(one for one in doubts if one)}; on a quiet machine it does)" if any(doubts) else ""
        text = f"{finding.text}; the second run says nothing: no process gave a figure that counts{why}"
        return replace(finding, text=text), is_far(suspect)
    change = units.percent(math.expm1(median(logs) - stands.fence.center))
    text = f"{finding.text}; {units.counted(len(logs), 'more process', 'es')}: {change}"
    return _decided(finding, text, stays(logs, stands))


def stays(logs: Sequence[float], stands: SeriesState) -> bool:
    """Whether further processes are as slow. Not where some of them are in a state that is not."""
    limit = repeat_limit(stands)
    split = find_split([math.exp(log - logs[0]) for log in logs])
    if split is not None and math.log(median(split.fast)) + logs[0] <= limit:
        return False
    return median(logs) > limit


def repeat_limit(stands: SeriesState) -> float:
    """The limit for further processes. For a drift it is halfway: a smaller change is nearer to the accepted level."""
    return stands.fence.center + stands.fence.near if stands.since is None else (stands.level + stands.accepted) / 2


def _steady_log(result: Result, name: str, stands: SeriesState, metric: Metric) -> float | None:
    """At the pace that the series is held at, above being worse."""
    cases = result.merged()
    case = cases.get(name)
    if case is None or case.state is not State.MEASURED or (metric.noisy and doubt(case)):
        return None
    value = case.value(metric.name)
    if value is None or value <= 0:
        return None
    log = metric.sign * math.log(value)
    follows = stands.follows
    rate = _pace(follows.column, case, list(cases.values()))
    return log if math.isnan(rate) or not follows.share else log + follows.share * (rate - follows.level)


def _pace(column: int, case: Case, others: Sequence[Case]) -> float:
    """As of a nightly run: the rate of the case's own roof, the median memory roof of the `others`, or the pace at
    which its threads meet, of the others where it is not known; nan: unknown."""
    if column == OWN_ROOF:
        return roof_rate(case.counters)[0]
    if column == MEETINGS:
        own = meeting_pace(case.counters)
        rates = [meeting_pace(other.counters) for other in others] if math.isnan(own) else [own]
        rates = [rate for rate in rates if not math.isnan(rate)]
    else:
        rates = [rate for rate, of_memory in (roof_rate(other.counters) for other in others) if of_memory]
    return median(rates) if rates else math.nan
