# SPDX-License-Identifier: Apache-2.0
"""Reads a file that somebody else wrote: a regular one, of a size that can be a result, as UTF-8."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.text import printable

MEBIBYTE = 1 << 20
LARGEST_FILE = 256 * MEBIBYTE
LONGEST_LINE = 32 * MEBIBYTE

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def refuse(path: Path, why: str) -> UnusableInputError:
    return UnusableInputError(f"{printable(str(path))}: {why}")


def _has_long_line(data: bytes) -> bool:
    """A line above the limit holds a whole half of it without an end."""
    half = LONGEST_LINE // 2
    for start in range(0, len(data), half):
        if data.find(b"\n", start, start + half) < 0:
            end = data.find(b"\n", start)
            if (end if end >= 0 else len(data)) - data.rfind(b"\n", 0, start) - 1 > LONGEST_LINE:
                return True
    return False


def read_bytes(path: Path) -> bytes:
    """The file's content. Raises UnusableInputError that names the file and the reason."""
    try:
        # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise refuse(path, f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}, not a result file")
            if status.st_size > LARGEST_FILE:
                raise refuse(path, f"has {status.st_size / MEBIBYTE:.0f} MiB; no result file is above 256 MiB")
            return file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refuse(path, f"cannot be read: {reason}") from error


def read_text(path: Path) -> str:
    """As read_bytes, of text."""
    data = read_bytes(path)
    if not data.strip():
        raise refuse(path, "is empty")
    if b"\0" in data[:4096]:
        raise refuse(path, "is a binary file, not a result of roofbench")
    if _has_long_line(data):
        raise refuse(path, "has a line above 32 MiB, which no result has")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refuse(path, f"is not UTF-8 text (byte {error.start})") from error
