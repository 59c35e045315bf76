# SPDX-License-Identifier: Apache-2.0
"""A repository of a small program, one commit of which makes it slower and one of which does not build."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CASE = "hash/bytes:1000000"
# In place of cmake: builds a script that starts its program with the commit's own work.
_CMAKE = """#!/bin/sh
case $1 in
  --preset) test ! -e broken ;;
  --build) mkdir -p build/release/bin && cp work build/release/bin && cp program build/release/bin/roofbench ;;
  --install) mkdir -p "$4" && cp -r "$2/bin" "$4" ;;
esac
"""


@dataclass(frozen=True)
class Scratch:
    path: Path
    commits: list[str]  # oldest first, on the branch main; the one before them has the tag "v1.2"
    planted: str


def git(path: Path, *arguments: str, given: str | None = None) -> str:
    """Its output. `given`: its standard input."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, "-C", str(path), *arguments]
    return subprocess.run(command, input=given, check=True, capture_output=True, text=True).stdout.strip()


def cmake(folder: Path) -> None:
    """Puts a stand-in for cmake into `folder`."""
    folder.mkdir()
    (folder / "cmake").write_text(_CMAKE)
    (folder / "cmake").chmod(0o755)


def make(path: Path, count: int, plant: int, broken: int | None, starter: str, slow: str = "1.1") -> Scratch:
    """`count` commits after the good one; from number `plant` on, the file work contains `slow` in place of 1."""
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main")
    (path / "program").write_text(starter)
    (path / "program").chmod(0o755)
    (path / "work").write_text("1\n")
    git(path, "add", ".")
    git(path, "commit", "--quiet", "-m", "Begin")
    git(path, "tag", "v1.2")
    commits = []
    for number in range(count):
        (path / "notes").write_text(f"{number}\n")
        if number == plant:
            (path / "work").write_text(f"{slow}\n")
        if broken is not None and number == broken:
            (path / "broken").touch()
        elif (path / "broken").exists():
            (path / "broken").unlink()
        git(path, "add", "--all")
        git(path, "commit", "--quiet", "-m", f"Change {number}")
        commits.append(git(path, "rev-parse", "HEAD"))
    return Scratch(path, commits, commits[plant])


def untimed_starter(runs: Path) -> str:
    """A program that answers in no time, from a counter of its runs."""
    fake = f"{sys.executable} -S {HERE / 'fake_roofbench.py'} --times={CASE}:10 --seed={runs} --noise=0.01"
    return (
        '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\n'
        f'PYTHONPATH={HERE} exec {fake} "--factor=$(cat "$here/work")" "$@"\n'
    )
