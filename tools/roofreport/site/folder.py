# SPDX-License-Identifier: Apache-2.0
"""The folder that a site goes into: the old one stays until the new one is whole."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.files import reason
from roofreport.text import printable

# Says of a folder that it may be replaced.
_MARK = ".roofbench-site"


def _refuse_foreign(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UnusableInputError(f"--out={printable(str(out))}: is no folder; name another one")
    if out.is_dir() and not (out / _MARK).exists() and any(out.iterdir()):
        raise UnusableInputError(f"--out={printable(str(out))}: holds other files than a site; name another folder")


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A new folder beside `out`, which takes its place when the block ends well. Raises UnusableInputError."""
    try:
        _refuse_foreign(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        suffix = secrets.token_hex(8)
        fresh, old = (out.parent / f".{suffix}.{kind}" for kind in ("part", "old"))
        fresh.mkdir()
        try:
            yield fresh
            (fresh / _MARK).write_text("a site of tools/report site, which replaces this folder\n", encoding="utf-8")
            if out.exists():
                out.rename(old)
            fresh.rename(out)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise UnusableInputError(f"cannot write {printable(str(out))}: {reason(error)}") from error
