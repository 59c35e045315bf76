# SPDX-License-Identifier: Apache-2.0
"""The verb that says what a machine can do: machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from roofreport.compare.machine import Passport, by_machine
from roofreport.compare.machine_record import record_text
from roofreport.errors import UnusableInputError
from roofreport.io.load import load_runs
from roofreport.render import formats, machine
from roofreport.render.machine import Part
from roofreport.terminal import show
from roofreport.verbs.common import EXIT_OK, Verb, add_picture, importing_matplotlib, notes, picture, section, write

_MACHINE = """
Of the rows that a file has: levels of memory from the curves of the streams, arithmetic, the best library products,
what a step cannot go below, links between ranks, where work turns from reading to arithmetic, and the most that this
machine allows published models. Files of one machine are processes of it; of several machines, the ratios.

examples:
  tools/report machine machine.jsonl
  tools/report machine machine.jsonl --html=machine.html
  tools/report machine results/atlas/*.jsonl --format=markdown
  tools/report machine machine.jsonl --record=results/atlas/my-machine.jsonl
"""


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULT", help="a --journal or --benchmark_out file")
    parser.add_argument("--format", choices=list(_FORMATS), default="terminal")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page: pictures, tables, facts")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write what a passport needs, in 20 kB at most")
    add_picture(parser)


def _markdown(part: Part) -> str:
    texts = [*(f"- {formats.markdown_text(text)}\n" for text in part.notes), *map(formats.markdown, part.tables)]
    notes = "".join(texts[: len(part.notes)])
    return "\n".join(filter(None, [f"## {part.title}\n", notes, *texts[len(part.notes) :]]))


def _latex(part: Part) -> str:
    return "".join([f"% {part.title}\n", *(f"% {text}\n" for text in part.notes), *map(formats.latex, part.tables)])


_FORMATS: dict[str, Callable[[Part], str]] = {
    "terminal": lambda part: section(part.title, *part.notes, *part.tables),
    "markdown": _markdown,
    "latex": _latex,
}


def _parts(machines: Sequence[Passport]) -> list[Part]:
    if len(machines) > 1:
        return [Part("Machines side by side", [machine.side_by_side(machines)])]
    return [machine.heading(machines[0]), *machine.parts(machines[0])]


def _machine(args: argparse.Namespace) -> int:
    results = load_runs(args.results)
    notes(results)
    machines = by_machine(results)
    first = machines[0]
    if len(machines) > 1 and (args.html or args.svg or args.record):
        raise UnusableInputError("--html, --svg and --record are of one machine; these files are of several")
    show("\n".join(map(_FORMATS[args.format], _parts(machines))), end="")
    if args.html is not None:
        with importing_matplotlib():
            from roofreport.render import page
        write(args.html, page.render_passport(first))
    if args.record is not None:
        write(args.record, record_text(first))
    picture(args, lambda: machine.pictures(first))
    return EXIT_OK


VERBS = {"machine": Verb(_MACHINE, _add_machine, _machine)}
