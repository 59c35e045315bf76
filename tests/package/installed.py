# SPDX-License-Identifier: Apache-2.0
"""The installed tree, and an environment without traces of the build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from built_program import PROGRAM, ROOT

BUILD = ROOT / "build" / "release"


def runpath(program: Path) -> list[str]:
    """The folders in which the loader looks for the program's libraries, after LD_LIBRARY_PATH."""
    entries = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    (path,) = re.findall(r"\(RUNPATH\).*\[(.*)\]", entries)
    return str(path).split(":")


def libtorch() -> Path:
    """The LibTorch that the built program uses."""
    (folder,) = (Path(entry) for entry in runpath(PROGRAM) if (Path(entry) / "libtorch_cpu.so").exists())
    return folder.parent


def bare(folder: Path, **variables: str) -> dict[str, str]:
    """An environment as in an empty container: a path, and a home and a folder for temporary files under `folder`."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), **variables}


def install(prefix: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["cmake", "--install", BUILD, "--prefix", prefix, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def install_and_move(folder: Path) -> Path:
    """Installs into one place and moves the tree to another."""
    install(folder / "first")
    install(folder / "first", "--component", "tests")
    shutil.move(folder / "first", folder / "moved")
    return folder / "moved"
