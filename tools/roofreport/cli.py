# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/report: its verbs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from roofreport.ending import UNUSABLE, ended
from roofreport.text import printable

# One module of roofreport.verbs each, imported on demand: SciPy and Matplotlib take a second.
VERBS = {
    "table": "one or more results as a table",
    "summary": "the conclusions of a run: fastest implementations, the precision to serve in, growth",
    "compare": "verdicts on existing results",
    "abba": "runs two programs, one with two sets of flags, or two implementations of one, in turns",
    "repeat": "runs one program several times and reports the range of its cases",
    "spread": "the table of repeat, from existing results",
    "samples": "how the samples of each case are distributed, as a picture",
    "scaling": "how time grows with size, against the expected growth",
    "serving": "throughput against latency as the batch grows, and where its knee is",
    "params": "parameters of models by component, and the growth of time against them",
    "profile": "where the time of a step goes, from the folders of --profile",
    "memory": "the memory of a case by category, from the folders of --memory_snapshot",
    "roofline": "the run's cases under the measured and the datasheet roofs",
    "gate": "slowdowns in the newest night of a history, or in a result",
    "bisect": "finds the commit that made a case slower",
    "accept": "ends an alarm of the gate by accepting the new level of a series",
    "history": "keeps runs in a database: add, list, show, prune, export, verify, migrate",
    "site": "a history as a folder of pages for a browser",
}

_OF_NIGHTS = {"gate", "bisect", "accept", "history", "site"}

_EPILOG = """
examples:
  tools/report table results/local/*.json
  tools/report summary run.json
  tools/report compare before.json after.json
  tools/report abba build/release/bin/roofbench ../other/build/release/bin/roofbench --filter=matmul --budget=5min
  tools/report scaling run.json --svg=scaling.svg
  tools/report roofline run.json --html=roofline.html

exit status: 0 fine, 1 something is slower or failed, 2 unusable input
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        # The text may quote an argument with arbitrary characters.
        self.exit(UNUSABLE, f"{self.prog}: {printable(message, 500)}\n")


def _module(verb: str) -> str:
    folder = "verbs.nights" if verb in _OF_NIGHTS else "verbs"
    return f"roofreport.{folder}.{verb}"


def parser(program: str, chosen: str) -> argparse.ArgumentParser:
    """Complete for the chosen verb; the others have their names and a line of help."""
    raw = argparse.RawDescriptionHelpFormatter
    top = _Parser(prog=program, description="Reads the results of roofbench.", epilog=_EPILOG, formatter_class=raw)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, text in VERBS.items():
        verb = verbs.add_parser(name, help=text, description=text, formatter_class=raw)
        if name == chosen:
            module = import_module(_module(name))
            verb.epilog = module.EPILOG
            module.add_arguments(verb)
            verb.set_defaults(run=module.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    # The installed command has its own name; otherwise the wrapper's name is used.
    program = "roofreport" if Path(sys.argv[0]).name == "roofreport" else "tools/report"
    args = parser(program, given[0] if given else "").parse_args(given)
    return ended(program, lambda: int(args.run(args)))
