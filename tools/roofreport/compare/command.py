# SPDX-License-Identifier: Apache-2.0
"""A program with flags, as one text on the command line, and its processes."""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from roofreport import units
from roofreport.errors import UnusableInputError
from roofreport.exit_status import deferred
from roofreport.io import case_name
from roofreport.io.contract import Contract, packaged, read_contract, unpacked_contract
from roofreport.io.load import load
from roofreport.io.result import Result
from roofreport.text import inert, printable

# abba sets these itself.
_OURS = frozenset(
    {
        "--benchmark_out",
        "--benchmark_out_format",
        "--benchmark_repetitions",
        "--journal",
        "--max_time",
    }
)
_ANSWER_TIMEOUT = 120.0


@dataclass(frozen=True)
class Command:
    """An executable and its flags."""

    arguments: tuple[str, ...]

    def with_flags(self, *flags: str) -> Command:
        return Command((*self.arguments, *flags))

    def text(self) -> str:
        return shlex.join(self.arguments)

    def fingerprint(self) -> str:
        """A hash of the flags and of the executable's content."""
        digest = hashlib.sha256(os.fsencode("\0".join(self.arguments)))
        with Path(self.arguments[0]).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()[:16]

    def _answer(self, question: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*self.arguments, question],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_ANSWER_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnusableInputError(f"{self.text()}: {error}") from error

    def contract(self) -> Contract:
        """As the program describes it; packaged() itself for a program without --describe."""
        done = self._answer("--describe=json")
        if done.returncode or not done.stdout.startswith("{"):
            return packaged()
        path = Path(self.arguments[0])
        return read_contract(path, unpacked_contract(path, done.stdout))

    def cases(self) -> list[str]:
        """The names of the cases that the flags select."""
        done = self._answer("--benchmark_list_tests")
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise UnusableInputError(f"{self.text()}: {lines[-1] if lines else done.returncode}")
        return [case_name.plain(inert(line.strip())) for line in done.stdout.splitlines() if line.strip()]


def parse(text: str, extra: Sequence[str] = ()) -> Command:
    """Raises UnusableInputError for commands that cannot be run."""
    try:
        arguments = [*shlex.split(text), *extra]
    except ValueError as error:
        raise UnusableInputError(f"{text}: {error}") from error
    if not arguments:
        raise UnusableInputError("an empty command: expected 'PROGRAM flags…'")
    program = shutil.which(arguments[0])
    if program is None or not os.access(program, os.X_OK):
        raise UnusableInputError(f"{arguments[0]}: no such program")
    for argument in arguments[1:]:
        name = argument.partition("=")[0]
        if name in _OURS:
            raise UnusableInputError(f"{argument}: this flag is set by the comparison itself")
    # A link stays one: that to a Python is what makes an environment of it.
    return Command((str(Path(program).absolute()), *arguments[1:]))


_SPECIAL = frozenset(".^$*+?()[]{}|\\")


def sampling_flags(names: Sequence[str], max_time: float) -> tuple[str, ...]:
    """For a short process of these cases: as long a warm-up as sampling at most, where the default is for long ones."""
    return filter_of(names), f"--max_time={max_time:g}", f"--max_warmup_time={max_time:g}"


def filter_of(names: Sequence[str]) -> str:
    """--benchmark_filter (POSIX extended) that matches these cases alone."""
    escaped = ("".join("\\" + c if c in _SPECIAL else c for c in name) for name in names)
    return f"--benchmark_filter=^({'|'.join(escaped)}){case_name.MANUAL_TIME}$"


# The program's exit status after a failed case: its output is complete.
_CASE_FAILED = 1


@dataclass(frozen=True)
class Finished:
    result: Result | None  # None: the process ended without a result
    seconds: float
    how: str = ""  # it ended without a result


_LAST_LINES = 3  # of what a process said before it ended


def _ending(returncode: int, error: str) -> str:
    how = f"exit status {returncode}"
    if returncode < 0:
        known = -returncode in {one.value for one in signal.Signals}
        how = f"ended by {signal.Signals(-returncode).name if known else f'signal {-returncode}'}"
    said = [line.strip() for line in error.splitlines() if line.strip()][-_LAST_LINES:]
    return printable(f"{how}: {' / '.join(said) or 'no message'}", 500)


# Every process waits for its threads as usual, or as the user says, also one that starts on a busy machine: processes
# that wait differently do not compare.
_ALIKE = {"ROOFBENCH_WAIT_POLICY": "usual"}


def run(command: Command, out: Path) -> Finished:
    """`out` becomes the result file."""
    start = time.monotonic()
    with deferred() as release:
        process = subprocess.Popen(
            [*command.arguments, f"--benchmark_out={out}", "--benchmark_out_format=json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | _ALIKE,
        )
        try:
            release()
            _, error = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    seconds = time.monotonic() - start
    ending = _ending(process.returncode, error)
    if process.returncode not in (0, _CASE_FAILED):
        return Finished(None, seconds, ending)
    try:
        return Finished(load(out), seconds)
    except UnusableInputError as unusable:
        # A script that raises comes here, too: it ends with the status of a failed case, and writes nothing.
        return Finished(None, seconds, f"{ending} ({unusable})")


def run_all(
    command: Command, processes: int, folder: Path, say: Callable[[str], None], budget: float = math.inf
) -> list[Result]:
    """Fresh processes one after another, each result kept in `folder`. One that ends without a result is left out, as
    are those that would not end within `budget` seconds, but the first."""
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    spent = longest = 0.0
    for number in range(1, processes + 1):
        if spent + longest > budget:
            say(f"{number - 1} of {processes} processes: another does not fit --budget={units.clock(budget)}")
            break
        finished = run(command, folder / f"{number:02}.json")
        spent += finished.seconds
        longest = max(longest, finished.seconds)
        if finished.result is None:
            say(f"process {number}: {finished.how}")
            continue
        say(f"process {number} of {processes}: {units.clock(finished.seconds)}")
        results.append(finished.result)
    if not results:
        raise UnusableInputError("no process ended with a result")
    return results
