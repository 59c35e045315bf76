# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/report: its verbs."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import NoReturn

from roofreport.errors import UnusableInputError
from roofreport.exit_status import UNUSABLE, ended
from roofreport.project_folder import REPORT
from roofreport.terminal import say
from roofreport.text import printable

# The module of roofreport.verbs, imported on demand, and a line of help.
VERBS = {
    "table": ("results", "one or more results as a table"),
    "summary": ("results", "the conclusions of a run: fastest implementations, the precision to serve in, growth"),
    "compare": ("comparisons", "verdicts on existing results"),
    "abba": ("comparisons", "runs two programs, one with two sets of flags, or two implementations of one, in turns"),
    "spread": ("spread", "how the times of cases scatter between processes, or within one"),
    "scaling": ("results", "how time grows with size, against the expected growth"),
    "ranks": ("results", "weak and strong scaling of steps that ranks share, and a prediction for more ranks"),
    "serving": ("results", "throughput against latency as the batch grows, and where its knee is"),
    "params": ("results", "parameters of models by component, and the growth of time against them"),
    "profile": ("recordings", "where the time of a step goes, from the folders of --profile"),
    "memory": ("recordings", "the memory of a case by category, from the folders of --memory_snapshot"),
    "roofline": ("results", "the run's cases under the measured and the datasheet roofs"),
    "machine": ("machine", "what a machine can do: its passport, or several machines side by side"),
    "gate": ("gate", "slowdowns in the newest nightly run of a history, or in a result"),
    "accept": ("gate", "ends an alarm of the gate by accepting the new level of a series"),
    "history": ("history", "keeps runs in a database: add, list, show, prune, export, verify, migrate"),
    "site": ("history", "a history as a folder of pages for a browser"),
}

# Former names, and what replaces them.
_REPLACED = {
    "repeat": "spread --run=PROGRAM",
    "samples": "spread --samples JOURNAL",
    "bisect": "abba, in git bisect run (docs/gate.md)",
}

_EPILOG = """
examples:
  tools/report table results/local/*.json
  tools/report summary run.json
  tools/report compare before.json after.json
  tools/report abba old/roofbench new/roofbench --filter=matmul --budget=5min
  tools/report scaling run.json --svg=scaling.svg
  tools/report roofline run.json --html=roofline.html

exit status: 0 fine, 1 something is slower or failed, 2 unusable input (abba: 125)
"""


# Arguments that name files to read, and flags that name a file to write.
_INPUTS = ("result", "results", "profiles", "snapshots", "store")
_OUTPUTS = ("output", "html", "svg", "flame", "record", "markdown", "junit", "json")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Fits prose to the terminal; indented lines, which are examples and tables, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for is_prose, block in groupby(text.strip("\n").splitlines(), lambda line: line[:1] not in ("", " ")):
            kept = list(block)
            lines += textwrap.wrap(" ".join(kept), width) if is_prose else kept
        return "\n".join(indent + line for line in lines)


class _Parser(argparse.ArgumentParser):
    unusable = UNUSABLE

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        # The text may quote an argument with arbitrary characters.
        self.exit(self.unusable, f"{self.prog}: {printable(message, 500)}\n")


def _of(program: str, epilog: str) -> str:
    return epilog.replace("tools/report", program)


def parser(program: str, chosen: str) -> argparse.ArgumentParser:
    """Complete for the chosen verb; the others have their names and a line of help."""
    top = _Parser(
        prog=program, description="Reads the results of roofbench.", epilog=_of(program, _EPILOG), formatter_class=_Help
    )
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, (module, text) in VERBS.items():
        verb = verbs.add_parser(name, help=text, description=text, formatter_class=_Help)
        if name == chosen:
            made = import_module(f"roofreport.verbs.{module}").VERBS[name]
            verb.epilog, verb.unusable = _of(program, made.epilog), made.unusable
            made.add_arguments(verb)
            verb.set_defaults(run=made.run, unusable=made.unusable, refuse=verb.error)
    return top


def _run(args: argparse.Namespace) -> int:
    """Raises UnusableInputError before an output replaces an input, or another output."""
    taken: dict[str, str] = {}
    for name in _INPUTS:
        taken |= {os.path.realpath(path): f"{path}, which is read" for path in _listed(getattr(args, name, []))}
    for name in _OUTPUTS:
        path = getattr(args, name, None)
        if path is None or (path.exists() and not path.is_file()):  # a pipe may take several
            continue
        if other := taken.get(os.path.realpath(path)):
            raise UnusableInputError(f"--{name}={path} is the file of {other}; choose another name")
        taken[os.path.realpath(path)] = f"--{name}"
    return int(args.run(args))


def _listed(given: list[str | Path] | str | Path) -> list[str | Path]:
    return given if isinstance(given, list) else [given]


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in _REPLACED:
        say(f"{REPORT}: {given[0]} is now: {REPORT} {_REPLACED[given[0]]}")
        return UNUSABLE
    args, left = parser(REPORT, given[0] if given else "").parse_known_args(given)
    if left:
        takes = "" if any(one.startswith("-") for one in left) else getattr(args, "takes", "")
        args.refuse(f"{takes}unrecognized arguments: {' '.join(left)}")
    return ended(REPORT, lambda: _run(args), args.unusable)
