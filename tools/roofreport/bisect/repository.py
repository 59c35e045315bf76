# SPDX-License-Identifier: Apache-2.0
"""The commits between two, and a work tree to build them in."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.files import explained
from roofreport.text import printable

# The variable that names the folder for the built program.
PREFIX = "ROOFBENCH_PREFIX"
BUILD = (
    "cmake --preset release -D ROOFBENCH_TESTS=OFF && cmake --build --preset release"
    f' && cmake --install build/release --prefix "${PREFIX}"'
)
PROGRAM = "bin/roofbench"
PLAIN_LOG = ("--no-show-signature",)  # a setting of the user prints more than the format asks for


@dataclass(frozen=True)
class Commit:
    id: str  # 40 hexadecimal digits
    subject: str

    def text(self) -> str:
        return f"{self.id[:12]} {printable(self.subject, 100)}"


@dataclass(frozen=True)
class Recipe:
    build: str  # a shell's command, run in the work tree
    program: str  # path of the built program below the prefix


class Repository:
    """`folder`: where the work tree and its builds are kept."""

    def __init__(self, path: Path, folder: Path, recipe: Recipe) -> None:
        self._path = path
        self._folder = folder
        self._recipe = recipe
        self._tree = folder / "tree"

    def commit(self, name: str) -> Commit:
        found = self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", allow_failure=True
        )
        if not found:
            raise UnusableInputError(f"{printable(name, 60)}: no commit of {printable(str(self._path))}")
        return Commit(found, self._git("log", *PLAIN_LOG, "-1", "--format=%s", found))

    def between(self, good: Commit, bad: Commit) -> list[Commit]:
        """Oldest first: along the first parents from after `good` to `bad`."""
        is_before = self._git("merge-base", good.id, bad.id, allow_failure=True) == good.id
        # -z: a subject may be empty or contain what some call the end of a line, but no NUL.
        commits = self._git(
            "log", *PLAIN_LOG, "-z", "--reverse", "--first-parent", "--format=%H %s", f"{good.id}..{bad.id}"
        )
        if not is_before or not commits:
            raise UnusableInputError(f"{good.text()} does not come before {bad.text()}")
        parts = (commit.partition(" ") for commit in commits.split("\0") if commit)
        return [Commit(name, subject) for name, _, subject in parts]

    def program(self, commit: Commit) -> Path | None:
        """The program of a built commit; None if it was not built."""
        path = self._prefix(commit) / self._recipe.program
        return path if path.is_file() else None

    def build(self, commit: Commit) -> str:
        """Empty, or why it cannot be built."""
        if not self._tree.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._git("worktree", "prune")
            self._git("worktree", "add", "--detach", "--force", str(self._tree.resolve()), commit.id)
        # A build may have removed it; git would then check out in a repository around the folder.
        if not (self._tree / ".git").is_file():
            raise UnusableInputError(f"{printable(str(self._tree))}: is not a work tree of git (any more); remove it")
        _git(self._tree, "checkout", "--quiet", "--detach", "--force", commit.id)
        prefix, partial = self._prefix(commit), self._prefix(commit).with_suffix(".part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        environment = os.environ | {PREFIX: str(partial.resolve())}
        own = self._path.resolve() / ".venv"
        if own.is_dir():  # where LibTorch is found
            environment.setdefault("VIRTUAL_ENV", str(own))
        log = prefix.with_suffix(".log")
        with log.open("wb") as file:
            done = subprocess.run(
                self._recipe.build,
                shell=True,
                cwd=self._tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            shutil.rmtree(partial, ignore_errors=True)
            return f"its build ended with {done.returncode} ({log})"
        if not (partial / self._recipe.program).is_file():
            return f"its build left no {printable(self._recipe.program)} below ${PREFIX} ({log})"
        # Complete or absent: an interrupted build does not count.
        shutil.rmtree(prefix, ignore_errors=True)
        partial.rename(prefix)
        return ""

    def leave(self) -> None:
        """Removes the work tree but keeps the builds, so that a repetition need not build."""
        if self._tree.exists():
            self._git("worktree", "remove", "--force", str(self._tree.resolve()))

    def _prefix(self, commit: Commit) -> Path:
        return self._folder / "built" / commit.id[:12]

    def _git(self, *arguments: str, allow_failure: bool = False) -> str:
        return _git(self._path, *arguments, allow_failure=allow_failure)


def _git(folder: Path, *arguments: str, allow_failure: bool = False) -> str:
    with explained("git"):
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, errors="replace", check=False
        )
    if done.returncode:
        if allow_failure:
            return ""
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise UnusableInputError(f"git {arguments[0]}: {printable(lines[-1], 300)}")
    return done.stdout.strip()
