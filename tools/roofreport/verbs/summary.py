# SPDX-License-Identifier: Apache-2.0
"""tools/report summary."""

from __future__ import annotations

import argparse

from roofreport.compare import axes
from roofreport.io.load import load_all
from roofreport.io.result import Case, Result, State, merged
from roofreport.render import formats, result_tables
from roofreport.stats import growth
from roofreport.terminal import show
from roofreport.verbs.common import EXIT_OK, notes, warn

EPILOG = """
The conclusions of a run that measured work in several implementations, precisions or sizes: the fastest
implementation and its share of the roof; the precision to serve in; the growth of time against the expected growth, and
the size up to which overhead dominates. Several files are several processes of one machine: medians over them.

examples:
  tools/report summary run.json
  tools/report summary results/local/repeat-20261121-120000/*.json
  tools/report scaling run.json --svg=scaling.svg                the growth alone, as a picture too
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULT", help="a --benchmark_out or --journal file")


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _cases(results: list[Result]) -> list[Case]:
    """Each case once: repetitions within a process first, so that every process counts the same."""
    processes: dict[str, list[Case]] = {}
    for result in results:
        for name, repetitions in result.by_name().items():
            processes.setdefault(name, []).append(merged(repetitions))
    return [merged(cases) for cases in processes.values()]


def sections(results: list[Result]) -> list[str]:
    """The parts that are not empty."""
    cases, contract = _cases(results), results[0].contract
    found = []
    if best := axes.winners(cases, contract):
        table = formats.terminal(result_tables.winners_table(best))
        found.append(f"Fastest implementation, and what it leaves of the roof\n{_indented(table)}")
    if choices := axes.precisions(cases):
        tables = "\n".join(_indented(formats.terminal(result_tables.precision_table(choice))) for choice in choices)
        found.append(f"Which precision to serve in (what it does to the text is for a reader to judge)\n{tables}")
    if series := growth.find(cases, contract):
        lines = "\n".join(map(result_tables.growth_line, series))
        found.append(f"Growth of time: fitted exponent (95 % interval) against the expected one\n{_indented(lines)}")
    return found


def run(args: argparse.Namespace) -> int:
    results = load_all(args.results)
    notes(results)
    found = sections(results)
    show("\n".join(found), end="")
    if not found and any(case.state is State.MEASURED for result in results for case in result.cases):
        warn("no work was measured in two implementations, in two precisions, or at three sizes")
    return EXIT_OK
