# SPDX-License-Identifier: Apache-2.0
"""cmake/dependency.cmake: the pinned source of a missing package, and the message without a network."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from built_program import ROOT
from installed import bare, libtorch

URL = "https://github.com/roofbench-tests/toy.git"


def configure(source: Path, folder: Path, mirror: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Configures with github.com replaced by a folder; an empty home, so no package and no git setting is near."""
    redirected = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{mirror}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    return subprocess.run(
        ["cmake", "-G", "Ninja", "-S", source, "-B", folder / "build", *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=bare(folder, CMAKE_PREFIX_PATH=str(libtorch()), **redirected),
    )


def git(folder: Path, *command: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", "-C", folder, *identity, *command], capture_output=True, text=True, check=True).stdout


def commit(repository: Path, text: str) -> str:
    (repository / "CMakeLists.txt").write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-m", text.splitlines()[-1])
    return git(repository, "rev-parse", "HEAD").strip()


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A repository where https://github.com/roofbench-tests/toy.git is looked for."""
    repository = tmp_path / "mirror" / "roofbench-tests" / "toy.git"
    repository.mkdir(parents=True)
    git(repository, "init")
    return repository


def project(tmp_path: Path, tag: str) -> Path:
    source = tmp_path / "project"
    source.mkdir(exist_ok=True)
    (source / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES NONE)
include("{ROOT}/cmake/dependency.cmake")
roofbench_dependency(toy PACKAGE Toy TARGET toy::toy REPOSITORY {URL} TAG {tag} DEBIAN libtoy-dev OFF TOY_LOUD)
get_target_property(release toy::toy TOY_RELEASE)
message(STATUS "release ${{release}}")
get_property(lines GLOBAL PROPERTY ROOFBENCH_DEPENDENCIES)
message(STATUS "users: ${{lines}}")
"""
    )
    return source


def release(number: int) -> str:
    return f"""option(TOY_LOUD "" ON)
if(TOY_LOUD)
  message(FATAL_ERROR "the option of the table was not set")
endif()
add_library(toy INTERFACE)
add_library(toy::toy ALIAS toy)
set_property(TARGET toy PROPERTY TOY_RELEASE {number})
"""


def test_the_pinned_commit_is_built_and_no_other(toy: Path, tmp_path: Path) -> None:
    pinned = commit(toy, release(1))
    commit(toy, release(2))
    done = configure(project(tmp_path, pinned), tmp_path, tmp_path / "mirror")
    assert done.returncode == 0, done.stderr
    assert f"toy: from source, {URL} at {pinned}" in done.stdout
    assert "release 1" in done.stdout
    # A user of the installed package gets the same commit.
    assert re.search(rf"users: set\(ROOFBENCH_FETCH toy\)\nroofbench_dependency\(toy .* TAG {pinned}", done.stdout)

    # Later runs work without a network; another pin moves it.
    away = configure(tmp_path / "project", tmp_path, tmp_path / "nowhere")
    assert away.returncode == 0, away.stderr
    moved = configure(project(tmp_path, commit(toy, release(3))), tmp_path, tmp_path / "mirror")
    assert moved.returncode == 0, moved.stderr
    assert "release 3" in moved.stdout


def test_another_tree_under_the_pinned_name_is_refused(toy: Path, tmp_path: Path) -> None:
    commit(toy, release(1))
    done = configure(project(tmp_path, "0123456789" * 4), tmp_path, tmp_path / "mirror")
    assert done.returncode != 0
    assert "toy could not be downloaded" in done.stderr


def test_a_given_folder_is_built_without_a_download(toy: Path, tmp_path: Path) -> None:
    (toy / "CMakeLists.txt").write_text(release(4))
    source = project(tmp_path, "0123456789" * 4)
    done = configure(source, tmp_path, tmp_path / "nowhere", f"-DFETCHCONTENT_SOURCE_DIR_TOY={toy}")
    assert done.returncode == 0, done.stderr
    assert "release 4" in done.stdout
    wrong = configure(source, tmp_path, tmp_path / "nowhere", f"-DFETCHCONTENT_SOURCE_DIR_TOY={tmp_path}")
    assert wrong.returncode != 0
    assert f"toy: {tmp_path} is not a source folder" in " ".join(wrong.stderr.split())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "debian"),
    [
        ("benchmark", "libbenchmark-dev"),
        ("absl", "libabsl-dev"),
        ("nlohmann_json", "nlohmann-json3-dev"),
        ("highway", "libhwy-dev"),
        ("googletest", "libgmock-dev"),
    ],
)
def test_a_failed_download_names_the_alternatives(tmp_path: Path, name: str, debian: str) -> None:
    done = configure(ROOT, tmp_path, tmp_path / "nowhere", f"-DROOFBENCH_FETCH={name}")
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert f"{name} could not be downloaded: https://github.com/" in said
    assert f"apt-get install {debian}" in said
    assert f"-D FETCHCONTENT_SOURCE_DIR_{name.upper()}=<folder>" in said
    # The last word is ours, and not FetchContent's.
    assert said.rindex("could not be downloaded") > said.rindex("failed")
