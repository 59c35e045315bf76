# SPDX-License-Identifier: Apache-2.0
"""Runs one fresh process of a benchmark and reads what it wrote."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from roofreport.compare.command import Command
from roofreport.errors import UnusableInputError
from roofreport.io.load import load
from roofreport.io.result import Result

# What the program exits with when a case failed: its output is complete.
_CASE_FAILED = 1


@dataclass(frozen=True)
class Finished:
    result: Result | None  # None: the process ended without a result
    seconds: float
    how: str = ""  # it ended without one


def _ending(returncode: int, error: str) -> str:
    if returncode < 0:
        known = -returncode in {one.value for one in signal.Signals}
        return f"ended by {signal.Signals(-returncode).name if known else f'signal {-returncode}'}"
    last = error.strip().splitlines()[-1:] or ["no message"]
    return f"exit status {returncode}: {last[0]}"


def run(command: Command, out: Path) -> Finished:
    """`out` becomes the result file."""
    start = time.monotonic()
    process = subprocess.Popen(
        [*command.arguments, f"--benchmark_out={out}", "--benchmark_out_format=json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        _, error = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    seconds = time.monotonic() - start
    if process.returncode not in (0, _CASE_FAILED):
        return Finished(None, seconds, _ending(process.returncode, error))
    try:
        return Finished(load(out), seconds)
    except UnusableInputError as unusable:
        return Finished(None, seconds, str(unusable))
