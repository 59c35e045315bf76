# SPDX-License-Identifier: Apache-2.0
"""tools/report spread."""

from __future__ import annotations

import argparse

from roofreport.io.load import load_all
from roofreport.render import formats, result_tables
from roofreport.terminal import show
from roofreport.verbs.common import EXIT_OK, notes

EPILOG = """
examples:
  tools/report spread results/local/repeat-20261121-120000/*.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULT", help="one file a process")


def run(args: argparse.Namespace) -> int:
    results = load_all(args.results)
    notes(results)
    show(formats.terminal(result_tables.over_processes(results)), end="")
    return EXIT_OK
