# SPDX-License-Identifier: Apache-2.0
"""The machine code of every kernel keeps the rules, and docs/gpus.md says what it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_code import __main__ as kernel_table
from kernel_code import measured, sass, table
from kernel_code.rules import violations
from kernel_code.sass import Kernel
from kernel_code.sources import kernels

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
LIBRARY = BUILD / "lib" / "libroofbench_cuda.so"
PAGE = ROOT / "docs" / "gpus.md"


@pytest.fixture(scope="module")
def built() -> list[Kernel]:
    if not LIBRARY.exists():
        pytest.skip("this build has no CUDA part (no toolkit, or a CPU LibTorch)")
    try:
        return sass.read_kernels(LIBRARY)
    except sass.DumpError as error:
        pytest.skip(str(error))


def test_every_kernel_of_the_sources_is_looked_at(built: list[Kernel]) -> None:
    for arch in ("sm_80", "sm_90"):
        assert {kernel.function for kernel in built if kernel.arch == arch} == set(kernels(ROOT))
    assert all(kernel.instructions for kernel in built)


def test_every_kernel_keeps_the_rules(built: list[Kernel]) -> None:
    assert [f"{kernel.name} ({kernel.arch}): {line}" for kernel in built for line in violations(kernel)] == []


def compiler() -> str:
    """Release of the CUDA compiler: "13.0"."""
    for file in BUILD.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        if found := re.search(r'CMAKE_CUDA_COMPILER_VERSION "(\d+\.\d+)', file.read_text()):
            return found[1]
    return "unknown"


def test_the_page_says_what_the_kernels_are(built: list[Kernel]) -> None:
    said = re.search(r"that of CUDA (\d+\.\d+)", PAGE.read_text())
    assert said
    if said[1] != compiler():
        pytest.skip(f"the table is of CUDA {said[1]}, this build of {compiler()}")
    assert "\n".join(table.lines(built)) in PAGE.read_text(), "tools/kernel_table writes it anew"
    data = json.loads((ROOT / "tools" / "kernel_code" / "gpu_expected.json").read_text())
    assert data == table.expectations(built), "tools/kernel_table writes it anew"
    # Everything that moves data is held against a measurement.
    assert all(name in measured.CASES or name.split("<")[0] in measured.ROOFS for name in data["shares"])


def test_the_command_writes_the_page_and_names_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- generated: gpu-kernels -->\nold\n<!-- end of generated: gpu-kernels -->\n")
    kernels_read = [Kernel("Spin", arch, 10, 0, 0, 0, 1) for arch in table.ARCHES]
    monkeypatch.setattr(kernel_table, "read_kernels", lambda _: kernels_read)

    def command(*flags: str) -> tuple[int, str]:
        files = [f"--page={page}", f"--data={tmp_path / 'data.json'}", f"--library={__file__}"]
        monkeypatch.setattr(sys, "argv", ["kernel_table", *files, *flags])
        return kernel_table.main(), capsys.readouterr().out

    stale = "".join(f"{name}: stale; tools/kernel_table writes it anew\n" for name in ("page.md", "data.json"))
    assert command("--check") == (1, stale)
    assert command() == (0, "page.md: written\ndata.json: written\n")
    assert "| `Spin` | 10 | 10 |" in page.read_text()
    assert command("--check") == (0, "")
    kernels_read[1].most_threads = 0
    assert command() == (1, "Spin (sm_90): it has no __launch_bounds__\n")


@pytest.mark.parametrize("flag", ["--library=/nonexistent", "--page=/nonexistent"])
def test_what_cannot_be_read_is_said(flag: str) -> None:
    done = subprocess.run([ROOT / "tools" / "kernel_table", flag], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("tools/kernel_table: ")
    assert done.stderr.count("\n") == 1


def test_a_name_in_any_form_is_found(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    file = tmp_path / "lib" / "any.cu"
    file.write_text(
        "__global__ void A(int) {}\n"
        "__global__ void __launch_bounds__(Least(2), 4)\n    B(int) {}\n"
        "template <int k>\n__global__ __launch_bounds__(8) void C() {}\n"
    )
    assert set(kernels(tmp_path)) == {"A", "B", "C"}
    file.write_text("__global__ strange A(int) {}\n")
    with pytest.raises(ValueError, match="whose name was not found"):
        kernels(tmp_path)
