# SPDX-License-Identifier: Apache-2.0
"""cmake/FindLibTorch.cmake without LibTorch: the suggested remedy works on the reader's machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from built_program import ROOT
from installed import bare


@pytest.mark.parametrize("has_setup", [True, False])
def test_the_remedy_is_there(tmp_path: Path, has_setup: bool) -> None:
    source = tmp_path / "theirs"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.25)
project(theirs LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH "{ROOT / "cmake"}")
find_package(LibTorch 2.5 REQUIRED)
"""
    )
    if has_setup:
        (source / "tools").mkdir()
        (source / "tools" / "setup").touch()
    command: list[str | Path] = ["cmake", "-G", "Ninja", "-S", source, "-B", tmp_path / "build"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=bare(tmp_path))
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert "Could NOT find LibTorch" in said
    assert "CMAKE_PREFIX_PATH" in said
    assert ("tools/setup" in said) == has_setup
