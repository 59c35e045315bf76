# SPDX-License-Identifier: Apache-2.0
"""tools/report table."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.io import gpt_fast
from roofreport.io.load import load, without_copies
from roofreport.io.result import Result, differences
from roofreport.render import formats, result_tables, training_table
from roofreport.terminal import show
from roofreport.text import printable
from roofreport.verbs.common import EXIT_OK, append, notes, warn, write

EPILOG = """
examples:
  tools/report table run.json
  tools/report table run.json --columns=case,median,roof,forward_ms,backward_ms --format=markdown
  tools/report table run.json --baseline=impl:eager              adds a speed-up over eager LibTorch
  tools/report table before.json after.json                      adds the ratio of their times
  tools/report table run.json --training --format=markdown       a row a size: forward, backward, optimizer
  tools/report table run.json --format=csv --output=run.csv      numbers in seconds, FLOP/s and bytes/s
  tools/report table run.json --format=gpt_fast --output=all.csv appends in gpt-fast's columns
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    columns = ", ".join(result_tables.DEFAULT_COLUMNS[:3])
    parser.add_argument("results", nargs="+", metavar="RESULT", help="a --benchmark_out or --journal file")
    parser.add_argument("--format", choices=[*formats.FORMATS, "gpt_fast"], default="terminal")
    parser.add_argument("--columns", help=f"comma-separated: {columns}, or any counter")
    parser.add_argument(
        "--baseline", metavar="AXIS:VALUE", help="adds how much faster each case is than the same one with this"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="instead of standard output")
    parser.add_argument(
        "--training", action="store_true", help="training steps as published: a row a size, phase by phase"
    )

    parser.add_argument(
        "--repeats", action="store_true", help="with --training: a row a repetition, and a row with their mean"
    )


def _gpt_fast(results: list[Result], output: Path | None) -> None:
    for number, result in enumerate(results):
        fresh = number == 0 if output is None else gpt_fast.begins(output)
        text = gpt_fast.text(result, with_header=fresh)
        if output is None:
            show(text, end="")
        else:
            append(output, text)


def run(args: argparse.Namespace) -> int:
    results = [load(path) for path in without_copies([Path(path) for path in args.results])]
    notes(results)
    if args.repeats and not args.training:
        raise UnusableInputError("--repeats needs --training, whose rows it divides")
    if args.format == "gpt_fast":
        _gpt_fast(results, args.output)
        return EXIT_OK
    for other in results[1:]:
        for difference in differences(results[0], other, with_host=True):
            warn(f"[1] and {printable(str(other.path))} are of different machines: {difference}")
    columns = [column.strip() for column in args.columns.split(",")] if args.columns else result_tables.DEFAULT_COLUMNS
    built = (
        training_table.published(results[0], repeats=args.repeats, deviations=args.format == "csv")
        if args.training
        else result_tables.result_table(results, columns, args.baseline)
    )
    text = formats.FORMATS[args.format](built)
    if args.output is None:
        show(text, end="")
    else:
        write(args.output, text)
    return EXIT_OK
