# SPDX-License-Identifier: Apache-2.0
"""tools/report profile."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.io.profile import Profile, load
from roofreport.render import formats
from roofreport.render.profile import (
    VISIBLE,
    agreement,
    attention,
    leaders,
    others,
    products,
    side_by_side,
)
from roofreport.terminal import show
from roofreport.text import printable
from roofreport.verbs.common import EXIT_OK, count, importing_matplotlib, write

EPILOG = """
Of the folders that --profile=FOLDER wrote, or of single <case>.json files in them: does the profiler's time agree with
the stopwatch's; which kernel takes most, how often is it called, and does another one lead with the backward pass;
which kernels besides matrix products count; what share do products have; softmax against the products of attention.
Two of them also stand side by side, the second against the first: what moved, by kernel and by part of the model.

examples:
  tools/report profile profiles
  tools/report profile old new
  tools/report profile profiles/case.json --flame=case.svg
"""

_QUESTIONS = (
    ("The profiler against the stopwatch", agreement),
    ("The kernel with most time", leaders),
    (f"Kernels besides matrix products, from {VISIBLE:.0%} of a step", others),
    ("The share of matrix products", products),
    ("Softmax against the products of attention", attention),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profiles", nargs="+", type=Path, metavar="PROFILE", help="a folder, or a <case>.json in it")
    parser.add_argument("--rows", type=count, default=20, metavar="N", help="most rows of a comparison (20)")
    parser.add_argument("--flame", type=Path, metavar="FILE", help="write a flame graph of one case as SVG")


def _pairs(old: list[Profile], new: list[Profile]) -> list[tuple[Profile, Profile]]:
    """Cases of one name, or the only case of each."""
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    known = {profile.case: profile for profile in new}
    return [(profile, known[profile.case]) for profile in old if profile.case in known]


def _section(title: str, text: str) -> str:
    return f"{title}\n" + "".join(f"  {line}\n" for line in text.splitlines())


def run(args: argparse.Namespace) -> int:
    loaded = [load(path) for path in args.profiles]
    profiles = [profile for some in loaded for profile in some]
    if args.flame is not None:
        if len(profiles) != 1:
            raise UnusableInputError(f"--flame draws one case, and there are {len(profiles)}; name its <case>.json")
        with importing_matplotlib():
            from roofreport.render.pictures import flame_graph
        write(args.flame, flame_graph(profiles[0]))
    answers = [(title, ask(profiles)) for title, ask in _QUESTIONS]
    sections = [_section(title, formats.terminal(table)) for title, table in answers if table.rows]
    for old, new in _pairs(*loaded) if len(loaded) == 2 else []:
        title = f"{printable(old.case, 300)}\nagainst {printable(new.case, 300)}"
        sections += [_section(title, formats.terminal(table)) for table in side_by_side(old, new, args.rows)]
    show("\n".join(sections), end="")
    return EXIT_OK
