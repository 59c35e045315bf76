# SPDX-License-Identifier: Apache-2.0
"""tools/report memory."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.io.snapshot import load
from roofreport.render import formats, memory
from roofreport.render.memory import curve
from roofreport.terminal import show
from roofreport.text import printable
from roofreport.verbs.common import EXIT_OK, count, importing_matplotlib, write

EPILOG = """
Of the folders that --memory_snapshot=FOLDER wrote, or of single <case>.pickle files in them (and of PyTorch's own
snapshots): the peak of every case by what the memory is for, in one table; and the largest allocations that are alive
at the peak, with the part of the model that made them.

examples:
  tools/report memory snapshots
  tools/report memory snapshots/case.pickle --svg=memory.svg --rows=30
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "snapshots", nargs="+", type=Path, metavar="SNAPSHOT", help="a folder, or a <case>.pickle in it"
    )
    parser.add_argument("--rows", type=count, default=10, metavar="N", help="most allocations of a case (10)")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the time line of one case as SVG")


def run(args: argparse.Namespace) -> int:
    snapshots = [snapshot for path in args.snapshots for snapshot in load(path)]
    curves = [curve(snapshot) for snapshot in snapshots]
    if args.svg is not None:
        if len(snapshots) != 1:
            raise UnusableInputError(f"--svg draws one case, and there are {len(snapshots)}; name its <case>.pickle")
        with importing_matplotlib():
            from roofreport.render.pictures import memory_timeline
        write(args.svg, memory_timeline(snapshots[0], curves[0]))
    sections = [("Peaks by category", memory.peaks(snapshots, curves))]
    for snapshot, drawn in zip(snapshots, curves, strict=True):
        title = f"Alive at the peak of {printable(snapshot.case, 300)}"
        sections.append((title, memory.largest(snapshot, drawn, args.rows)))
    text = [f"{title}\n" + "".join(f"  {line}\n" for line in formats.terminal(table).splitlines())
            for title, table in sections]  # fmt: skip
    show("\n".join(text), end="")
    return EXIT_OK
