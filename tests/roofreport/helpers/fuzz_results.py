#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hands mutated results and journals to every verb of tools/report, in one process, and says what broke.

    PYTHONPATH=tools:tests/roofreport/helpers .venv/bin/python tests/roofreport/helpers/fuzz_results.py --count=5000

A verb ends with 0, 1 or 2, within seconds, whatever it is given: no traceback, nothing on the terminal that acts, and
with 2 one line that names the file. Each file follows from the seed and its number alone, so that --only=N repeats it.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path

import builders
import mutations
from roofreport.cli import main

LIMIT = 10.0  # seconds a verb; the slowest of whole files takes a hundredth
MEMORY = 4 << 30  # bytes of the whole process, when it is started by hand
_EXIT_STATUSES = {0, 1, 2}


class Broken(Exception):  # noqa: N818 (a result, not an error of this program)
    """A verb broke a rule."""


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.events: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[tag] += 1
        self.events |= {name for name, _ in attrs if name.startswith("on") or name in ("href", "src")}


_TAGS = {
    *("html", "head", "meta", "title", "style", "script", "body", "h1", "h2", "p", "div", "span", "button"),
    *("table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd"),
    *("svg", "g", "defs", "path", "use", "clippath", "rect", "text"),
}


def check_page(text: str) -> None:
    """The page has the elements that this program makes, with the expected number of each active kind."""
    tags = _Tags()
    tags.feed(text)
    if set(tags.found) - _TAGS or tags.events:
        raise Broken(f"the page has {set(tags.found) - _TAGS or tags.events}")
    if (tags.found["script"], tags.found["meta"], tags.found["style"]) != (1, 3, 1):
        raise Broken("the page has another script, style or meta")


def check_svg(text: str) -> None:
    elements = {one.tag.rpartition("}")[2] for one in ET.fromstring(text).iter()}
    if elements - {"svg", "style", "rect", "g", "text", "defs", "path", "use", "clipPath", "title"}:
        raise Broken(f"the picture has {elements}")


def check_csv(text: str) -> None:
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            if cell[:1] and cell[0] in "=+-@\t\r" and not re.fullmatch(r"[+-]?(\d[\d.]*(e[+-]?\d+)?|inf|nan)", cell):
                raise Broken(f"a spreadsheet would run {cell[:40]!r}")


def check_latex(text: str) -> None:
    if re.search(r"\\\\\s*[\[*]", text):
        raise Broken("LaTeX would take a name for an argument of the line's end")


