# SPDX-License-Identifier: Apache-2.0
"""Errors of a command: one line that begins with its name, and an exit status."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.files import reason
from roofreport.project_folder import missing_package
from roofreport.terminal import say
from roofreport.text import printable

UNUSABLE = 2
_LONGEST_REASON = 4000


def ended(program: str, work: Callable[[], int], unusable: int = UNUSABLE) -> int:
    """The exit status of `work`, or of the error that ended it: `unusable` for unusable input."""
    try:
        if _is_folder_deleted():
            raise UnusableInputError("the working folder has been deleted: change to one that exists (cd)")
        status = work()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except UnusableInputError as error:
        _refuse(program, str(error))
        return unusable
    except ModuleNotFoundError as error:  # what a verb alone needs is imported when it runs
        if (error.name or "").startswith(("roofreport", "nightly_runs")):
            raise
        _refuse(program, missing_package(error))
        return unusable
    except BrokenPipeError:
        # The reader (head, a pager) has had enough.
        _drop_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        # Unexpected errors, and a full standard output.
        _drop_output()
        _refuse(program, f"{error.filename or 'standard output'}: {reason(error)}")
        return unusable
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _is_folder_deleted() -> bool:
    """Relative paths have no meaning then, and libraries end the process."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _refuse(program: str, why: str) -> None:
    say(f"{program}: {printable(why, _LONGEST_REASON)}")


def _drop_output() -> None:
    """Python would complain when it flushes at its end."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
