# SPDX-License-Identifier: Apache-2.0
"""The CUDA part: built where a toolkit is, left out with a reason where it is not, and never in the program's way."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
MODULE = BUILD / "lib/libroofbench_cuda.so"

needs_module = pytest.mark.skipif(
    not MODULE.exists(), reason="this build has no CUDA part (no toolkit, or a CPU LibTorch)"
)


def test_the_program_needs_no_cuda_part() -> None:
    program = BUILD / "bin/roofbench"
    if not program.exists():
        pytest.skip("build/release/bin/roofbench is not built")
    said = subprocess.run(["readelf", "-d", str(program)], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"NEEDED.*\[(.+)\]", said)
    assert "libtorch_cpu.so" in needed
    assert [name for name in needed if "cuda" in name] == []


def version_of(header: str, name: str) -> str:
    found = re.search(rf"{name} = (\d+);", (ROOT / header).read_text())
    assert found, f"{header} has no {name}"
    return found[1]


@needs_module
def test_the_module_lacks_no_symbol_and_opens_without_a_driver() -> None:
    """In a process of its own: half a gigabyte of LibTorch's CUDA libraries comes with it."""
    said = subprocess.run(["ldd", "-r", str(MODULE)], check=True, capture_output=True, text=True).stdout
    assert "undefined symbol" not in said
    assert "not found" not in said
    assert len(set(re.findall(r"libcudart\S* => (\S+)", said))) == 1, "one CUDA runtime"
    # Both tables begin with the version of their interface.
    versions = {
        "roofbench_gpu_module": version_of("lib/device/gpu.h", "kGpuModuleVersion"),
        "roofbench_gpu_kernels": version_of("lib/kernels/cuda/gpu_kernels.h", "kGpuKernelsVersion"),
    }
    script = f"import ctypes; m = ctypes.CDLL({str(MODULE)!r})\n" + "\n".join(
        f"print(ctypes.c_int.in_dll(m, {symbol!r}).value)" for symbol in versions
    )
    done = subprocess.run(["python3", "-c", script], capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout.split() == list(versions.values()), done.stderr
    assert ctypes.sizeof(ctypes.c_int) == 4


@needs_module
def test_the_module_holds_code_for_each_gpu() -> None:
    if shutil.which("cuobjdump"):
        listed = subprocess.run(
            ["cuobjdump", "--list-elf", "--list-ptx", str(MODULE)], capture_output=True, text=True, check=True
        )
        assert {"sm_80", "sm_90"} <= set(re.findall(r"sm_\d+", listed.stdout))
        assert "ptx" in listed.stdout
        return
    # Without the tool: what the compiler was told.
    commands = (BUILD / "compile_commands.json").read_text()
    for wanted in ("code=[sm_80]", "code=[sm_90]", "code=[compute_90]"):
        assert wanted in commands


def configure(folder: Path, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "-DROOFBENCH_TESTS=OFF", *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **environment},
    )


def without_nvcc() -> str:
    return ":".join(part for part in os.environ["PATH"].split(":") if not Path(part, "nvcc").exists())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "compiler", "said"),
    [
        ([], "/bin/false", "CUDA: left out: no CUDA compiler found"),
        (["-DROOFBENCH_CUDA=OFF"], "", "CUDA: left out (ROOFBENCH_CUDA=OFF)"),
    ],
)
def test_without_a_toolkit_the_part_is_left_out(tmp_path: Path, flags: list[str], compiler: str, said: str) -> None:
    done = configure(tmp_path, *flags, PATH=without_nvcc(), CUDACXX=compiler)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    listed = subprocess.run(
        ["ninja", "-C", str(tmp_path), "-t", "targets", "all"], check=True, capture_output=True, text=True
    )
    assert "roofbench_cuda" not in listed.stdout
    assert "bin/roofbench:" in listed.stdout


@pytest.mark.slow
def test_a_part_that_is_asked_for_must_be_possible(tmp_path: Path) -> None:
    done = configure(tmp_path / "build", "-DROOFBENCH_CUDA=ON", "-DROOFBENCH_SANITIZE=address")
    assert done.returncode != 0
    assert "ROOFBENCH_CUDA=ON, but nvcc does not support -fsanitize=address" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_other_values_are_refused(tmp_path: Path) -> None:
    done = configure(tmp_path / "build", "-DROOFBENCH_CUDA=MAYBE")
    assert done.returncode != 0
    assert "expected AUTO, ON or OFF" in " ".join(done.stderr.split())
