# SPDX-License-Identifier: Apache-2.0
"""tools/report samples."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.io.load import load
from roofreport.render import formats, samples_table
from roofreport.terminal import show
from roofreport.text import printable
from roofreport.verbs.common import EXIT_OK, notes

EPILOG = """
Each row of bars goes from the fastest sample on the left to the 99th percentile on the right: one hill is a quiet case,
two are two states of the program or the machine, between which a median jumps; a long tail is somebody else's work.

examples:
  roofbench --benchmark_filter=matmul --journal=run.jsonl
  tools/report samples run.jsonl
  tools/report samples run.jsonl --case=n:256
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("journal", metavar="JOURNAL", help="a --journal file: result files have no samples")
    parser.add_argument("--case", default="", metavar="TEXT", help="cases in whose names it occurs")


def run(args: argparse.Namespace) -> int:
    result = load(Path(args.journal))
    notes([result])
    table = samples_table.build([case for case in result.cases if args.case in case.name])
    if not table.rows:
        what = "no samples of such a case" if args.case else "no samples (a journal has them: --journal=FILE)"
        raise UnusableInputError(f"{printable(str(args.journal))}: {what}")
    show(formats.terminal(table), end="")
    return EXIT_OK
