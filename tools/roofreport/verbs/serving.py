# SPDX-License-Identifier: Apache-2.0
"""tools/report serving."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofreport.compare import axes
from roofreport.errors import UnusableInputError
from roofreport.io.load import load
from roofreport.io.result import merged
from roofreport.render import formats, sweeps
from roofreport.terminal import show
from roofreport.text import printable
from roofreport.verbs.common import EXIT_OK, add_pictures, notes, pictures

EPILOG = """
examples:
  roofbench --benchmark_filter='^decode/' --axis=decode.batch=1:64:x2 --benchmark_out=run.json
  tools/report serving run.json --svg=serving.svg
  tools/report serving run.json --format=csv

The knee is the batch with the most throughput for its latency (the ratio of both is largest there).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help="a --benchmark_out or --journal file")
    parser.add_argument("--format", choices=[*formats.FORMATS], default="terminal", help="of the table")
    add_pictures(parser)


def run(args: argparse.Namespace) -> int:
    result = load(Path(args.result))
    notes([result])
    curves = axes.serving_curves((merged(repetitions) for repetitions in result.by_name().values()), result.contract)
    if not curves:
        raise UnusableInputError(
            f"{printable(args.result)}: no generation was measured with {axes.FEWEST_POINTS} batches; "
            "roofbench --benchmark_filter='^decode/' --axis=decode.batch=1:64:x2 measures seven"
        )
    show(formats.FORMATS[args.format](sweeps.serving_table(curves)), end="")
    if args.svg or args.png:
        pictures(args, [sweeps.serving_chart(curves)])
    return EXIT_OK
