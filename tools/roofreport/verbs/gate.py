# SPDX-License-Identifier: Apache-2.0
"""The verbs gate and accept: alarms of a history, and their end."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from roofreport import project_folder, units
from roofreport.errors import UnusableInputError
from roofreport.io import profile
from roofreport.io.contract import TIME, packaged
from roofreport.project_folder import reporter
from roofreport.terminal import say, show
from roofreport.text import inert, shortened
from roofreport.verbs.common import (
    EXIT_ALARM,
    EXIT_OK,
    Verb,
    add_budget,
    add_flag,
    add_metric,
    add_pairs,
    add_state,
    add_store,
    day,
    metric_of,
    refuse_unmeasured,
    write,
)
from roofreport.verbs.recordings import profile_text

if TYPE_CHECKING:
    from roofreport.gate.nightly_runs import NightlyRuns
    from roofreport.gate.second_run import Programs
    from roofreport.gate.verdicts import Finding
    from roofreport.history.records import Run
    from roofreport.history.store import Store
    from roofreport.io.contract import Metric
    from roofreport.render.history import Report

_GATE = """
findings:
  SLOWER     beyond its band, or suspect and confirmed           (exit status 1)
  DRIFT      its level has changed for the worse, nights ago     (exit status 1)
  FAILED     the case failed                                     (exit status 1)
  VANISHED   measured before, not in this night, not accepted    (exit status 1)
  AMBIGUOUS  its rows are in doubt: noisy, disturbed, interrupted, …
  FASTER     better than its band, or than every level before
  NEW        the first night of its series: a new case, machine or toolchain

A series is judged from its sixth night on; until then a note counts its nights.

Without RESULT the newest night of every machine is judged. A result that is not in the history is judged against it
and not added. With --binary, cases that look slower run again in fresh processes: in turns with --base, as abba does,
or else alone. Without --binary, only findings beyond the band are reported.

examples:
  tools/report gate
  tools/report gate tonight.json --markdown=gate.md --junit=gate.xml
  tools/report gate night.json --binary=build/release --base=good --profile
  tools/report accept 'matmul/*' --since=2026-01-31 --why='checks operands now'
"""
# The place of the program in a folder that was built or installed.
_PLACES = ("bin/roofbench", "build/release/bin/roofbench")
MOST_PROFILED = 5  # cases of a night
_LONGEST_PROFILE = 20_000
_FILES = (("markdown", "for an issue or a job summary"), ("junit", "as XML"), ("json", "for programs"))


def _add_gate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="*", metavar="RESULT", help="of one night; a file for each process")
    add_store(parser)
    add_metric(parser)
    parser.add_argument("--binary", default="", metavar="PROGRAM", help="of this night, to run again what looks slower")
    parser.add_argument("--base", default="", metavar="PROGRAM", help="of the last good build: a program or its folder")
    add_flag(parser, "for both programs (repeatable)")
    add_budget(parser, "of all second runs: 5min (default)")
    add_state(parser, "where second runs are kept (default: results/local/…)")
    add_pairs(parser, "most pairs of processes (default: as the budget allows)")
    parser.add_argument("--profile", action="store_true", help=f"both programs, of {MOST_PROFILED} confirmed slowdowns")
    for name, text in _FILES:
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=text)


def _program(text: str) -> str:
    """Refuses what cannot be run before a night needs it, which may be months later."""
    from roofreport.compare import command

    if not text:
        return ""
    folder = Path(text)
    if not folder.is_dir():
        command.parse(text)
        return text
    found = next((folder / name for name in _PLACES if (folder / name).is_file()), None)
    if found is None:
        raise UnusableInputError(f"{text}: has neither {' nor '.join(_PLACES)}")
    return str(found)


def _programs(args: argparse.Namespace, group: NightlyRuns) -> Programs:
    from roofreport.gate.second_run import Programs

    if args.base and not args.binary:
        raise UnusableInputError("--base needs --binary, the program to compare with it")
    if not args.binary and (args.flags or args.pairs):
        raise UnusableInputError("--flag and --pairs are for second runs: name the program with --binary")
    if args.profile and not args.base:
        raise UnusableInputError("--profile needs --base and --binary, the two programs")
    folder = args.state or project_folder.local_results() / f"gate-{group.runs[-1].digest[:12]}"
    return Programs(_program(args.base), _program(args.binary), args.budget, folder, tuple(args.flags), args.pairs)


def _profiled(found: Sequence[Finding], programs: Programs) -> list[Finding]:
    """Adds profiles of both programs to the worst findings that a second run confirmed, as far as they succeed."""
    from roofreport.history.records import CONFIRMED

    chosen = [one for one in found if one.kind == "slower" and one.second_run == CONFIRMED][:MOST_PROFILED]
    return [replace(one, profile=_profile(one, programs)) if one in chosen else one for one in found]


def _profile(finding: Finding, programs: Programs) -> str:
    from roofreport.gate import profiles

    say(f"profile of both programs: {finding.series.case}")
    try:
        return profile_text([profile.load(folder) for folder in profiles.recorded(programs, finding)])[
            :_LONGEST_PROFILE
        ]
    except UnusableInputError as error:
        return f"no profile: {shortened(str(error), 500)}"


def _judged(store: Store, group: NightlyRuns, metric: Metric, args: argparse.Namespace) -> Report:
    from roofreport.gate import nightly_runs, second_run, stored_verdicts, verdicts
    from roofreport.render.history import Report

    remarks = store.annotations()
    programs = _programs(args, group)
    answer = second_run.ask(verdicts.levels(group, remarks), metric, programs, say)
    found = verdicts.ordered([*answer.found, *verdicts.others(group, remarks)])
    if args.profile and metric.name == TIME.name:
        found = _profiled(found, programs)
    last = group.count - 1
    notes = [answer.note] if answer.note else []
    if all(run.id > 0 for run in group.tonight):  # of a night in the history
        try:
            stored_verdicts.add(store, group.tonight[0].started, [*found, *answer.dismissed])
        except UnusableInputError as error:
            notes.append(f"the site does not show what the second run said: {error}")
    cases = [group.series[place].case for place in group.judged if group.of(place, last)]
    notes += nightly_runs.began(store, group)
    unjudged = nightly_runs.unjudged(group)
    return Report(found, answer.dismissed, cases, group.tonight, metric, unjudged, notes)


def _gate(args: argparse.Namespace) -> int:
    from roofreport.gate import nightly_runs
    from roofreport.history.store import open_store
    from roofreport.render import history

    metric = metric_of(args.metric, packaged())
    with open_store(args.store) as store:
        if args.results:
            groups = nightly_runs.up_to(store, metric, [Path(name) for name in args.results])
        else:
            groups = nightly_runs.newest(store, metric)
        if not groups:
            raise UnusableInputError(f"{args.store}: holds no run; {reporter()} history add RESULT adds one")
        reports = [_judged(store, group, metric, args) for group in groups]
        if not any(report.found or report.cases for report in reports):  # a job that judges nothing has not succeeded
            refuse_unmeasured(store, metric.name)
    for report in reports:
        show(history.gate_text(report), end="")
    written: tuple[tuple[Path | None, Callable[[Sequence[Report]], str]], ...] = (
        (args.markdown, history.gate_markdown),
        (args.junit, history.gate_junit),
        (args.json, history.gate_json),
    )
    for path, render in written:
        if path is not None:
            write(path, render(reports))
    return EXIT_ALARM if any(report.alarms for report in reports) else EXIT_OK


_ACCEPT = """
From the night of --since on, the level of a series is accepted: the gate builds its band from the nights since then,
an alarm ends, and the chart shows the reason. So is a case that is no longer measured.

