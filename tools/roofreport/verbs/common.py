# SPDX-License-Identifier: Apache-2.0
"""Shared parts of verbs: exit statuses, notes, output files, and arguments."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, NamedTuple

from roofreport import files
from roofreport.errors import UnusableInputError
from roofreport.history.record import moment
from roofreport.io.contract import TIME, Better, Contract, Metric, packaged
from roofreport.io.result import Result
from roofreport.project_folder import local_results
from roofreport.render import formats
from roofreport.render.chart import Chart
from roofreport.render.formats import Table
from roofreport.stats.verdict import ALARMS, Judgment
from roofreport.terminal import columns, say
from roofreport.text import inert, shortened

if TYPE_CHECKING:
    from roofreport.history.store import Store

EXIT_OK = 0
EXIT_ALARM = 1
EXIT_UNUSABLE = 2

STORE_VARIABLE = "ROOFBENCH_STORE"  # of the environment: the default history


class Verb(NamedTuple):
    epilog: str  # of its help
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    unusable: int = EXIT_UNUSABLE  # the exit status for unusable input


def warn(text: str) -> None:
    say(f"note: {text}")


def notes(results: Sequence[Result]) -> None:
    """Prints the notes on files before their content."""
    for result in results:
        name = result.name
        for note in result.notes:
            warn(f"{name}: {shortened(note, 500)}")
        if result.context.get("optimized") == "false":
            warn(f"{name}: its build is not optimized: its times mean nothing")
        if not result.cases:
            warn(f"{name}: contains no cases")


_INDENT = "  "


def section(title: str, *parts: Table | str) -> str:
    """`parts`: tables, and lines of text."""
    width = columns() - len(_INDENT)
    texts = [
        formats.terminal(part, width) if isinstance(part, Table) else "\n".join(formats.wrapped(part, width)) + "\n"
        for part in parts
    ]
    return f"{title}\n{indent(''.join(texts).rstrip(), _INDENT)}\n"


def write(path: Path, text: str) -> None:
    with files.writing_to(path):
        files.write_text(path, text)


def append_lines(path: Path, text: str) -> None:
    """Appends all of the lines or none. Makes the folder if it is missing."""
    with files.writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.followed(path).open("a+b", buffering=0) as file:
            end = file.tell()
            left = text.encode("utf-8", "backslashreplace")
            if end > 0:
                file.seek(-1, os.SEEK_END)
                left = left if file.read(1) == b"\n" else b"\n" + left
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:  # the disk is full: without half a line
                file.truncate(end)
                raise


def exit_status(judgments: Sequence[Judgment]) -> int:
    return EXIT_ALARM if any(judgment.verdict in ALARMS for judgment in judgments) else EXIT_OK


def metric_of(name: str, contract: Contract) -> Metric:
    """The metric of --metric. Raises UnusableInputError for a metric without a direction."""
    found = contract.metric(name)
    if found is None or found.better is Better.NEITHER:
        choices = ", ".join(row.name for row in (contract.time, *contract.counters) if row.better is not Better.NEITHER)
        why = "is neither better nor worse when it changes" if found else "is not in the table of metrics"
        raise UnusableInputError(f"--metric={name}: {why}; there are {shortened(choices, 2000)}")
    return found if found.name == name else replace(found, name=name)


_SECONDS = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LONGEST = 7 * 24 * 3600.0


def seconds(text: str) -> float:
    """Parses a duration: 90, 90s, 5min, 1.5h."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip())
    if match is None or match[2] not in _SECONDS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a duration; write 90s, 5min or 1h")
    value = float(match[1]) * _SECONDS[match[2]]
    if not 0 < value <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not between 0 and a week")
    return value


def count(text: str) -> int:
    """Parses a whole number from 1 to 999999."""
    number = int(text) if text.isdecimal() and len(text) < 7 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 1 to 999999")
    return number


def day(text: str) -> datetime:
    """A date, or a moment; without a zone it is UTC."""
    found = moment(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a date; write 2026-01-31")
    return found


def amount(text: str) -> float:
    """Parses a number from 0.000001 to 1000000."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1e-6 <= number <= 1e6:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 0.000001 to 1000000")
    return number


def add_filter(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """Under the name that roofbench has for it, too."""
    parser.add_argument(
        "--filter", "--benchmark_filter", required=required, metavar="REGEX", help="cases, as roofbench's own flag"
    )


def refuse_unmeasured(store: Store, name: str) -> None:
    """Raises UnusableInputError if no run of a history has a metric."""
    if name == TIME.name or store.series(name):
        return
    named = [row.name for row in packaged().counters if row.better is not Better.NEITHER]
    there = [TIME.name, *(one for one in named if store.series(one))]
    raise UnusableInputError(f"--metric={name}: no run has it; there are {shortened(', '.join(there), 900)}")


def add_metric(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metric", type=inert, default=TIME.name, help="time (default) or a counter with a direction")


def add_flag(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--flag", action="append", default=[], dest="flags", metavar="FLAG", help=text)


def program_flags(args: argparse.Namespace) -> list[str]:
    """Flags of the program that add_flag() and add_filter() collected."""
    return [*args.flags, *([f"--benchmark_filter={args.filter}"] if args.filter else [])]


def add_budget(parser: argparse.ArgumentParser, text: str, default: float = 300.0) -> None:
    parser.add_argument("--budget", type=seconds, default=default, metavar="TIME", help=text)


def add_max_time(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--max-time", "--max_time", type=amount, metavar="S", help=text)


def add_pairs(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--pairs", type=count, metavar="N", help=text)


def add_state(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--state", "--keep", type=Path, metavar="DIR", help=text)


def add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        default=os.environ.get(STORE_VARIABLE) or str(local_results() / "history.db"),
        metavar="WHERE",
        help="a file or postgresql://[USER@]HOST/DATABASE; "
        f"without it ${STORE_VARIABLE}, or else results/local/history.db",
    )


def add_picture(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture as SVG (light and dark)")


def picture(args: argparse.Namespace, draw: Callable[[], Sequence[Chart]]) -> None:
    """Writes the SVG, if it is requested, of the charts that `draw` makes."""
    if args.svg is None:
        return
    with importing_matplotlib():
        from roofreport.render.pictures import svg_of_charts
    write(args.svg, svg_of_charts(draw()))


@contextmanager
def importing_matplotlib() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        raise UnusableInputError(
            f"a picture needs the Python package {missing.name}: pip install matplotlib"
        ) from missing
