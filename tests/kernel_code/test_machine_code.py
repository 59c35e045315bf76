# SPDX-License-Identifier: Apache-2.0
"""The machine code of every kernel keeps the rules, docs/gpus.md is up to date, and broken rules are found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_code import __main__ as kernel_table
from kernel_code import measured, rules, sass, table
from kernel_code.rules import Rule, violations
from kernel_code.sass import Kernel
from kernel_code.sources import kernels

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
LIBRARY = BUILD / "lib" / "libroofbench_cuda.so"
PAGE = ROOT / "docs" / "gpus.md"
BREAKERS = Path(__file__).with_name("rule_breakers.cu")
BROKEN = {
    "Good": None,
    "ScalarStores": r"0 stores of 16 bytes, not 1",
    "OneInFlight": r"1 loads of 16 bytes in flight, not 4",
    "ScalarLoads": r"0 loads of 16 bytes in flight, not 4",
    "LongDivision": r"it divides: CALL\.REL\.NOINC",
    "IntDivision": r"it divides: I2F\.(U32\.)?RP",
    "FloatDivision": r"it divides: (FCHK|CALL\.REL\.NOINC)",
    "Spilled": r"it spills: \d+ bytes of local memory",
    "Unbounded": r"it has no __launch_bounds__",
}
STREAM = Rule(loads=4, stores=1)
BREAKER_RULES: dict[str, Rule | None] = {
    **dict.fromkeys(BROKEN, STREAM),
    **dict.fromkeys(("LongDivision", "IntDivision", "FloatDivision", "Spilled")),
    "ScalarLoads": Rule(loads=4),
}


def read_kernels(binary: Path) -> list[Kernel]:
    try:
        return sass.read_kernels(binary)
    except sass.DumpError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def built() -> list[Kernel]:
    if not LIBRARY.exists():
        pytest.skip("this build has no CUDA part (no toolkit, or a CPU LibTorch)")
    return read_kernels(LIBRARY)


def test_every_kernel_keeps_the_rules(built: list[Kernel]) -> None:
    for arch in table.ARCHES:
        assert {kernel.function for kernel in built if kernel.arch == arch} == set(kernels(ROOT))
    assert all(kernel.instructions for kernel in built)
    assert [f"{kernel.name} ({kernel.arch}): {line}" for kernel in built for line in violations(kernel)] == []


def compiler() -> str:
    """Release of the CUDA compiler: "13.0"."""
    for file in BUILD.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        if found := re.search(r'CMAKE_CUDA_COMPILER_VERSION "(\d+\.\d+)', file.read_text()):
            return found[1]
    return "unknown"


def test_the_page_is_up_to_date(built: list[Kernel]) -> None:
    release = re.search(r"that of CUDA (\d+\.\d+)", PAGE.read_text())
    assert release
    if release[1] != compiler():
        pytest.skip(f"the table is of CUDA {release[1]}, this build of {compiler()}")
    assert "\n".join(table.lines(built)) in PAGE.read_text(), "run tools/kernel_table"
    data = table.expectations(built)
    assert (ROOT / "tools" / "kernel_code" / "gpu_expected.json").read_text() == table.as_json(data)
    # tools/gpu_check measures everything that moves data.
    assert all(name in measured.CASES or name.split("<")[0] in measured.ROOFS for name in data["shares"])


def test_the_command_writes_the_page_and_reports_violations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, data = tmp_path / "page.md", tmp_path / "data.json"
    page.write_text("<!-- generated: gpu-kernels -->\nold\n<!-- end of generated: gpu-kernels -->\n")
    kernels_read = [Kernel("Spin", arch, 10, 0, 0, 0, 1) for arch in table.ARCHES]
    monkeypatch.setattr(kernel_table, "read_kernels", lambda _: kernels_read)

    def command(*flags: str) -> tuple[int, str]:
        files = [f"--page={page}", f"--data={data}", f"--library={__file__}"]
        monkeypatch.setattr(sys, "argv", ["kernel_table", *files, *flags])
        return kernel_table.main(), capsys.readouterr().out

    stale = "".join(f"{name}: stale; tools/kernel_table updates it\n" for name in ("page.md", "data.json"))
    assert command("--check") == (1, stale)
    assert command() == (0, "page.md: written\ndata.json: written\n")
    assert "| `Spin` | 10 | 10 |" in page.read_text()
    assert json.loads(data.read_text()) == table.expectations(kernels_read)
    assert command("--check") == (0, "")
    kernels_read[1].most_threads = 0
    assert command() == (1, "Spin (sm_90): it has no __launch_bounds__\n")


@pytest.mark.parametrize("flag", ["--library=/nonexistent", "--page=/nonexistent"])
def test_missing_files_are_reported(flag: str) -> None:
    done = subprocess.run([ROOT / "tools" / "kernel_table", flag], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("tools/kernel_table: ")
    assert done.stderr.count("\n") == 1


def test_names_are_found_in_all_forms(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    file = tmp_path / "lib" / "any.cu"
    file.write_text(
        "__global__ void A(int) {}\n"
        "__global__ void __launch_bounds__(Least(2), 4)\n    B(int) {}\n"
        "template <int k>\n__global__ __launch_bounds__(8) void C() {}\n"
    )
    assert set(kernels(tmp_path)) == {"A", "B", "C"}
    file.write_text("__global__ strange A(int) {}\n")
    with pytest.raises(ValueError, match="cannot find the name"):
        kernels(tmp_path)


@pytest.fixture(scope="module")
def all_breakers(tmp_path_factory: pytest.TempPathFactory) -> list[Kernel]:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        pytest.skip(f"no nvcc to compile {BREAKERS.name}")
    binary = tmp_path_factory.mktemp("breakers") / "breakers.fatbin"
    codes = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in (80, 90)]
    subprocess.run([nvcc, "-O3", "-fatbin", *codes, "-o", binary, BREAKERS], check=True)
    return read_kernels(binary)


@pytest.fixture(params=table.ARCHES)
def breakers(
    all_breakers: list[Kernel], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Kernel]:
    monkeypatch.setattr(rules, "RULES", BREAKER_RULES.copy())
    return {kernel.name: kernel for kernel in all_breakers if kernel.arch == request.param}


def test_each_broken_rule_is_found(breakers: dict[str, Kernel]) -> None:
    assert set(breakers) == set(BROKEN)
    for name, pattern in BROKEN.items():
        found = list(violations(breakers[name]))
        if pattern is None:
            assert found == [], name
        else:
            assert re.fullmatch(pattern + r".*", found[0]), (name, found)


def test_further_violations_of_a_good_kernel_are_found(breakers: dict[str, Kernel]) -> None:
    good = breakers["Good"]
    crowded = replace(good, registers=65, most_threads=1024)
    assert list(violations(crowded)) == ["65 registers do not fit 1024 threads"]
    few = replace(good, registers=255)
    expected = {"sm_80": [], "sm_90": ["16384 bytes in flight on a multiprocessor, not 30720"]}
    assert list(violations(few)) == expected[few.arch]
    rules.RULES["Good"] = Rule(loads=4, past_l1=True)
    (found,) = violations(good)
    assert found.startswith("it reads or writes through L1: LDG.E.128.CONSTANT at 0x")
    rules.RULES["Good"] = Rule(loads=4, once=True)
    (found,) = violations(good)
    assert found == "0 loads in flight bypass L1, not 4: what is read once evicts what is read again"
    once = [replace(one, name=one.name.replace("LDG.E", "LDG.E.NA")) for one in good.instructions]
    assert list(violations(replace(good, instructions=once))) == []
    (load, *_) = [one for one in once if one.name.startswith("LDG")]
    (found,) = violations(replace(good, instructions=[*once, load]))
    assert found == "5 loads bypass L1, not 4: what is read again comes from L2 each time"


def test_a_kernel_without_a_rule_is_an_error() -> None:
    with pytest.raises(KeyError, match="Unknown"):
        rules.rule_of(Kernel("Unknown<float>", "sm_90", 32, 0, 0, 0))
