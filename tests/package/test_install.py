# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` gives a tree that works wherever it is put."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from built_program import ROOT, TINY
from installed import BUILD, bare, install, libtorch, runpath

pytestmark = pytest.mark.slow

# Libraries that every machine has, or that come with LibTorch.
NOT_CARRIED = re.compile(r"linux-vdso|.*/ld-linux|lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s)\.so|lib(cudart|cupti)")
LARGEST_TREE_BYTES = 64 * 1024 * 1024  # borrowed machines accept only that much per command


def loaded(program: Path, **environment: str) -> dict[str, str]:
    """The libraries that the loader would load, and where it finds them."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, env=environment)
    found = (line.split() for line in done.stdout.splitlines())
    return {words[0]: words[2] if "=>" in words else words[0] for words in found}


def programs(prefix: Path) -> list[Path]:
    return [prefix / "bin" / "roofbench", *sorted((prefix / "libexec" / "roofbench").iterdir())]


def test_a_moved_program_runs(prefix: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [prefix / "bin" / "roofbench", *TINY],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=bare(tmp_path, LD_LIBRARY_PATH=str(libtorch() / "lib")),
    )
    assert done.returncode == 0, done.stderr
    assert "impl:eager/dtype:fp32/n:16" in done.stdout


def test_the_installed_tree_does_not_refer_to_the_build(prefix: Path) -> None:
    for program in programs(prefix):
        first, *others = runpath(program)
        assert first.startswith("$ORIGIN/")
        assert others == [str(libtorch() / "lib")]
    for file in (prefix / "lib" / "cmake").rglob("*.cmake"):
        assert str(ROOT) not in file.read_text(), file


def test_the_installed_tree_is_complete_and_small(prefix: Path) -> None:
    ours = (str(prefix.resolve()), str(libtorch()))
    for program in programs(prefix):
        for name, path in loaded(program).items():
            inside = str(Path(path).resolve().parent if "/" in path else path).startswith(ours)
            assert inside or NOT_CARRIED.match(name), f"{program.name} takes {name} from {path}"
    # Headers and archives are for those who build with them. A link is not counted twice.
    files = (file for file in prefix.rglob("*") if file.suffix not in {".h", ".a"} and not file.is_symlink())
    assert sum(file.stat().st_size for file in files) < LARGEST_TREE_BYTES


def test_ld_library_path_overrides_libtorch(prefix: Path, tmp_path: Path) -> None:
    for library in (libtorch() / "lib").glob("lib*.so*"):
        (tmp_path / library.name).symlink_to(library)
    found = loaded(prefix / "bin" / "roofbench", LD_LIBRARY_PATH=str(tmp_path))
    assert found["libtorch_cpu.so"] == f"{tmp_path}/libtorch_cpu.so"
    assert Path(loaded(prefix / "bin" / "roofbench")["libtorch_cpu.so"]).parent == libtorch() / "lib"


def test_every_public_header_is_installed(prefix: Path) -> None:
    include = prefix / "include" / "roofbench"
    installed = {file.relative_to(include) for file in include.rglob("*") if file.is_file()}
    assert installed == {file.relative_to(ROOT) for file in (ROOT / "lib").rglob("*") if file.suffix in {".h", ".cuh"}}


def test_the_package_names_every_layer(prefix: Path) -> None:
    targets = (prefix / "lib" / "cmake" / "roofbench" / "roofbenchTargets.cmake").read_text()
    exported = set(re.findall(r"^add_library\(roofbench::(\w+) ", targets, re.MULTILINE))
    declared = set(
        re.findall(r"^roofbench_layer\(\s*(\w+)", (ROOT / "lib" / "CMakeLists.txt").read_text(), re.MULTILINE)
    )
    assert exported == declared
    # Consumers must not inherit our warnings, nor the dependencies of our tests.
    assert "-Wall" not in targets
    assert "GTest" not in (prefix / "lib" / "cmake" / "roofbench" / "roofbenchConfig.cmake").read_text()


def test_carried_tests_run(prefix: Path, tmp_path: Path) -> None:
    # A stand-in for a GPU is useless on a machine with one; formulas, cases, flags and results are the same everywhere.
    useless = {
        "emulated_test",
        "fake_cuda_test",
        "results_test",
        "workload_test",
        "cases_test",
        "cli_test",
        "gbench_test",
    }
    built = {program.name for program in (BUILD / "bin").glob("*_test")} - useless
    built = {name for name in built if not name.endswith("_slow_test")}
    assert {program.name for program in programs(prefix)} == {"roofbench", *built}
    golden = tmp_path / "tests" / "golden" / "case_names.txt"
    golden.parent.mkdir(parents=True)
    test = prefix / "libexec" / "roofbench" / "benchmarks_test"
    for text, status in (((ROOT / "tests/golden/case_names.txt").read_text(), 0), ("gelu\n", 1)):
        golden.write_text(text)
        environment = bare(tmp_path, ROOFBENCH_SOURCE_DIR=str(tmp_path))
        done = subprocess.run(
            [test, "--gtest_filter=Registry.NamesAreThoseOfTheGoldenList"],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert done.returncode == status, done.stdout
        assert "[ RUN      ]" in done.stdout


@pytest.mark.usefixtures("program")
def test_tests_are_installed_only_when_they_are_named(tmp_path: Path) -> None:
    install(tmp_path)
    assert (tmp_path / "bin" / "roofbench").exists()
    assert not (tmp_path / "libexec").exists()


@pytest.mark.usefixtures("program")
def test_a_machine_with_a_gpu_takes_few_files(tmp_path: Path) -> None:
    install(tmp_path / "tree", "--component", "gpu")
    tree = tmp_path / "tree"
    files = {file.relative_to(tree).as_posix() for file in tree.rglob("*") if file.is_file()}
    assert {"bin/roofbench", "bin/gpu_check", "libexec/roofbench/gpu_test"} <= files
    carried = {f"bin/gpu_checks/{file.name}" for file in (ROOT / "tools/gpu_checks").glob("*.py")}
    assert {file for file in files if file.startswith("bin/gpu_checks/")} == carried
    assert ("lib/libroofbench_cuda.so" in files) == (BUILD / "lib/libroofbench_cuda.so").exists()
    assert not any(file.endswith((".h", ".a", ".cmake")) for file in files)
    assert sum((tree / file).stat().st_size for file in files) < LARGEST_TREE_BYTES / 2
    environment = bare(tmp_path, LD_LIBRARY_PATH=str(libtorch() / "lib"), CUDA_VISIBLE_DEVICES="")
    check: list[str | Path] = [tree / "bin/gpu_check", f"--out={tmp_path / 'result.json'}"]
    done = subprocess.run(check, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no GPU to check" in done.stderr, "it runs, and finds its parts"
    (facts,) = json.loads((tmp_path / "result.json").read_text())["steps"]
    assert facts["figures"]["calls"][0]["commands"]["ldd_gpu_test"]["status"] == 0
