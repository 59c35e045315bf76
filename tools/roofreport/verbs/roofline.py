# SPDX-License-Identifier: Apache-2.0
"""tools/report roofline."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.io.load import load
from roofreport.render import roofline
from roofreport.verbs.common import EXIT_OK, add_pictures, importing_matplotlib, notes, pictures, write

EPILOG = """
examples:
  tools/report roofline run.json --html=roofline.html            one file, opens without network
  tools/report roofline run.json --svg=roofline.svg --png=roofline.png
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help="a --benchmark_out or --journal file")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page: picture, table, facts")
    add_pictures(parser)


def run(args: argparse.Namespace) -> int:
    result = load(Path(args.result))
    notes([result])
    if not (args.svg or args.png or args.html):
        raise UnusableInputError("nothing to write: give --html=FILE, --svg=FILE or --png=FILE")
    if args.html is not None:
        with importing_matplotlib():
            from roofreport.render import page
        write(args.html, page.render(result))
    if args.svg or args.png:
        pictures(args, [roofline.chart(result)])
    return EXIT_OK
