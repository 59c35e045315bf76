# SPDX-License-Identifier: Apache-2.0
"""tools/report repeat."""

from __future__ import annotations

import argparse
import signal
import time
from pathlib import Path

from roofreport import place
from roofreport.compare.command import parse, run_all
from roofreport.render import formats, result_tables
from roofreport.terminal import show, tell
from roofreport.verbs.common import EXIT_OK, add_filter, count

EPILOG = """
Fresh processes one after another. Per case: the medians of time and roof fraction over the processes, the least and the
most, and the same apart for slow and fast memory where it had both; then the fastest implementation of each piece of
work, and in how many processes it was.

examples:
  tools/report repeat build/release/bin/roofbench --filter='norm/.*d:4096' --processes=5
  tools/report repeat 'chrt --fifo 1 bin/roofbench' --filter=gemv --flag=--max_time=0.5
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="PROGRAM", help="a program, with flags if quoted")
    add_filter(parser)
    parser.add_argument("--processes", type=count, default=5, metavar="N", help="how many (default: 5)")
    parser.add_argument("--flag", action="append", default=[], dest="flags", metavar="FLAG", help="repeatable")
    parser.add_argument(
        "--keep", "--state", type=Path, metavar="DIR", help="where results go (default: results/local/…)"
    )


def run(args: argparse.Namespace) -> int:
    extra = [*args.flags, *([f"--benchmark_filter={args.filter}"] if args.filter else [])]
    command = parse(args.program, extra)
    folder = args.keep or place.local_results() / f"repeat-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        results = run_all(command, args.processes, folder, tell)
    except KeyboardInterrupt:
        tell(f"interrupted; what was measured is in {folder}")
        return 128 + signal.SIGINT
    show(formats.terminal(result_tables.over_processes(results)), end="")
    return EXIT_OK
