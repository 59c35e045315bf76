# SPDX-License-Identifier: Apache-2.0
"""The verbs that compare results or programs: compare, abba."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from roofreport import project_folder
from roofreport.compare import axes, compare_py, comparison, machine_noise
from roofreport.compare.command import Command, parse
from roofreport.compare.machine_noise import Known
from roofreport.errors import UnusableInputError
from roofreport.io import result
from roofreport.io.contract import TIME, Metric
from roofreport.io.load import are_one_run, load_all
from roofreport.io.result import Result
from roofreport.project_folder import reporter
from roofreport.render import formats, judgment_table
from roofreport.stats.verdict import Judgment, Verdict
from roofreport.terminal import say, show
from roofreport.text import shortened
from roofreport.verbs.common import (
    EXIT_OK,
    Verb,
    add_budget,
    add_filter,
    add_flag,
    add_max_time,
    add_metric,
    add_pairs,
    add_state,
    add_store,
    exit_status,
    metric_of,
    notes,
    program_flags,
    warn,
)

# What git bisect run takes for a commit that cannot be judged.
EXIT_UNJUDGED = 125

_VERDICTS = """
verdicts:
  SAME       no difference beyond what this comparison resolves
  FASTER     the new one takes less time than noise explains
  SLOWER     the new one takes more time than noise explains   (exit status 1)
  AMBIGUOUS  a difference that may be noise: abba decides
  MISSING    not measured on one side or either; the note says why
  NEW        the base does not have the case
  FAILED     the case failed in the new results                (exit status 1)
"""
_COMPARE = f"""{_VERDICTS}
The sample is the process: give five files a side or more, taken in turns. Fewer show only changes by a factor of four,
or what earlier processes of this machine (--noise, a history) make certain. For small changes: tools/report abba.

examples:
  tools/report compare before.json after.json
  tools/report compare --base before-*.json --new after-*.json
  tools/report compare before.json after.json --metric=peak_mem
  tools/report compare laptop.json server.json --cross-hardware
  tools/report compare before.json after.json --format=markdown   or json
"""


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="base and new")
    parser.add_argument("--base", nargs="+", default=[], metavar="FILE", help="results of the base")
    parser.add_argument("--new", nargs="+", default=[], metavar="FILE", help="results of what is compared with it")
    add_metric(parser)
    parser.add_argument(
        "--noise", nargs="+", default=[], metavar="FILE", help="processes of one program here, in place of the history"
    )
    add_store(parser)
    parser.add_argument("--format", choices=["terminal", "markdown", "json"], default="terminal")
    parser.add_argument("--cross-hardware", action="store_true", help="compare results of different hardware")


def _sides(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    if args.files and (args.base or args.new):
        raise UnusableInputError("give two files, or --base and --new")
    if args.files and len(args.files) != 2:
        raise UnusableInputError(f"expected two files, got {len(args.files)}; several a side go after --base and --new")
    base, new = ([args.files[0]], [args.files[1]]) if args.files else (args.base, args.new)
    if not base or not new:
        raise UnusableInputError("nothing to compare: give two files, or --base FILE… --new FILE…")
    return base, new


def _refuse_strangers(base: list[Result], new: list[Result]) -> None:
    """Raises UnusableInputError for sides without a case in common."""
    names, others = ({case.name for result in side for case in result.cases} for side in (base, new))
    if names.isdisjoint(others):
        left, right = (shortened(", ".join(result.name for result in side), 300) for side in (base, new))
        raise UnusableInputError(
            f"{left} and {right} have no case in common; {reporter()} table FILE lists the cases of a file,"
            f" and {reporter()} abba --match compares two kinds of cases of a program"
        )


def _hint(base: list[Result], new: list[Result]) -> str:
    """The compare.py command for the same pair, or the reason why it cannot show it: the verdicts do not need it."""
    try:
        return compare_py.command(base, new) or "not installed (Debian: libbenchmark-tools)"
    except UnusableInputError as error:
        return str(error)


def _known(args: argparse.Namespace, compared: list[Result], metric: Metric) -> Known:
    if args.noise:
        results = load_all(args.noise)
        if different := result.differences(compared[0], results[0]):
            raise UnusableInputError(f"--noise is of different hardware ({'; '.join(different)})")
        return machine_noise.of_results(results, metric)
    try:
        return machine_noise.of_history(args.store, compared, metric)
    except ModuleNotFoundError:  # the package of histories is not installed
        return machine_noise.NOTHING


def _compare(args: argparse.Namespace) -> int:
    base, new = (load_all(names) for names in _sides(args))
    notes([*base, *new])
    metric = metric_of(args.metric, new[0].contract)
    _refuse_strangers(base, new)
    for one, other in itertools.product(base, new):
        if are_one_run(one, other):
            warn(f"{one.name} and {other.name} are of the same run")
    different = result.differences(base[0], new[0])
    if different and not args.cross_hardware:
        raise UnusableInputError(
            f"the two sides are of different hardware ({'; '.join(different)}); --cross-hardware compares them anyway"
        )
    for text in (*different, *result.other_settings(base[0], new[0])):
        warn(f"base and new differ: {text}")
    known = _known(args, [*base, *new], metric)
    judgments = comparison.compare(base, new, metric, known)
    if not judgments:
        there = dict.fromkeys(name for one in (*base, *new) for case in one.cases for name in case.counters)
        raise UnusableInputError(
            f"no case has {metric.name} on either side; there are {shortened(', '.join([TIME.name, *there]), 900)}"
        )
    if args.format == "json":
        show(judgment_table.as_json(judgments, metric), end="")
        return exit_status(judgments)
    show(formats.FORMATS[args.format](judgment_table.build(judgments, metric)), end="")
    processes = f"{len(base)} and {len(new)} processes" if len(base) + len(new) > 2 else "one process a side"
    show("\n" + formats.prose(f"{judgment_table.summary(judgments)} ({metric.name}, {processes}, 99 % intervals)"))
    if any(judgment.verdict is Verdict.AMBIGUOUS for judgment in judgments):
        show("AMBIGUOUS cases: the verb abba takes turns; --wait_quiet=600 waits for quiet")
    if metric.noisy:
        show(formats.prose(known.text([judgment.name for judgment in judgments])))
    if args.format == "terminal":
        show(f"compare.py: {_hint(base, new)}")
    return exit_status(judgments)


_ABBA = f"""{_VERDICTS}
Fresh processes in the order A B B A …, at least 10 pairs, until every case is decided or the budget is used up.
Per case: Wilcoxon's signed-rank test over the pairs at 1 %, spent over four looks; over the cases: Benjamini and
Hochberg at 1 %; and a floor from what neighboring processes of one side differ by. Decided cases are left out of
further processes. Repeat the command to continue an interrupted comparison.

