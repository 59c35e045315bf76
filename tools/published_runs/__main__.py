# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/published."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from roofreport.text import printable

from published_runs.experiments import EXPERIMENTS, RESULT, Experiment

ROOT = Path(__file__).resolve().parents[2]
EXIT_UNUSABLE = 2
EPILOG = """
Flags that are not of this program go to roofbench, after those of the experiment, which they replace:

  tools/published passes --axis=train_step.size=small
  tools/published micro --show
"""


def refusal(why: str) -> SystemExit:
    print(f"tools/published: {printable(why, 1000)}", file=sys.stderr)
    return SystemExit(EXIT_UNUSABLE)


def commands(experiment: Experiment, more: Sequence[str]) -> list[list[str]]:
    """The run, and then its reports, as they would be typed in the root of the repository."""
    result = f"{experiment.name}.json"
    run = ["build/release/bin/roofbench", *experiment.flags, f"--benchmark_out={result}", *more]
    reports = [[result if word == RESULT else word for word in report] for report in experiment.reports]
    return [run, *(["tools/report", *report] for report in reports)]


def listing() -> str:
    width = max(len(experiment.name) for experiment in EXPERIMENTS)
    return "".join(f"{experiment.name:<{width}}  {experiment.doc}\n" for experiment in EXPERIMENTS)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="tools/published",
        description="Runs a published experiment and prints its table. Results go to NAME.json in the current folder.",
        epilog=listing() + EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the experiment; without one they are listed")
    parser.add_argument("--show", action="store_true", help="print the commands and run none")
    options, more = parser.parse_known_args(arguments)
    if options.name is None:
        if more:
            raise refusal(f"{more[0]} before the name of an experiment; tools/published lists them")
        print(listing(), end="")
        return 0
    experiment = next((one for one in EXPERIMENTS if one.name == options.name), None)
    if experiment is None:
        raise refusal(f"no experiment is called {options.name}: {', '.join(one.name for one in EXPERIMENTS)}")
    for command in commands(experiment, more):
        if options.show:
            print(shlex.join(command))
            continue
        program = root / command[0]
        if not program.exists():
            raise refusal(f"{program} is missing; tools/setup builds it")
        done = subprocess.run([str(program), *command[1:]], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
