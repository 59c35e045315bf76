# SPDX-License-Identifier: Apache-2.0
"""tools/report samples."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

from roofreport import units
from roofreport.errors import UnusableInputError
from roofreport.io.load import load
from roofreport.io.result import Case, State
from roofreport.render import formats
from roofreport.render.formats import Cell, Table
from roofreport.stats import verdict
from roofreport.terminal import show
from roofreport.text import printable
from roofreport.verbs.common import EXIT_OK, notes

EPILOG = """
Each row of bars goes from the fastest sample on the left to the 99th percentile on the right: one hill is a quiet case,
two are two states of the program or the machine, between which a median jumps; a long tail comes from other processes.

examples:
  roofbench --benchmark_filter=matmul --journal=run.jsonl
  tools/report samples run.jsonl
  tools/report samples run.jsonl --case=n:256
"""


_HEADERS = ("case", "samples", "least", "median", "95 %", "most", "from least to 99 %", "note")
_BARS = "▁▂▃▄▅▆▇█"
_BINS = 32
_NEVER = "·"


def bars(values: Sequence[float], low: float, high: float) -> str:
    """The number of values in each part of [low, high], drawn; an empty part is a dot."""
    counts = [0] * _BINS
    for value in values:
        if low <= value <= high:
            place = (value - low) / (high - low) if high > low else 0.0
            counts[min(_BINS - 1, int(place * _BINS))] += 1
    most = max(counts)
    return "".join(_BARS[(count * len(_BARS) - 1) // most] if count else _NEVER for count in counts)


def _row(case: Case) -> tuple[Cell, ...]:
    ordered = sorted(case.samples)
    # The slowest of a hundred would compress all others into the first bar.
    late = quantiles(ordered, n=100, method="inclusive")[94::4] if len(ordered) > 1 else [ordered[0]] * 2
    found = verdict.find_split(ordered)
    # A single sample apart from all others was disturbed: that is not a second state.
    if found and min(len(found.fast), len(found.slow)) < max(2, len(ordered) // 50):
        found = None
    name = printable(case.name, 300) + (f" ({case.repetition})" if case.repetition else "")
    figures = [(units.time(value), value) for value in (ordered[0], median(ordered), late[0], ordered[-1])]
    return (
        Cell(name, numeric=False),
        Cell(str(len(ordered)), float(len(ordered))),
        *(Cell(text, value) for text, value in figures),
        Cell(bars(ordered, ordered[0], late[-1]), numeric=False),
        Cell(f"split: {found.text()}" if found else "", numeric=False),
    )


def build(cases: Sequence[Case]) -> Table:
    """One row for each repetition of the measured cases that have samples."""
    return Table(_HEADERS, tuple(_row(case) for case in cases if case.state is State.MEASURED and case.samples))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("journal", metavar="JOURNAL", help="a --journal file: result files have no samples")
    parser.add_argument("--case", default="", metavar="TEXT", help="cases in whose names it occurs")


def run(args: argparse.Namespace) -> int:
    result = load(Path(args.journal))
    notes([result])
    table = build([case for case in result.cases if args.case in case.name])
    if not table.rows:
        what = "no samples of such a case" if args.case else "no samples (a journal has them: --journal=FILE)"
        raise UnusableInputError(f"{printable(str(args.journal))}: {what}")
    show(formats.terminal(table), end="")
    return EXIT_OK