exit status, as git bisect run takes it: 0 every case was judged and none is worse, 1 one is SLOWER or FAILED,
{EXIT_UNJUDGED} none of these, but one is AMBIGUOUS or MISSING; also for unusable input

examples:
  tools/report abba old/roofbench new/roofbench --filter='matmul/.*bf16'
  tools/report abba 'bin/roofbench --threads=1' 'bin/roofbench --threads=2' \\
      --filter=mlp --budget=10min --flag=--check=off --state=threads
  tools/report abba bin/roofbench --match=impl:eager=impl:native --filter=gelu
  tools/report abba bin/roofbench --match=impl:fused=impl:native \\
      --filter=adamw --metric=roof

Where a process's memory is now slow, now fast, times scatter and little is called; the share of the roof that is
measured within the case (--metric=roof) does not follow the memory, and higher is FASTER.
"""


def _add_abba(parser: argparse.ArgumentParser) -> None:
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
    add_budget(parser, "5min (default), 90s, 1h")
    add_flag(parser, "for both (repeatable)")
    add_max_time(parser, "seconds of samples a case (default: by the budget)")
    add_pairs(parser, "most pairs (default: as the budget allows)")
    add_state(parser, "where results and progress are kept (default: results/local/…)")


def _state_folder(args: argparse.Namespace) -> Path:
    metric = [] if args.metric == TIME.name else [args.metric]
    text = "\0".join([args.base, args.new, args.filter or "", args.match or "", str(args.budget), *args.flags, *metric])
    return project_folder.local_results() / f"abba-{hashlib.sha256(os.fsencode(text)).hexdigest()[:10]}"


def _metric(name: str, new: Command) -> Metric:
    # The time is known without the program's contract.
    return TIME if name == TIME.name else metric_of(name, new.contract())


def _abba(args: argparse.Namespace) -> int:
    # SciPy's statistics take a second to import.
    from roofreport.compare.abba import Abba, ComparisonOptions

    if args.new is None:
        if args.match is None:
            raise UnusableInputError("NEW is missing: a second program, or --match for two kinds of cases of one")
        args.new = args.base
    matched = None if args.match is None else axes.parse_match(args.match)
    base, new = (parse(side, program_flags(args)) for side in (args.base, args.new))
    metric = _metric(args.metric, new)
    folder = args.state or _state_folder(args)
    say(f"state: {folder}")
    try:
        options = ComparisonOptions(base, new, args.budget, folder, args.max_time, args.pairs, matched, metric)
        judgments = Abba(options, say).run()
    except KeyboardInterrupt:
        say("interrupted; repeat the command to continue")
        raise
    show(formats.terminal(judgment_table.build(judgments, metric)), end="")
    sides = f"; base {matched.base}, new {matched.new}" if matched else ""
    found = judgment_table.summary(judgments)
    show("\n" + formats.prose(f"{found} ({metric.name}, A B B A, 95 % intervals{sides})"))
    return exit_status(judgments) or (EXIT_UNJUDGED if _unjudged(judgments) else EXIT_OK)


def _unjudged(judgments: Sequence[Judgment]) -> bool:
    return any(one.verdict in (Verdict.AMBIGUOUS, Verdict.MISSING) for one in judgments)


VERBS = {
    "compare": Verb(_COMPARE, _add_compare, _compare),
    "abba": Verb(_ABBA, _add_abba, _abba, EXIT_UNJUDGED),
}
