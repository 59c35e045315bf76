# SPDX-License-Identifier: Apache-2.0
"""tools/report params."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofreport.io.load import load
from roofreport.render import formats, training_table
from roofreport.terminal import show
from roofreport.verbs.common import EXIT_OK, notes

EPILOG = """
examples:
  tools/report params run.json
  tools/report params run.json --format=latex
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help="a --benchmark_out or --journal file")
    parser.add_argument("--format", choices=[*formats.FORMATS], default="terminal")


def run(args: argparse.Namespace) -> int:
    result = load(Path(args.result))
    notes([result])
    show(formats.FORMATS[args.format](training_table.parameters(result)), end="")
    return EXIT_OK
