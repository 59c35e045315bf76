# SPDX-License-Identifier: Apache-2.0
"""tools/report accept."""

from __future__ import annotations

import argparse
from datetime import datetime
from fnmatch import fnmatchcase

from roofreport.errors import UnusableInputError
from roofreport.history.where import add_store
from roofreport.terminal import show
from roofreport.text import printable
from roofreport.verbs.common import EXIT_OK, day

EPILOG = """
From the night of --since on, the level of a series is accepted: the gate builds its fence from the nights since then,
an alarm ends, and the chart shows the reason.

examples:
  tools/report accept matmul/impl:eager/dtype:bf16/n:1024 --since=2026-01-31 --why='checks its operands now'
  tools/report accept 'softmax/*' --since=4f2a9c1 --why='another rounding, agreed on'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("series", metavar="SERIES", help="a case, a pattern with * and ?, or a key of history list")
    add_store(parser)
    parser.add_argument("--since", required=True, metavar="WHEN", help="a date, or the commit of a run")
    parser.add_argument("--why", required=True, metavar="TEXT", help="for those who read the chart")


def run(args: argparse.Namespace) -> int:
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
                f"{printable(args.series)}: no case has such a name; tools/report history list --series shows which"
                " there are"
            )
        since = _moment(args.since, [(run.revision, run.started) for run in store.runs(machine or None)])
        made = store.accept(pattern, since, args.why, machine)
    what = f"{len(cases)} case{'' if len(cases) == 1 else 's'}"
    show(f"{what} accepted since {made.since:%Y-%m-%d %H:%M} UTC: {printable(made.why, 300)}")
    return EXIT_OK


def _moment(text: str, runs: list[tuple[str, datetime]]) -> datetime:
    """A commit's first run, or a date."""
    of_commit = [started for revision, started in runs if revision and len(text) >= 4 and revision.startswith(text)]
    if of_commit:
        return min(of_commit)
    try:
        return day(text)
    except argparse.ArgumentTypeError:
        raise UnusableInputError(f"--since={printable(text, 60)}: neither a date nor the commit of a run") from None
