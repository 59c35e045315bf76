# SPDX-License-Identifier: Apache-2.0
"""One program in several fresh processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roofreport import units
from roofreport.compare.command import Command
from roofreport.compare.process import run
from roofreport.errors import UnusableInputError
from roofreport.io.result import Result


def run_all(command: Command, processes: int, folder: Path, say: Callable[[str], None]) -> list[Result]:
    """Fresh processes one after another, each result kept in `folder`. One that ends without a result is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for number in range(1, processes + 1):
        finished = run(command, folder / f"{number:02}.json")
        if finished.result is None:
            say(f"process {number}: {finished.how}")
            continue
        say(f"process {number} of {processes}: {units.clock(finished.seconds)}")
        results.append(finished.result)
    if not results:
        raise UnusableInputError("no process ended with a result")
    return results
