# SPDX-License-Identifier: Apache-2.0
"""What was committed between two nights, by the repository that the program was built from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.site.data.script import words
from roofreport.text import printable

_MOST = 5000
_SECONDS = 60


def log(repository: Path) -> list[list[str]]:
    """[revision, first line of the message], newest first, along the first parents. Raises UnusableInputError."""
    command = ["git", "-C", str(repository), "log", "--first-parent", f"--max-count={_MOST}", "--format=%H%x00%s", "-z"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnusableInputError(f"--repository={printable(str(repository))}: {error}") from error
    if done.returncode:
        raise UnusableInputError(f"--repository={printable(str(repository))}: git finds no commits in it")
    parts = done.stdout.decode("utf-8", "replace").rstrip("\0").split("\0")
    return [[revision, words(subject, 120)] for revision, subject in zip(parts[::2], parts[1::2], strict=False)]
