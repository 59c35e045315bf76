# SPDX-License-Identifier: Apache-2.0
"""clang-tidy runs again on what changed, and on what failed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from checks import tidy

NINJA = """
rule cxx
  command = g++ -I{root} -MMD -MF $out.d -c $in -o $out
  deps = gcc
  depfile = $out.d
build a.o: cxx ../a.cc
build b.o: cxx ../b.cc
"""
# Says which file it read, and fails where it finds the word.
TIDY = """#!/bin/sh
[ "$1" = --version ] && exec cat {root}/version
echo "$4" >>{root}/calls
! grep -H fault "$4"
"""


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.build = root / "build"
        self.build.mkdir(parents=True)
        self.write(".clang-tidy", "Checks: google-*")
        self.write("version", "14")
        self.write("a.h", "int a();")
        self.write("a.cc", '#include "a.h"')
        self.write("b.cc", "int b();")
        self.write("tidy", TIDY.format(root=root)).chmod(0o755)
        self.write("build/build.ninja", NINJA.format(root=root))
        commands = [{"file": str(root / name), "command": f"g++ -c {root / name}"} for name in ("a.cc", "b.cc")]
        self.write("build/compile_commands.json", json.dumps(commands))

    def write(self, name: str, text: str) -> Path:
        (self.root / name).write_text(text + "\n")
        return self.root / name

    def check(self, passed: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, set[str]]:
        """The exit status, and the files that clang-tidy read."""
        monkeypatch.setattr(tidy, "ROOT", self.root)
        tidy.content.cache_clear()
        subprocess.run(["ninja", "-C", self.build], check=True, stdout=subprocess.DEVNULL)
        calls = self.write("calls", "")
        sources = [str(self.root / name) for name in ("a.cc", "b.cc")]
        status = tidy.main(str(self.root / "tidy"), self.build, passed, *sources)
        return status, {Path(line).name for line in calls.read_text().split()}


def test_only_what_changed_or_failed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, passed = Project(tmp_path / "one"), tmp_path / "passed"
    assert project.check(passed, monkeypatch) == (0, {"a.cc", "b.cc"})
    assert project.check(passed, monkeypatch) == (0, set())
    project.write("b.cc", "int b();  // fault")
    assert project.check(passed, monkeypatch) == (1, {"b.cc"})
    assert project.check(passed, monkeypatch) == (1, {"b.cc"})
    project.write("b.cc", "int b();")
    project.write("a.h", "int a();  // of another file")
    assert project.check(passed, monkeypatch) == (0, {"a.cc"})
    for name in (".clang-tidy", "version"):
        project.write(name, "other")
        assert project.check(passed, monkeypatch) == (0, {"a.cc", "b.cc"})


def test_a_clone_in_another_folder_knows_what_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = tmp_path / "passed"
    assert Project(tmp_path / "one").check(passed, monkeypatch) == (0, {"a.cc", "b.cc"})
    assert Project(tmp_path / "two").check(passed, monkeypatch) == (0, set())
