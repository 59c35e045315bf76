# SPDX-License-Identifier: Apache-2.0
"""The libraries of the built program. The CUDA part is built if there is a toolkit, else left out with a reason, and
the program never requires it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
PROGRAM = BUILD / "bin/roofbench"
MODULE = BUILD / "lib/libroofbench_cuda.so"

needs_module = pytest.mark.skipif(
    not MODULE.exists(), reason="this build has no CUDA part (no toolkit, or a CPU LibTorch)"
)


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}).stdout


@pytest.mark.skipif(not PROGRAM.exists(), reason="build/release/bin/roofbench is not built")
def test_the_program_finds_its_libraries_and_needs_no_cuda_part() -> None:
    libraries = dict(re.findall(r"^\s*(\S+) => (.+?)(?: \(0x\w+\))?$", output_of("ldd", PROGRAM), re.MULTILINE))
    assert {name for name, path in libraries.items() if path == "not found"} == set(), "without an environment"
    runtimes = {path for name, path in libraries.items() if re.match(r"lib(gomp|omp|iomp)", name)}
    assert len(runtimes) == 1, "one OpenMP runtime"
    needed = re.findall(r"NEEDED.*\[(.+)\]", output_of("readelf", "-d", PROGRAM))
    assert "libtorch_cpu.so" in needed
    assert [name for name in needed if "cuda" in name] == []


def version_of(header: str, name: str) -> str:
    found = re.search(rf"{name} = (\d+);", (ROOT / header).read_text())
    assert found, f"{header} has no {name}"
    return found[1]


@needs_module
def test_the_module_has_all_symbols_and_loads_without_a_driver() -> None:
    """In another process: it loads half a gigabyte of LibTorch's CUDA libraries."""
    listed = output_of("ldd", "-r", MODULE)
    assert "undefined symbol" not in listed
    assert "not found" not in listed
    assert len(set(re.findall(r"libcudart\S* => (\S+)", listed))) == 1, "one CUDA runtime"
    # Both tables start with the version of their interface.
    versions = {
        "roofbench_gpu_module": version_of("lib/device/gpu.h", "kGpuModuleVersion"),
        "roofbench_gpu_kernels": version_of("lib/kernels/cuda/gpu_kernels.h", "kGpuKernelsVersion"),
    }
    script = f"import ctypes; m = ctypes.CDLL({str(MODULE)!r})\n" + "\n".join(
        f"print(ctypes.c_int.in_dll(m, {symbol!r}).value)" for symbol in versions
    )
    done = subprocess.run(["python3", "-c", script], capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout.split() == list(versions.values()), done.stderr


@needs_module
def test_the_module_has_code_for_each_gpu() -> None:
    if shutil.which("cuobjdump"):
        listed = output_of("cuobjdump", "--list-elf", "--list-ptx", MODULE)
        assert {"sm_80", "sm_90"} <= set(re.findall(r"sm_\d+", listed))
        assert "ptx" in listed
        return
    # Without the tool: the compiler's flags.
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


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("flags", "compiler", "message"),
    [
        ([], "/bin/false", "CUDA: left out: no CUDA compiler found"),
        (["-DROOFBENCH_CUDA=OFF"], "", "CUDA: left out (ROOFBENCH_CUDA=OFF)"),
    ],
)
def test_without_a_toolkit_the_part_is_left_out(tmp_path: Path, flags: list[str], compiler: str, message: str) -> None:
    done = configure(tmp_path, *flags, PATH=without_nvcc(), CUDACXX=compiler)
    assert done.returncode == 0, done.stderr
    assert message in done.stdout
    targets = output_of("ninja", "-C", tmp_path, "-t", "targets", "all")
    assert "roofbench_cuda" not in targets
    assert "bin/roofbench:" in targets


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["=ON", "-DROOFBENCH_SANITIZE=address"], "ROOFBENCH_CUDA=ON, but nvcc does not support -fsanitize=address"),
        (["=MAYBE"], "expected AUTO, ON or OFF"),
    ],
)
def test_impossible_requests_are_errors(tmp_path: Path, flags: list[str], message: str) -> None:
    done = configure(tmp_path / "build", f"-DROOFBENCH_CUDA{flags[0]}", *flags[1:])
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())
