# SPDX-License-Identifier: Apache-2.0
"""The command that measures cases of a run again: for the gate's second runs, and for readers of a page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from roofreport.compare.command import filter_of
from roofreport.errors import UnusableInputError
from roofreport.history.records import MAKING_CASES, Run

# Flags that decide where a case runs and what it computes, besides those without which it does not exist. Others decide
# what is chosen, how it is sampled, and what is written.
_DECIDING = (
    *("device", "threads", "oversubscribe", "max_step_time", "slow_precisions", "allocator", "seed", "warmup_iters"),
    *("coordinate_descent_tuning", "inject_delay", "routing", "prompt_ids", "text_ids", "stop_ids", "length_penalty"),
    *("early_stopping", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "sampling_seed"),
)
REPEATED = frozenset((*MAKING_CASES, *_DECIDING))
_BUILT = "build/release/bin/roofbench"
_PYTHON = ["-m", "roofbench", "run"]  # after the interpreter, and before the file that declares the families
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_CUT = "…"  # the end of a command line that was too long for a record


def _words(run: Run) -> list[str]:
    line = run.context.get("command_line", "")
    if line.endswith(_CUT):
        raise UnusableInputError(f"{run.name} has only the beginning of its command line; give --flag for the rest")
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UnusableInputError(f"{run.name} has an unusable command line: {error}") from error


def _is_python(words: Sequence[str]) -> bool:
    return list(words[1:4]) == _PYTHON


def flags_of(run: Run, cases: Sequence[str], more: Sequence[str] = ()) -> tuple[str, ...]:
    """Flags that make the program of a run measure these of its cases, as it did then. `more`: in addition. Raises
    UnusableInputError.
    """
    words = _words(run)
    flags = [word for word in words if word.startswith("--") and word[2:].partition("=")[0] in REPEATED]
    threads = run.machine.facts.get("threads", "")
    if threads.isdecimal() and not _is_python(words) and not any(flag.startswith("--threads=") for flag in flags):
        flags.append(f"--threads={threads}")
    return (*flags, *more, filter_of(cases))


def shell_lines(run: Run, case: str) -> list[str]:
    """A command for each line of a shell in the program's folder; none where a record does not say enough for it."""
    try:
        words, flags = _words(run), flags_of(run, [case])
    except UnusableInputError:
        return []
    if not words:
        return []
    lines = [f"git checkout {run.revision}"] if _COMMIT.fullmatch(run.revision) else []
    if "program" not in run.context:
        return [*lines, "cmake --build --preset release", shlex.join([_BUILT, *flags])]
    program = words[: 2 + len(_PYTHON) if _is_python(words) else 1]
    return [*lines, shlex.join([*program, *flags])]
