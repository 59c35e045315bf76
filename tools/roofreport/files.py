# SPDX-License-Identifier: Apache-2.0
"""Files that are written completely or not at all, in folders where other users may write too."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from roofreport.errors import UnusableInputError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


_MOST_LINKS = 40  # as in Linux


def followed(path: Path) -> Path:
    """The path without symbolic links, for a file that is written: a link of another user could lead to any file of
    this one, and fs.protected_symlinks is not set everywhere. Raises OSError.
    """
    left = list(reversed(path.absolute().parts))
    real = Path()
    links = 0
    while left:
        part = real / left.pop()
        try:
            status = part.lstat()
        except FileNotFoundError:
            status = None
        if status is None or not stat.S_ISLNK(status.st_mode):
            real = part
            continue
        if status.st_uid not in (os.geteuid(), 0):
            raise PermissionError(errno.EPERM, "is a symbolic link of another user; name the file itself", str(part))
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        left += reversed(part.readlink().parts)
    return real


def _opened_in_place(path: Path) -> BinaryIO:
    """A device, or a pipe, which is not opened without a reader: that would block forever. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OSError(errno.ENXIO, "is a pipe without a reader; start that first", str(path)) from error
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")


def _umask() -> int:
    mask = os.umask(0o077)  # there is no other way to ask
    os.umask(mask)
    return mask


def _kept_mode(old: os.stat_result) -> int | None:
    """That of a file which is replaced. Another user's decides nothing: ours would be open to all, or run as us."""
    return old.st_mode & 0o777 & ~_umask() if old.st_uid == os.geteuid() else None


def _created_next_to(path: Path, mode: int) -> tuple[Path, int]:
    """A new file whose name cannot be guessed: an existing file of that name is never opened."""
    while True:
        partial = path.with_name(f".{secrets.token_hex(8)}.part")
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return partial, os.open(partial, flags, mode)


@contextmanager
def replacing(path: Path, new_mode: int = 0o666) -> Iterator[BinaryIO]:
    """A new file next to `path`, which takes its place when the block ends well. It keeps the permissions of a file of
    ours within the umask; any other has `new_mode`.

    A link is written through: the file that it leads to is replaced. A path that is not a regular file, such as
    /dev/stdout, is written to directly. Raises OSError.
    """
    target = followed(path)
    try:
        old = path.stat()
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        # Not the target: the links of /proc, to which /dev/stdout leads, are not paths.
        with _opened_in_place(path) as file:
            yield file
        return
    partial, descriptor = _created_next_to(target, new_mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            kept = _kept_mode(old) if old is not None else None
            # Compare first: some file systems do not support fchmod.
            if kept is not None and kept != stat.S_IMODE(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, kept)
            yield file
        partial.replace(target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def copy(source: Path, path: Path, new_mode: int = 0o666) -> None:
    """The content alone: whoever installed `source` chose its permissions. Raises OSError."""
    with source.open("rb") as content, replacing(path, new_mode) as file:
        shutil.copyfileobj(content, file)


def write_text(path: Path, text: str) -> None:
    """Raises OSError."""
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def reason(error: OSError) -> str:
    """The reason, without the number and the file that Python puts around it."""
    return error.strerror or str(error)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raises UnusableInputError that says `what` could not be done, and why, for an OSError of the block."""
    try:
        yield
    except OSError as error:
        raise UnusableInputError(f"{what}: {reason(error)}") from error


def writing_to(path: Path) -> AbstractContextManager[None]:
    """explained(), for a block that writes `path`."""
    return explained(f"cannot write {path}")


def private_folder(path: Path) -> None:
    """Makes `path`, for its owner alone. Raises PermissionError if another user could put files there."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
        raise PermissionError(f"{path} belongs to another user, or others may write to it")
