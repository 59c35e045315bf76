# SPDX-License-Identifier: Apache-2.0
"""tools/report compare."""

from __future__ import annotations

import argparse

from roofreport.compare import compare_py, comparison
from roofreport.errors import UnusableInputError
from roofreport.io import result
from roofreport.io.load import load_all
from roofreport.io.result import Result
from roofreport.render import formats, judgement_table
from roofreport.stats.verdict import Verdict
from roofreport.terminal import show
from roofreport.verbs.common import VERDICTS, add_metric, exit_status, metric_of, notes, warn

EPILOG = f"""{VERDICTS}
The sample is the process, so give several files a side. With one process a side only large changes (a quarter and more)
are called. For small ones take both sides in turns: tools/report abba.

examples:
  tools/report compare before.json after.json
  tools/report compare --base before-*.json --new after-*.json
  tools/report compare before.json after.json --metric=peak_mem
  tools/report compare laptop.json server.json --cross-hardware
  tools/report compare before.json after.json --format=markdown  for a pull request; json: for a program
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="base and new")
    parser.add_argument("--base", nargs="+", default=[], metavar="FILE", help="results of the base")
    parser.add_argument("--new", nargs="+", default=[], metavar="FILE", help="results of what is compared with it")
    add_metric(parser)
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


def _hint(base: list[Result], new: list[Result]) -> str:
    """The compare.py command for the same pair, or the reason why it cannot show it: the verdicts do not need it."""
    try:
        return compare_py.command(base, new) or "not installed (Debian: libbenchmark-tools)"
    except UnusableInputError as error:
        return str(error)


def run(args: argparse.Namespace) -> int:
    base, new = (load_all(names) for names in _sides(args))
    notes([*base, *new])
    metric = metric_of(args.metric, new[0].contract)
    different = result.differences(base[0], new[0])
    if different and not args.cross_hardware:
        raise UnusableInputError(
            f"the two sides are of different hardware ({'; '.join(different)}); --cross-hardware compares them anyway"
        )
    for text in (*different, *result.other_settings(base[0], new[0])):
        warn(f"base and new differ: {text}")
    judgements = comparison.compare(base, new, metric)
    if not judgements:
        raise UnusableInputError(f"no case has {metric.name} on either side")
    if args.format == "json":
        show(judgement_table.as_json(judgements, metric), end="")
        return exit_status(judgements)
    show(formats.FORMATS[args.format](judgement_table.build(judgements, metric)), end="")
    processes = f"{len(base)} and {len(new)} processes" if len(base) + len(new) > 2 else "one process a side"
    show(f"\n{judgement_table.summary(judgements)} ({metric.name}, {processes}, 99 % intervals)")
    if any(judgement.verdict is Verdict.AMBIGUOUS for judgement in judgements):
        show("AMBIGUOUS cases need processes taken in turns: tools/report abba --help")
    if args.format == "terminal":
        show(f"compare.py: {_hint(base, new)}")
    return exit_status(judgements)
