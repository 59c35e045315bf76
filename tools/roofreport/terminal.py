# SPDX-License-Identifier: Apache-2.0
"""The only place that writes text to a terminal: control characters of a result, a name or a program are made inert."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

from roofreport.errors import UnusableInputError
from roofreport.text import escaped

_FEWEST_COLUMNS = 40


def columns() -> int:
    """The width of the terminal, or what $COLUMNS says; files and pipes have no limit."""
    return max(_FEWEST_COLUMNS, shutil.get_terminal_size((0, 0)).columns or sys.maxsize)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # it was closed before the program began
        raise UnusableInputError("standard output is closed")
    encoding = stream.encoding or "utf-8"
    stream.write(escaped(text).encode(encoding, "backslashreplace").decode(encoding))


def show(text: str, end: str = "\n") -> None:
    """The requested output, to standard output."""
    _write(sys.stdout, text + end)


def say(text: str) -> None:
    """Progress, notes and reasons, one line each, to standard error."""
    if sys.stderr is not None:
        _write(sys.stderr, text + "\n")
        sys.stderr.flush()
