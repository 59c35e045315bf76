# SPDX-License-Identifier: Apache-2.0
"""The verbs that read folders of profiles and of memory snapshots: profile, memory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.io import profile, snapshot
from roofreport.io.profile import Profile
from roofreport.render import memory
from roofreport.render import profile as tables
from roofreport.terminal import show
from roofreport.verbs.common import EXIT_OK, Verb, count, importing_matplotlib, section, write

_PROFILE = """
Of the folders that --profile=FOLDER wrote, or of single <case>.json files in them: does the profiler's time agree with
the stopwatch's; which kernel takes most, how often is it called, and does another one lead with the backward pass;
which kernels besides matrix products count; what share do products have; softmax against the products of attention.
Two of them also stand side by side, the second against the first: what moved, by kernel and by part of the model.

examples:
  tools/report profile profiles
  tools/report profile old new
  tools/report profile profiles/case.json --flame=case.svg
"""
ROWS = 20
_QUESTIONS = (
    ("The profiler against the stopwatch", tables.agreement),
    ("The kernel with most time", tables.leaders),
    (f"Kernels besides matrix products, from {tables.VISIBLE:.0%} of the kernels' time", tables.others),
    ("The share of matrix products", tables.products),
    ("Softmax against the products of attention", tables.attention),
)


def _add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profiles", nargs="+", type=Path, metavar="PROFILE", help="a folder, or a <case>.json in it")
    parser.add_argument("--rows", type=count, default=ROWS, metavar="N", help=f"most rows of a comparison ({ROWS})")
    parser.add_argument("--flame", type=Path, metavar="FILE", help="write a flame graph of one case as SVG")


def _pairs(old: list[Profile], new: list[Profile]) -> list[tuple[Profile, Profile]]:
    """Cases of one name, or the only case of each."""
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    known = {profile.case: profile for profile in new}
    return [(profile, known[profile.case]) for profile in old if profile.case in known]


def profile_text(loaded: Sequence[list[Profile]], rows: int = ROWS) -> str:
    """The answers, and two of them side by side, with at most so many rows."""
    profiles = [profile for some in loaded for profile in some]
    answers = [(title, ask(profiles)) for title, ask in _QUESTIONS]
    sections = [section(title, table) for title, table in answers if table.rows]
    for old, new in _pairs(*loaded) if len(loaded) == 2 else []:
        title = f"{old.case}\nagainst {new.case}"
        sections += [section(title, table) for table in tables.side_by_side(old, new, rows)]
    return "\n".join(sections)


def _profile(args: argparse.Namespace) -> int:
    loaded = [profile.load(path) for path in args.profiles]
    profiles = [profile for some in loaded for profile in some]
    if args.flame is not None:
        if len(profiles) != 1:
            raise UnusableInputError(f"--flame draws one case, and there are {len(profiles)}; name its <case>.json")
        with importing_matplotlib():
            from roofreport.render.pictures import flame_graph
        write(args.flame, flame_graph(profiles[0]))
    show(profile_text(loaded, args.rows), end="")
    return EXIT_OK


_MEMORY = """
Of the folders that --memory_snapshot=FOLDER wrote, or of single <case>.pickle files in them (and of PyTorch's own
snapshots): the peak of every case by what the memory is for, in one table; and the largest allocations that are alive
at the peak, with the part of the model that made them.

examples:
  tools/report memory snapshots
  tools/report memory snapshots/case.pickle --svg=memory.svg --rows=30
"""


def _add_memory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "snapshots", nargs="+", type=Path, metavar="SNAPSHOT", help="a folder, or a <case>.pickle in it"
    )
    parser.add_argument("--rows", type=count, default=10, metavar="N", help="most allocations of a case (10)")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the time line of one case as SVG")


def _memory(args: argparse.Namespace) -> int:
    snapshots = [one for path in args.snapshots for one in snapshot.load(path)]
    curves = [memory.curve(one) for one in snapshots]
    if args.svg is not None:
        if len(snapshots) != 1:
            raise UnusableInputError(f"--svg draws one case, and there are {len(snapshots)}; name its <case>.pickle")
        with importing_matplotlib():
            from roofreport.render.pictures import memory_timeline
        write(args.svg, memory_timeline(snapshots[0], curves[0]))
    sections = [section("Peaks by category", memory.peaks(snapshots, curves))]
    for one, drawn in zip(snapshots, curves, strict=True):
        title = f"Alive at the peak of {one.case}"
        sections.append(section(title, memory.largest(one, drawn, args.rows)))
    show("\n".join(sections), end="")
    return EXIT_OK


VERBS = {"profile": Verb(_PROFILE, _add_profile, _profile), "memory": Verb(_MEMORY, _add_memory, _memory)}
