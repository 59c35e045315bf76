# SPDX-License-Identifier: Apache-2.0
"""tools/report scaling."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.io.load import load
from roofreport.io.result import merged
from roofreport.render import formats, result_tables, sweeps
from roofreport.stats import growth
from roofreport.terminal import show
from roofreport.text import printable
from roofreport.verbs.common import EXIT_OK, add_pictures, notes, pictures

EPILOG = """
examples:
  tools/report scaling run.json --svg=scaling.svg
  tools/report scaling run.json --axis=matmul.m --png=m.png     an axis without an expected growth
  tools/report scaling run.json --points --format=csv           a row a point: its times over those of the sweep's base
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help="a --benchmark_out or --journal file")
    parser.add_argument(
        "--axis", action="append", default=[], metavar="[FAMILY.]AXIS", help="only this one (repeatable)"
    )
    parser.add_argument(
        "--points", action="store_true", help="a row a point, with its times over those of the smallest of its sweep"
    )
    parser.add_argument("--format", choices=[*formats.FORMATS], default="terminal", help="of the points")
    add_pictures(parser)


def run(args: argparse.Namespace) -> int:
    if args.format != "terminal" and not args.points:
        raise UnusableInputError("--format needs --points, which it is the format of")
    result = load(Path(args.result))
    notes([result])
    cases = [merged(repetitions) for repetitions in result.by_name().values()]
    found = growth.find(cases, result.contract, args.axis)
    if not found:
        what = (
            f"{', '.join(map(printable, args.axis))}: fewer than {growth.FEWEST_POINTS} measured points"
            if args.axis
            else f"no axis with an expected growth has {growth.FEWEST_POINTS} measured points"
        )
        raise UnusableInputError(f"{printable(args.result)}: {what}")
    if args.points:
        show(formats.FORMATS[args.format](sweeps.sweep_table(found)), end="")
    else:
        for series in found:
            show(result_tables.growth_line(series))
    if args.svg or args.png:
        pictures(args, sweeps.growth_charts(found))
    return EXIT_OK
