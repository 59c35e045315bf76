# SPDX-License-Identifier: Apache-2.0
"""The tree keeps its rules, and the checker detects violations."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from structure_rules import ARROWS, LARGEST_FILE_BYTES, PACKAGES, SOURCE_SUFFIXES, SPDX, reachable, violations

ROOT = Path(__file__).resolve().parents[2]


def test_the_tree_keeps_its_rules() -> None:
    assert violations(ROOT) == []


def test_every_folder_of_lib_has_its_arrows() -> None:
    assert {folder.name for folder in (ROOT / "lib").iterdir() if folder.is_dir()} <= set(ARROWS)


def test_suite_and_models_do_not_see_each_other() -> None:
    assert "models" not in reachable("cli")
    assert "suite" not in reachable("models")
    assert {"workload", "timing", "hardware", "observe", "models", "kernels"} <= reachable("benchmarks")


def test_google_benchmark_is_seen_by_gbench_alone() -> None:
    (library,) = [package for package in PACKAGES if package.name == "Google Benchmark"]
    assert library.seen_by == {"gbench"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "lib", root / "lib")
    contract = "tools/roofreport/contract.json"
    (root / contract).parent.mkdir(parents=True)
    shutil.copy(ROOT / contract, root / contract)
    return root


def added_violations(tree: Path, path: str, content: str, *, licensed: bool = True) -> list[str]:
    planted = tree / path
    planted.parent.mkdir(parents=True, exist_ok=True)
    comment = "//" if planted.suffix in SOURCE_SUFFIXES else "#"
    first, _, rest = content.partition("\n") if content.startswith("#!") else ("", "", content)
    lines = [first, f"{comment} {SPDX}" if licensed else "", rest]
    planted.write_text("\n".join(line for line in lines if line) + "\n")
    return violations(tree, [path])


# A file that breaks a rule, its content, and a part of the expected message.
PLANTED = [
    ("lib/workload/planted.cc", "#include <ATen/core/Tensor.h>", "workload includes the standard library alone"),
    ("lib/workload/planted.cc", "#include <unistd.h>", "workload includes the standard library alone"),
    ("lib/workload/planted.cc", '#include "lib/hardware/datasheet.h"', "workload never sees hardware"),
    ("lib/results/planted.cc", '#include "lib/suite/case.h"', "results never sees suite"),
    ("python/bindings/planted.cc", '#include "lib/suite/case.h"', "python never sees suite"),
    (
        "lib/models/decoding/planted.cc",
        '#include "lib/models/training/trainer.h"',
        "lib/models/decoding never sees lib/models/training",
    ),
    ("lib/timing/planted.cc", "#include <benchmark/benchmark.h>", "timing never sees Google Benchmark"),
    ("lib/hardware/planted.cc", "  #  include <torch/torch.h>", "hardware never sees LibTorch"),
    ("lib/run/planted.cc", "#include <cuda_runtime.h>", "see the CUDA runtime"),
    ("lib/run/planted.cc", "#include <c10/cuda/CUDAStream.h>", "see the CUDA runtime"),
    ("lib/run/planted.cc", '#include "case.h"', "relative to the repository root"),
    ("lib/run/planted.cc", '#include "tests/run/planted.h"', "never sees its tests"),
    ("tests/timing/planted_test.cc", '#include "lib/hardware/datasheet.h"', "timing never sees hardware"),
    ("tests/oracles/roof_loops.cc", '#include "lib/hardware/roofs/streams.h"', "shares no code with the product"),
    ("lib/timing/planted.h", "struct Planted {};", "#pragma once"),
    ("lib/suite/planted.cc", 'auto a = "gemv";', "'gemv' is one"),
    ("lib/run/planted.cc", 'auto a = "try matmul/impl:eager";', "'matmul' is one"),
    ("lib/gbench/planted.cc", 'auto a = "--axis=matmul.n=3";', "'matmul' is one"),
    ("lib/timing/planted.cc", "// As lib/timing/missing.h says.", "a comment names lib/timing/missing.h"),
    ("lib/timing/planted.cc", "/* Rules:\n   lib/timing/none_*.h. */", "names lib/timing/none_*.h,"),
    ("tools/planted.py", '"""Reads tools/missing/*.py."""', "names tools/missing/*.py,"),
    ("tools/planted.py", "X = 1  # as tests/missing", "names tests/missing,"),
    ("tools/planted", "#!/usr/bin/env bash", "has to be executable"),
    ("tests/golden/planted.bin", "x" * (LARGEST_FILE_BYTES + 1), "the largest file may have"),
]


@pytest.mark.parametrize(("path", "content", "message"), PLANTED)
def test_a_planted_violation_is_found(tree: Path, path: str, content: str, message: str) -> None:
    found = added_violations(tree, path, content)
    assert found
    assert all(line.startswith(f"{path}: ") for line in found)
    assert any(message in line for line in found)


@pytest.mark.parametrize("path", ["lib/timing/planted.cc", "tests/run/planted_test.cc", "tools/planted.py"])
def test_a_source_without_its_license_is_found(tree: Path, path: str) -> None:
    assert added_violations(tree, path, "PLANTED = 0;") == []
    (line,) = added_violations(tree, path.replace("planted", "planted2"), "PLANTED = 0;", licensed=False)
    assert "names the license" in line


def test_comments_name_what_exists(tree: Path) -> None:
    text = "// lib/timing/statistics.h, lib/timing/*.cc; lib/<layer>/x.h; https://x.org/lib/x.py, build/lib/x.h\n"
    assert added_violations(tree, "lib/timing/planted.cc", text + 'auto a = "lib/timing/missing.h";') == []
    text = '"""As lib/timing says."""\n\nPATHS = ["tools/missing"]\nX = (\n    "tools/missing"\n)'
    assert added_violations(tree, "tools/planted.py", text) == []


@pytest.mark.parametrize("path", ["lib/kernels/planted.cu", "lib/timing/planted_cuda.cc"])
def test_cuda_files_see_the_cuda_runtime(tree: Path, path: str) -> None:
    assert added_violations(tree, path, "#include <cuda_runtime.h>") == []


def test_packages_may_stand_in_quotes(tree: Path) -> None:
    assert added_violations(tree, "lib/run/planted.cc", '#include "absl/strings/str_cat.h"') == []
    assert added_violations(tree, "lib/timing/planted.cc", '#include "absl/strings/str_cat.h"')
    assert added_violations(tree, "tests/timing/planted_test.cc", '#include "gtest/gtest.h"') == []
    assert added_violations(tree, "lib/timing/planted2.cc", '#include "gtest/gtest.h"')
