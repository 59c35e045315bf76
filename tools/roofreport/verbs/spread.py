# SPDX-License-Identifier: Apache-2.0
"""The verb spread: how the times of cases scatter, between processes and within one."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median, quantiles

from roofreport import project_folder, units
from roofreport.compare.command import parse, run_all
from roofreport.errors import UnusableInputError
from roofreport.io.load import load_all
from roofreport.io.result import Case, Result, State
from roofreport.render import formats, result_tables
from roofreport.render.formats import Cell, Table, words
from roofreport.stats import verdict
from roofreport.terminal import say, show
from roofreport.verbs.common import EXIT_OK, Verb, add_filter, add_flag, add_state, count, notes, program_flags

_SPREAD = """
Per case, over the processes: the medians of time and roof fraction, the least
and the most, and the same apart for slow and fast memory where it had both;
then the fastest implementation of each piece of work, and in how many
processes it was. With --run the processes run first, one after another.

With --samples, within each process: a row of bars from the fastest sample on
the left to the 99th percentile on the right. One hill is a quiet case, two are
two states of the program or the machine, between which a median jumps; a long
tail comes from other processes.

examples:
  tools/report spread results/local/spread-20261121-120000/*.json
  tools/report spread --run=build/release/bin/roofbench --filter='norm/.*d:4096'
  tools/report spread --run='chrt --fifo 1 bin/roofbench' --flag=--max_time=0.5
  tools/report spread --samples run.jsonl --filter=n:256
"""
_PROCESSES = 5
_HEADERS = ("case", "samples", "least", "median", "95 %", "most", "from least to 99 %", "note")
_BARS = "▁▂▃▄▅▆▇█"
_BINS = 32
_NEVER = "·"


def _add_spread(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="*", metavar="RESULT", help="one file a process; with --samples, journals")
    parser.add_argument("--samples", action="store_true", help="the distribution within each process")
    add_filter(parser)
    parser.add_argument("--run", dest="program", metavar="PROGRAM", help="a program to run, with flags if quoted")
    parser.add_argument("--processes", type=count, metavar="N", help=f"of --run (default: {_PROCESSES})")
    add_flag(parser, "for --run (repeatable)")
    add_state(parser, "where the results of --run go (default: results/local/…)")


def _measured_now(args: argparse.Namespace) -> list[Result]:
    folder = args.state or project_folder.local_results() / f"spread-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        return run_all(parse(args.program, program_flags(args)), args.processes or _PROCESSES, folder, say)
    except KeyboardInterrupt:
        say(f"interrupted; what was measured is in {folder}")
        raise


def _given(args: argparse.Namespace) -> list[Result]:
    if args.processes or args.flags or args.state:
        raise UnusableInputError("--processes, --flag and --keep need --run=PROGRAM")
    try:
        chosen = re.compile(args.filter or "")
    except re.error as error:
        raise UnusableInputError(f"--filter={args.filter}: {error}") from error
    results = load_all(args.results)
    notes(results)
    kept = [replace(one, cases=tuple(case for case in one.cases if chosen.search(case.name))) for one in results]
    if any(one.cases for one in results) and not any(one.cases for one in kept):
        raise UnusableInputError(f"--filter={args.filter} matches no case of these files")
    return kept


def _spread(args: argparse.Namespace) -> int:
    if bool(args.results) == bool(args.program):
        raise UnusableInputError("give results, or --run=PROGRAM to measure them now")
    if args.samples and args.program:
        raise UnusableInputError("--samples reads journals, and --run writes none; roofbench --journal=FILE does")
    results = _measured_now(args) if args.program else _given(args)
    table = _within_processes(results) if args.samples else result_tables.over_processes(results)
    if args.samples and not table.rows:
        what = "no samples of such a case" if args.filter else "no samples (a journal has them: --journal=FILE)"
        raise UnusableInputError(f"{results[0].path}: {what}")
    show(formats.terminal(table), end="")
    return EXIT_OK


def _within_processes(results: Sequence[Result]) -> Table:
    """One row for each repetition of the measured cases that have samples."""
    rows = [
        _samples_row(case, f" [{number}]" if len(results) > 1 else "")
        for number, result in enumerate(results, 1)
        for case in result.cases
        if case.state is State.MEASURED and case.samples
    ]
    files = [f"[{number}] {result.name}" for number, result in enumerate(results, 1)]
    return Table(_HEADERS, tuple(rows), tuple(files) if len(files) > 1 else ())


def bars(values: Sequence[float], low: float, high: float) -> str:
    """The number of values in each part of [low, high], drawn; an empty part is a dot."""
    counts = [0] * _BINS
    for value in values:
        if low <= value <= high:
            place = (value - low) / (high - low) if high > low else 0.0
            counts[min(_BINS - 1, int(place * _BINS))] += 1
    most = max(counts)
    return "".join(_BARS[(count * len(_BARS) - 1) // most] if count else _NEVER for count in counts)


def _samples_row(case: Case, process: str) -> tuple[Cell, ...]:
    ordered = sorted(case.samples)
    # The slowest of a hundred would compress all others into the first bar.
    late = quantiles(ordered, n=100, method="inclusive")[94::4] if len(ordered) > 1 else [ordered[0]] * 2
    found = verdict.find_split(ordered)
    # A single sample apart from all others was disturbed: that is not a second state.
    if found and min(len(found.fast), len(found.slow)) < max(2, len(ordered) // 50):
        found = None
    name = case.name + (f" ({case.repetition})" if case.repetition else "") + process
    figures = [(units.time(value), value) for value in (ordered[0], median(ordered), late[0], ordered[-1])]
    return (
        Cell(name, numeric=False),
        Cell(str(len(ordered)), float(len(ordered))),
        *(Cell(text, value) for text, value in figures),
        Cell(bars(ordered, ordered[0], late[-1]), numeric=False),
        words(f"split: {found.text()}" if found else ""),
    )


VERBS = {"spread": Verb(_SPREAD, _add_spread, _spread)}
