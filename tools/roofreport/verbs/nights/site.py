# SPDX-License-Identifier: Apache-2.0
"""tools/report site."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofreport.history.where import add_store
from roofreport.io.contract import TIME, packaged
from roofreport.terminal import tell
from roofreport.text import printable
from roofreport.verbs.common import EXIT_OK, metric_of

EPILOG = """
examples:
  tools/report site --out=site                                   then open site/index.html
  tools/report site --out=site --metric=time --metric=peak_mem
  tools/report site --out=site --repository=.                    adds what was committed between two nights
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="replaced when the site is whole")
    parser.add_argument(
        "--metric", action="append", metavar="METRIC", help="time (default) or a counter with a direction; several"
    )
    parser.add_argument("--repository", type=Path, metavar="FOLDER", help="the git repository that revisions are of")


def run(args: argparse.Namespace) -> int:
    from roofreport.site.build import build

    metrics = list(dict.fromkeys(args.metric or [TIME.name]))
    for name in metrics:
        metric_of(name, packaged())
    built = build(args.store, args.out, metrics, args.repository)
    size = f"{built.bytes / 1e6:.1f} MB"
    tell(f"{built.series} series of {built.runs} runs, {size}: {printable(str(args.out / 'index.html'))}")
    return EXIT_OK
