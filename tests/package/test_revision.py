# SPDX-License-Identifier: Apache-2.0
"""The revision that a build reports: clean only where git tracks every source in its current state."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "cmake" / "write_version.cmake"


def _git(folder: Path, *arguments: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", folder, *name, *arguments], check=True, capture_output=True)


def _revision(folder: Path) -> str:
    git, cmake = shutil.which("git"), shutil.which("cmake")
    if git is None or cmake is None:
        pytest.skip("needs git and CMake")
    header = folder.parent / "version.h"
    settings = {"GIT": git, "SOURCE_DIR": folder, "OUTPUT": header, "VERSION": "1.2.3"}
    subprocess.run([cmake, *(f"-D{key}={value}" for key, value in settings.items()), "-P", SCRIPT], check=True)
    found = re.search('ROOFBENCH_GIT_REVISION "(.*)"', header.read_text())
    assert found is not None
    return found[1]


def test_a_source_that_git_does_not_know_makes_the_revision_dirty(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "lib").mkdir(parents=True)
    assert _revision(tree) == "unknown"
    (tree / "lib" / "one.cc").write_text("int one;\n")
    (tree / ".gitignore").write_text("*.o\n")
    _git(tree, "init")
    _git(tree, "add", ".")
    _git(tree, "commit", "-m", "one")
    clean = _revision(tree)
    assert re.fullmatch("[0-9a-f]{12}", clean)
    (tree / "notes.txt").write_text("no source\n")
    (tree / "lib" / "one.o").write_text("ignored\n")
    assert _revision(tree) == clean
    (tree / "lib" / "two.cc").write_text("int two;\n")
    assert _revision(tree) == f"{clean}-dirty"
    _git(tree, "add", ".")
    assert _revision(tree) == f"{clean}-dirty", "and not twice"
