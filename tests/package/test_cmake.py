# SPDX-License-Identifier: Apache-2.0
"""CMake's own scripts: a missing LibTorch is reported with the remedy, and the revision is that of the sources."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from built_program import ROOT
from installed import bare


def find_libtorch(source: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Configures a project in `source` that needs LibTorch, and then has these commands."""
    source.mkdir(exist_ok=True)
    (source / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.25)
project(theirs LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH "{ROOT / "cmake"}")
find_package(LibTorch 2.5 REQUIRED)
"""
        + "\n".join(more)
    )
    command: list[str | Path] = ["cmake", "-G", "Ninja", "-S", source, "-B", source.parent / "build"]
    environment = bare(source.parent)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)


@pytest.mark.parametrize("has_setup", [True, False])
def test_a_missing_libtorch_is_reported_with_its_remedy(tmp_path: Path, has_setup: bool) -> None:
    source = tmp_path / "theirs"
    source.mkdir()
    if has_setup:
        (source / "tools").mkdir()
        (source / "tools" / "setup").touch()
    done = find_libtorch(source)
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert "Could NOT find LibTorch" in said
    assert "CMAKE_PREFIX_PATH" in said
    assert ("tools/setup" in said) == has_setup


def test_a_linked_environment_stays_below_its_clone(tmp_path: Path) -> None:
    """CCACHE_BASEDIR makes paths below a clone relative; others differ between clones, and nothing is found again."""
    torch = tmp_path / "first" / ".venv" / "lib" / "python3.11" / "site-packages" / "torch"
    for path, text in {
        "lib/libtorch_cpu.so": "",
        "include/ATen/ATen.h": "",
        "include/torch/headeronly/version.h": "T_MAJOR 2\nT_MINOR 9\nT_PATCH 0",
    }.items():
        (torch / path).parent.mkdir(parents=True)
        (torch / path).write_text(text)
    second = tmp_path / "second"
    second.mkdir()
    (second / ".venv").symlink_to(tmp_path / "first" / ".venv")
    done = find_libtorch(
        second,
        "get_target_property(folders roofbench::torch INTERFACE_INCLUDE_DIRECTORIES)",
        "message(STATUS headers=${folders})",
    )
    assert done.returncode == 0, done.stderr
    (folders,) = re.findall("headers=(.*)", done.stdout)
    assert folders.count(f"{second}/.venv/") == 2, folders


def test_a_second_clone_compiles_from_the_cache_of_the_first(tmp_path: Path) -> None:
    if shutil.which("ccache") is None:
        pytest.skip("ccache is not installed")
    environment = bare(tmp_path, CCACHE_DIR=str(tmp_path / "cache"))

    def run(*command: str | Path) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600, env=environment).stdout

    hits = []
    for name, language in (("first", "C"), ("second", "C.UTF-8")):  # a shell's, and none under cron
        environment["LANG"] = language
        clone = tmp_path / name
        shutil.copytree(ROOT / "cmake", clone / "cmake")
        (clone / "lib").mkdir()
        (clone / "lib/a.h").write_text("inline int One() { return 1; }\n")
        (clone / "lib/a.cc").write_text('#include "lib/a.h"\nint Two() { return One() + One(); }\n')
        (clone / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(clone LANGUAGES CXX)\nset(ROOFBENCH_CCACHE ON)\n"
            "include(cmake/compiler.cmake)\n"
            "add_library(a STATIC lib/a.cc)\ntarget_include_directories(a PRIVATE ${CMAKE_SOURCE_DIR})\n"
        )
        run("cmake", "-G", "Ninja", "-S", clone, "-B", clone / "build")
        run("cmake", "--build", clone / "build")
        counters = dict(line.split("\t") for line in run("ccache", "--print-stats").splitlines())
        hits.append(int(counters["direct_cache_hit"]) + int(counters["preprocessed_cache_hit"]))
    assert hits == [0, 1]


def git(folder: Path, *arguments: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", folder, *name, *arguments], check=True, capture_output=True)


def revision(folder: Path) -> str:
    git_program, cmake = shutil.which("git"), shutil.which("cmake")
    if git_program is None or cmake is None:
        pytest.skip("needs git and CMake")
    header = folder.parent / "version.h"
    settings = {"GIT": git_program, "SOURCE_DIR": folder, "OUTPUT": header, "VERSION": "1.2.3"}
    script = ROOT / "cmake" / "write_version.cmake"
    subprocess.run([cmake, *(f"-D{key}={value}" for key, value in settings.items()), "-P", script], check=True)
    found = re.search('ROOFBENCH_GIT_REVISION "(.*)"', header.read_text())
    assert found is not None
    return found[1]


def test_an_untracked_source_makes_the_revision_dirty(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "lib").mkdir(parents=True)
    assert revision(tree) == "unknown"
    (tree / "lib" / "one.cc").write_text("int one;\n")
    (tree / ".gitignore").write_text("*.o\n")
    git(tree, "init")
    git(tree, "add", ".")
    git(tree, "commit", "-m", "one")
    clean = revision(tree)
    assert re.fullmatch("[0-9a-f]{12}", clean)
    (tree / "notes.txt").write_text("no source\n")
    (tree / "lib" / "one.o").write_text("ignored\n")
    assert revision(tree) == clean
    (tree / "lib" / "two.cc").write_text("int two;\n")
    assert revision(tree) == f"{clean}-dirty"
    git(tree, "add", ".")
    assert revision(tree) == f"{clean}-dirty", "and not twice"
