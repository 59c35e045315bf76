# SPDX-License-Identifier: Apache-2.0
"""Files that are written completely or not at all, in folders where other users may write too."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file next to `path`, which takes its place, with its mode, when the block ends well.

    Its name cannot be guessed, and an existing file of that name is never opened. A link is written through: the file
    that it leads to is replaced. A path that is not a regular file, such as /dev/stdout, is written to directly. Raises
    OSError.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as file:
            yield file
        return
    partial = target.with_name(f".{secrets.token_hex(8)}.part")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, stat.S_IMODE(mode))
            yield file
        partial.replace(target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def write_text(path: Path, text: str) -> None:
    """Raises OSError."""
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def reason(error: OSError) -> str:
    """The reason, without the number and the file that Python puts around it."""
    return error.strerror or str(error)


def private_folder(path: Path) -> None:
    """Makes `path`, for its owner alone. Raises PermissionError if another user could put files there."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
        raise PermissionError(f"{path} belongs to another user, or others may write to it")
