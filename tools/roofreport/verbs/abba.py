# SPDX-License-Identifier: Apache-2.0
"""tools/report abba."""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
from pathlib import Path

from roofreport import duration, place
from roofreport.compare import axes
from roofreport.compare.abba import Abba, Options
from roofreport.compare.command import Command, parse
from roofreport.errors import UnusableInputError
from roofreport.io.contract import TIME, Metric
from roofreport.render import formats, judgement_table
from roofreport.terminal import show, tell
from roofreport.verbs.common import VERDICTS, add_filter, add_metric, amount, count, exit_status, metric_of

EPILOG = f"""{VERDICTS}
Fresh processes in the order A B B A …, at least 10 pairs, until every case is decided or the budget is used up.
Per case: Wilcoxon's signed-rank test over the pairs at 1 %, spent over four looks; over the cases: Benjamini and
Hochberg at 5 %; and a floor from what neighbouring processes of one side differ by. Decided cases are left out of
further processes. Repeat the command to continue an interrupted comparison.

examples:
  tools/report abba old/roofbench new/roofbench --filter='matmul/.*bf16'
  tools/report abba 'bin/roofbench --threads=1' 'bin/roofbench --threads=2' --filter=mlp --budget=10min
  tools/report abba old/roofbench new/roofbench --filter=copy --flag=--check=off --state=/tmp/copy
  tools/report abba bin/roofbench --match=impl:eager=impl:native --filter=softmax    is ours faster than theirs?
  tools/report abba bin/roofbench --match=impl:fused=impl:native --filter=adamw --metric=roof

Where a process's memory is now slow, now fast, times scatter and little is called; the share of the roof that is
measured within the case (--metric=roof) does not follow the memory, and higher is FASTER.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("base", metavar="BASE", help="a program, with flags if quoted")
    parser.add_argument("new", metavar="NEW", nargs="?", help="what is compared with it (with --match: default BASE)")
    parser.add_argument(
        "--match",
        metavar="AXIS:X[/…]=AXIS:Y[/…]",
        help="compare BASE's cases that have the first with NEW's that differ from them in the second alone"
        " (of several axes: joined by /)",
    )
    add_filter(parser)
    add_metric(parser)
    parser.add_argument(
        "--budget", type=duration.seconds, default=300.0, metavar="TIME", help="5min (default), 90s, 1h"
    )
    parser.add_argument(
        "--flag", action="append", default=[], dest="flags", metavar="FLAG", help="for both (repeatable)"
    )
    parser.add_argument(
        "--max-time",
        "--max_time",
        type=amount,
        metavar="S",
        help="seconds of samples a case (default: by the budget)",
    )
    parser.add_argument("--pairs", type=count, metavar="N", help="most pairs (default: as the budget allows)")
    parser.add_argument(
        "--state", "--keep", metavar="DIR", help="where results and progress are kept (default: results/local/…)"
    )
    parser.add_argument("--restart", action="store_true", help="start again")


def _state_folder(args: argparse.Namespace) -> Path:
    if args.state is not None:
        return Path(args.state)
    metric = [] if args.metric == TIME.name else [args.metric]
    text = "\0".join([args.base, args.new, args.filter or "", args.match or "", str(args.budget), *args.flags, *metric])
    return place.local_results() / f"abba-{hashlib.sha256(os.fsencode(text)).hexdigest()[:10]}"


def _metric(name: str, new: Command) -> Metric:
    # The time is known without the program's contract.
    return TIME if name == TIME.name else metric_of(name, new.contract())


def run(args: argparse.Namespace) -> int:
    if args.new is None:
        if args.match is None:
            raise UnusableInputError("NEW is missing: a second program, or --match for two kinds of cases of one")
        args.new = args.base
    matched = None if args.match is None else axes.parse_match(args.match)
    extra = [*args.flags, *([f"--benchmark_filter={args.filter}"] if args.filter else [])]
    base, new = parse(args.base, extra), parse(args.new, extra)
    metric = _metric(args.metric, new)
    folder = _state_folder(args)
    if args.restart and folder.exists():
        for path in [*folder.glob("[0-9]*-*.json"), *folder.glob("state.json*")]:
            path.unlink()
    tell(f"state: {folder}")
    try:
        options = Options(base, new, args.budget, folder, args.max_time, args.pairs, matched, metric)
        judgements = Abba(options, tell).run()
    except KeyboardInterrupt:
        tell("interrupted; repeat the command to continue")
        return 128 + signal.SIGINT
    show(formats.terminal(judgement_table.build(judgements, metric)), end="")
    sides = f"; base {matched.base}, new {matched.new}" if matched else ""
    show(f"\n{judgement_table.summary(judgements)} ({metric.name}, A B B A, 95 % intervals{sides})")
    return exit_status(judgements)
