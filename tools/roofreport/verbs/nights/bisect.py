# SPDX-License-Identifier: Apache-2.0
"""tools/report bisect."""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from roofreport import duration, place, units
from roofreport.bisect.repository import BUILD, PREFIX, PROGRAM
from roofreport.io.contract import packaged
from roofreport.terminal import show, tell
from roofreport.text import printable
from roofreport.verbs.common import EXIT_ALARM, EXIT_OK, add_filter, add_metric, amount, count, metric_of

if TYPE_CHECKING:
    from roofreport.bisect.search import Found

EPILOG = f"""
Builds GOOD, BAD and commits between them in a work tree of their own, holds each against GOOD in fresh processes by
turns (abba), and ends with the commit that made the case slower, its effect, and the number of builds. Commits that
do not build, and those that stay AMBIGUOUS with more pairs, are passed over. Repeat the command to continue
after an interruption. Of several cases, the one that lost most is followed. BAD has to be SLOWER than GOOD.

--build is run by a shell in the work tree and leaves --program below ${PREFIX}; without it:
  {BUILD.replace(" && ", " &&" + chr(10) + "  ")}

exit status: 0 the commit is found, 1 it is one of several, 2 unusable input

examples:
  tools/report bisect v1.2 HEAD --filter='softmax/.*bf16/d:4096'
  tools/report bisect 4f2a9c1 main --filter=gemv --build='make && cp bench "${PREFIX}"' --program=bench
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("good", metavar="GOOD", help="a commit that was fast")
    parser.add_argument("bad", metavar="BAD", help="a later one that is slow")
    add_filter(parser, required=True)
    add_metric(parser)
    parser.add_argument("--repository", type=Path, default=place.root(), metavar="DIR", help="default: this one")
    parser.add_argument("--build", default=BUILD, metavar="COMMAND", help="see below")
    parser.add_argument("--program", default=PROGRAM, metavar="FILE", help=f"what the build leaves ({PROGRAM})")
    parser.add_argument(
        "--budget", type=duration.seconds, default=300.0, metavar="TIME", help="of a comparison: 5min (default)"
    )
    parser.add_argument(
        "--flag", action="append", default=[], dest="flags", metavar="FLAG", help="for the programs (repeatable)"
    )
    parser.add_argument(
        "--max-time", "--max_time", type=amount, metavar="S", help="seconds of samples a case, as in abba"
    )
    parser.add_argument("--pairs", type=count, metavar="N", help="most pairs of a comparison")
    parser.add_argument(
        "--state", "--keep", type=Path, metavar="DIR", help="where all is kept (default: results/local/…)"
    )


def run(args: argparse.Namespace) -> int:
    from roofreport.bisect.repository import Recipe, Repository
    from roofreport.bisect.search import Progress, Question, Workshop, restore, save, search

    metric = metric_of(args.metric, packaged())
    # Commits are part of the key, so a branch that has moved begins a new search.
    probe = Repository(args.repository, Path(), Recipe(args.build, args.program))
    good, bad = probe.commit(args.good), probe.commit(args.bad)
    settings = (args.filter, args.metric, args.build, args.program, args.budget, args.max_time, args.pairs)
    parts = [str(args.repository.resolve()), good.id, bad.id, *map(str, settings), *args.flags]
    key = hashlib.sha256(os.fsencode("\0".join(parts))).hexdigest()[:16]
    folder = args.state or place.local_results() / f"bisect-{key[:10]}"
    tell(f"state: {folder}")
    repository = Repository(args.repository, folder, Recipe(args.build, args.program))
    commits = repository.between(good, bad)
    progress = restore(folder, key) or Progress(key)
    question = Question(args.filter, metric, tuple(args.flags), args.budget, args.max_time, args.pairs)
    workshop = Workshop(repository, question, folder, progress, tell)
    try:
        found = search(good, commits, workshop, progress, lambda: save(folder, progress), tell)
    except KeyboardInterrupt:
        save(folder, progress)
        tell("interrupted; repeat the command to continue")
        return 128 + signal.SIGINT
    repository.leave()
    save(folder, progress)
    _say(found)
    return EXIT_OK if len(found.commits) == 1 else EXIT_ALARM


def _say(found: Found) -> None:
    one = found.judgement
    if len(found.commits) == 1:
        show(f"commit {found.commits[0].text()}")
        if one is not None:
            interval = f"{units.percent(one.low)[:-2]} … {units.percent(one.high)}"
            effect = f"{units.percent(one.effect)} ({interval}, {one.note})"
            show(f"{printable(found.case, 300)}: {effect}, {one.verdict.value}")
            show(f"against the commit before it, {found.before.text()}")
    else:
        show(f"one of {len(found.commits)} commits; those between do not build, or do not tell:")
        for commit in found.commits:
            show(f"  {commit.text()}")
    show(f"{found.builds} build{'' if found.builds == 1 else 's'}")