examples:
  tools/report accept matmul/impl:eager/dtype:bf16/n:1024 --since=2026-01-31 \\
      --why='checks its operands now'
  tools/report accept 'softmax/*' --since=4f2a9c1 --why='another rounding'
"""


def _add_accept(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "series", type=inert, metavar="SERIES", help="a case, a pattern with * and ?, or a key of history list"
    )
    add_store(parser)
    parser.add_argument("--since", required=True, metavar="WHEN", help="a date, or the commit of a run")
    parser.add_argument("--why", required=True, type=inert, metavar="TEXT", help="for those who read the chart")


def _accept(args: argparse.Namespace) -> int:
    from roofreport.history.store import open_store

    if not args.why.strip():
        raise UnusableInputError("--why is empty: say what has changed")
    with open_store(args.store) as store:
        series = store.series()
        by_key = next((one for one in series if one.key == args.series), None)
        pattern, machine = (by_key.case, by_key.machine.id) if by_key else (args.series, "")
        cases = {one.case for one in series if pattern == one.case or fnmatchcase(one.case, pattern)}
        if not cases:
            raise UnusableInputError(
                f"{args.series}: no case has such a name; {reporter()} history list --series shows which there are"
            )
        runs = [run for run in store.runs() if machine in ("", run.machine.id)]
        since = _moment(args.since, runs)
        if since > datetime.now(timezone.utc):
            newest = f"{max(run.started for run in runs):%Y-%m-%d}"
            raise UnusableInputError(f"--since={args.since} is yet to come; the newest run is of {newest}")
        made = store.accept(pattern, since, args.why, machine)
    what = units.counted(len(cases), "case")
    show(f"{what} accepted since {made.since:%Y-%m-%d %H:%M} UTC: {shortened(made.why, 300)}")
    return EXIT_OK


def _moment(text: str, runs: list[Run]) -> datetime:
    """A commit's first run, or a date."""
    of_commit = [run.started for run in runs if len(text) >= 4 and run.revision.startswith(text)]
    if of_commit:
        return min(of_commit)
    try:
        return day(text)
    except argparse.ArgumentTypeError:
        raise UnusableInputError(f"--since={text}: neither a date nor the commit of a run") from None


VERBS = {"gate": Verb(_GATE, _add_gate, _gate), "accept": Verb(_ACCEPT, _add_accept, _accept)}