def check_terminal(text: str) -> None:
    acting = {unicodedata.category(character) for character in set(text) - set("\n\t\u200c\u200d")}
    if acting & {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        raise Broken(f"the terminal gets {sorted(one for one in set(text) if not one.isprintable())}")


Check = Callable[[str], None]
# Arguments, where FILE is the mutant, GOOD a valid result and OUT a file to write; and the checks of that file.
COMMANDS: tuple[tuple[str, Check | None], ...] = (
    ("table FILE", None),
    ("table FILE --format=markdown", None),
    ("table FILE --format=latex --output=OUT", check_latex),
    ("table FILE --format=csv --output=OUT", check_csv),
    ("table FILE --format=gpt_fast", check_csv),
    ("table GOOD FILE", None),
    ("table FILE --training --format=latex", check_latex),
    ("summary FILE", None),
    ("summary GOOD FILE", None),
    ("compare GOOD FILE --cross-hardware", None),
    ("compare FILE GOOD --cross-hardware", None),
    ("compare FILE FILE --metric=roof", None),
    ("spread FILE FILE", None),
    ("scaling FILE --svg=OUT", check_svg),
    ("scaling FILE --axis=n", None),
    ("scaling FILE --points --format=csv", check_csv),
    ("params FILE --format=csv", check_csv),
    ("roofline FILE --html=OUT", check_page),
    ("roofline FILE --svg=OUT", check_svg),
)
# Commands that take a tenth of a second and more: each runs for one file in so many.
SLOW_COMMANDS: tuple[tuple[str, int], ...] = (
    ("roofline FILE --png=OUT", 50),
    ("repeat PROGRAM --processes=2 --keep=FOLDER/kept", 20),
    ("abba PROGRAM PROGRAM --pairs=2 --max-time=0.01 --state=FOLDER/state --restart", 50),
)
# A program that "measures" the mutant.
_PROGRAM = """#!/bin/sh
for flag; do
  case $flag in
    --benchmark_out=*) exec cp "{file}" "${{flag#--benchmark_out=}}" ;;
    --benchmark_list_tests) exec echo '{cases}' ;;
    --describe=json) exit 2 ;;
  esac
done
"""


class _TooLongError(BaseException):
    """Not an Exception, or something in between would take it for its own."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def late(number: int, frame: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(arguments: Sequence[str], check: Check | None, out: Path, limit: float = LIMIT) -> int:
    """The exit status. Raises Broken."""
    shown, told = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(shown), redirect_stderr(told), _limited(limit):
            status = main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else -1
    except _TooLongError as late:
        raise Broken(f"not finished after {limit:g} s: {traceback.format_exc()[-1500:]}") from late
    except Exception as error:
        raise Broken(traceback.format_exc()) from error
    if status not in _EXIT_STATUSES:
        raise Broken(f"exit status {status}")
    for text in (shown.getvalue(), told.getvalue()):
        check_terminal(text)
    if status == 2 and not re.search(r"^(tools/report|roofreport): .", told.getvalue().splitlines()[-1]):
        raise Broken(f"exit status 2 without a reason: {told.getvalue()[-300:]!r}")
    if check and status == 0:
        check(out.read_text() if out.exists() else shown.getvalue())
    return status


class Fuzzer:
    """Mutants of one seed in a separate folder."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self._folder = folder
        self._good = builders.write_json(folder / "good.json", mutations.rows())
        self._file = folder / "mutant.json"
        self._out = folder / "out"
        self._program = folder / "program"
        cases = "\n".join(f"{name}/manual_time" for name in builders.TIMES)
        self._program.write_text(_PROGRAM.format(file=self._file, cases=cases))
        self._program.chmod(0o755)
        self.statuses: Counter[int] = Counter()
        self.slowest: tuple[float, str] = (0.0, "")

    def _commands(self, number: int) -> Iterator[tuple[str, Check | None]]:
        yield from COMMANDS
        yield from ((command, None) for command, every in SLOW_COMMANDS if number % every == 0)

    def _arguments(self, command: str) -> list[str]:
        names = {"FILE": self._file, "GOOD": self._good, "OUT": self._out, "PROGRAM": self._program}
        known = re.compile("|".join((*names, "FOLDER")))
        places = {**{name: str(path) for name, path in names.items()}, "FOLDER": str(self._folder)}
        return [known.sub(lambda match: places[match[0]], part) for part in command.split()]

    def one(self, number: int) -> list[str]:
        """The failures, one text each."""
        return self.given(mutations.mutant(random.Random(f"{self._seed}/{number}")), number)

    def given(self, data: bytes, number: int) -> list[str]:
        """As one(), of this file."""
        self._file.write_bytes(data)
        broken = []
        for command, check in self._commands(number):
            self._out.unlink(missing_ok=True)
            start = time.monotonic()
            try:
                self.statuses[run(self._arguments(command), check, self._out)] += 1
            except Broken as what:
                broken.append(f"--seed={self._seed} --only={number}: {command}: {what}")
            took = time.monotonic() - start
            self.slowest = max(self.slowest, (took, f"{command} of {number}"))
        leftovers = [path.name for path in self._folder.glob("*.part")]
        return broken + ([f"--only={number}: left behind: {leftovers}"] if leftovers else [])


def fuzz(seed: int, numbers: Sequence[int], folder: Path, keep: Path | None = None) -> tuple[list[str], Fuzzer]:
    fuzzer = Fuzzer(seed, folder)
    broken: list[str] = []
    for number in numbers:
        found = fuzzer.one(number)
        if found and keep:
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "mutant.json", keep / f"{seed}-{number}.json")
        broken += found
    return broken, fuzzer


def command_line(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=5000, metavar="N", help="how many files (5000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--only", type=int, metavar="N", help="this file alone")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where files go that broke something")
    args = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    numbers = range(args.count) if args.only is None else [args.only]
    with tempfile.TemporaryDirectory() as folder:
        broken, fuzzer = fuzz(args.seed, numbers, Path(folder), args.keep)
    print("\n".join(broken))
    statuses = ", ".join(f"{count} with {status}" for status, count in sorted(fuzzer.statuses.items()))
    took, which = fuzzer.slowest
    print(f"{len(numbers)} files: verbs ended {statuses}; {len(broken)} broke; the slowest took {took:.1f} s ({which})")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(command_line())
