# SPDX-License-Identifier: Apache-2.0
"""The installed tree on a bare system with only C and C++ runtimes, LibTorch, and Python: in a separate root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from installed import libtorch

pytestmark = pytest.mark.nightly

# The loader, and the libraries of every system.
RUNTIME = re.compile(r"ld-linux.*|lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s)\.so.*")


def needed(program: Path) -> dict[str, Path]:
    """The libraries of a program, and where they lie."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {Path(path).name: Path(path) for path in re.findall(r"(/\S+) \(0x", listed)}


def place(root: Path, file: Path, folder: str) -> None:
    target = root / folder
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(file.resolve(), target / file.name)


def why_not() -> str:
    if os.geteuid() != 0:
        return "chroot needs the rights of root"
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip()


class BareMachine:
    def __init__(self, root: Path, prefix: Path) -> None:
        self.root = root
        python = Path(sys.executable).resolve()
        place(root, python, "usr/bin")
        self.python = f"/usr/bin/{python.name}"
        libraries = {name: path for name, path in needed(prefix / "bin/roofbench").items() if RUNTIME.fullmatch(name)}
        stdlib = Path(sysconfig.get_path("stdlib"))
        for module in (python, *stdlib.glob("lib-dynload/*.so")):
            libraries.update(needed(module))
        for name, path in libraries.items():
            place(root, path, "lib64" if name.startswith("ld-linux") else "lib/x86_64-linux-gnu")
        # LibTorch finds NVIDIA's packages next to its own folder.
        self.mounts = {
            prefix: "opt/roofbench",
            libtorch(): "opt/packages/torch",
            libtorch().parent / "nvidia": "opt/packages/nvidia",
            stdlib: f"usr/lib/{stdlib.name}",
        }

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """In a mount namespace, which takes the mounts with it."""
        lines = ["set -e", "mount --make-rprivate /"]
        for source, target in self.mounts.items():
            if not source.exists():
                continue
            (self.root / target).mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind -o ro '{source}' '{self.root / target}'")
        # The loader asks /proc where a program lies.
        for system in ("proc", "dev"):
            (self.root / system).mkdir(exist_ok=True)
            lines.append(f"mount --rbind /{system} '{self.root / system}'")
        lines.append(f"exec chroot '{self.root}' \"$@\"")
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", "\n".join(lines), "sh", *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env={"LD_LIBRARY_PATH": "/opt/packages/torch/lib", "PATH": os.environ["PATH"]},
        )


@pytest.fixture
def machine(prefix: Path, tmp_path: Path) -> BareMachine:
    if reason := why_not():
        pytest.skip(reason)
    return BareMachine(tmp_path / "root", prefix)


def test_an_installed_tree_needs_nothing_else(machine: BareMachine) -> None:
    done = machine.run("/opt/roofbench/bin/roofbench", "--list_axes")
    assert done.returncode == 0, done.stderr
    assert "matmul" in done.stdout
    done = machine.run("/opt/roofbench/libexec/roofbench/timing_test", "--gtest_brief=1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_gpu_check_ends_with_its_reason(machine: BareMachine) -> None:
    done = machine.run(machine.python, "/opt/roofbench/bin/isolated.py", "gpu_checks", "--out=/result.json")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "libcuda.so.1" in done.stderr
