# SPDX-License-Identifier: Apache-2.0
"""The installed component `gpu` on a stand-in for CUDA's runtime, which is preloaded: all that a GPU does but the
results of kernels, which do nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from installed import BUILD, bare, install, libtorch

STAND_IN = BUILD / "tests/fake_cuda/libcuda.so.1"
# Wrong where a kernel of ours does nothing; one that needs a driver for cuBLAS; one without a result.
CASES = "^(softmax/impl:native/dtype:bf16/d:1024|matmul/impl:eager/dtype:bf16/n:256/|harness_overhead/)"
# Their operators leave zeros, of which the checks of these tests ask nothing.
TESTS = [
    "ClockTest.AnEmptyPairOfEventsHasAFloor",
    "ClockTest.LaunchesHaveFloors",
    "DeviceTest.HasFacts",
    "DeviceTest.PeakMemoryIsThatOfTheAllocator",
    "DeviceTest.TheAllocatorIsEmptiedAfterACase",
    "KernelsTest.SpinEnds",
]


@dataclass
class Tree:
    folder: Path
    environment: dict[str, str]

    def run(self, program: str, *flags: str) -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [self.folder / program, *flags]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.folder, env=self.environment, timeout=600
        )


@pytest.fixture(scope="module")
def tree(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    del program  # is built
    if not STAND_IN.exists():
        pytest.skip("this build has no CUDA part (no toolkit, or a CPU LibTorch)")
    folder = tmp_path_factory.mktemp("gpu")
    install(folder / "tree", "--component", "gpu")
    # The stand-in has the name of the driver's library.
    libraries = f"{STAND_IN.parent}:{libtorch()}/lib"
    return Tree(
        folder / "tree",
        bare(folder, LD_PRELOAD=str(STAND_IN), LD_LIBRARY_PATH=libraries, FAKE_CUDA_MIB="2048", FAKE_CUDA_DEVICES="1"),
    )


def test_cases_run_to_their_end(tree: Tree) -> None:
    results, journal = tree.folder / "results.json", tree.folder / "cases.jsonl"
    flags = [f"--benchmark_out={results}", f"--journal={journal}", "--benchmark_min_time=5x", "--unverified"]
    done = tree.run("bin/roofbench", "--device=cuda", "--suite=full", f"--benchmark_filter={CASES}", *flags)
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(results.read_text())
    context = found["context"]
    assert (context["device"], context["device_kind"], context["gpu_index"]) == ("Fake GPU 0", "cuda", "0")
    assert context["memory_bytes"] == str(2048 << 20)
    faults = context["gpu_probe_fault"].split("; ")
    assert faults[0] == "the stream 'read' (plain) computes something else"
    assert faults[1].startswith("fp32 gemm 4096: Error in dlopen"), "every roof that is missing has its reason"
    rows = {row["name"].partition("/")[0]: row for row in found["benchmarks"]}
    assert rows["harness_overhead"]["samples"] >= 5
    assert "wrong result" in rows["softmax"]["error_message"]
    assert "libcuda.so.1: undefined symbol: cu" in rows["matmul"]["error_message"], "up to cuBLAS"
    ended = [json.loads(line) for line in journal.read_text().splitlines()]
    assert {line["name"] for line in ended if "name" in line} == {row["name"] for row in found["benchmarks"]}


def test_tests_of_the_device_run(tree: Tree) -> None:
    done = tree.run("libexec/roofbench/gpu_test", f"--gtest_filter={':'.join(TESTS)}")
    assert done.returncode == 0, done.stdout
    for test in TESTS:
        assert f"[       OK ] {test}" in done.stdout


STEPS = ("facts", "kernels_test", "clock_test", "device_test")


@pytest.mark.parametrize(
    ("step", "tests"),
    [
        ("kernels_test", 1),
        pytest.param("kernels_test", 3, marks=pytest.mark.slow),
        pytest.param("device_test", 2, marks=pytest.mark.slow),
    ],
)
def test_a_check_that_is_killed_continues(tree: Tree, tmp_path: Path, step: str, tests: int) -> None:
    out = tmp_path / "check.json"
    flags = [f"--only={','.join(STEPS)}", f"--out={out}", "--python=/bin/false"]
    with subprocess.Popen(
        [tree.folder / "bin/gpu_check", *flags], env=tree.environment, cwd=tmp_path, start_new_session=True
    ) as check:
        while len(seen := results_of(out, step)) < tests:
            assert check.poll() is None, "it ended before"
            time.sleep(0.01)
        os.killpg(check.pid, signal.SIGKILL)
    left = results_of(out, step)
    assert seen.items() <= left.items()
    shutil.rmtree(out.with_suffix(".parts"), ignore_errors=True)  # the next machine has the one file

    steps = {one["name"]: one for one in json.loads(out.read_text())["steps"]}
    assert [name for name, one in steps.items() if one["status"] == "unfinished"] == [step]
    done = tree.run("bin/gpu_check", f"--only={step}", f"--out={out}", "--python=/bin/false")
    assert done.returncode == 1, "kernels do nothing"
    continued = {one["name"]: one for one in json.loads(out.read_text())["steps"]}
    assert left.items() <= results_of(out, step).items(), "nothing is lost"
    assert continued.pop(step)["status"] in ("passed", "failed")
    assert continued == {name: one for name, one in steps.items() if name != step}


def results_of(out: Path, step: str) -> dict[str, Any]:
    """The tests of a step that the file has."""
    if not out.exists():
        return {}
    steps = {one["name"]: one for one in json.loads(out.read_text())["steps"]}
    found: dict[str, Any] = steps.get(step, {}).get("figures", {}).get("tests", {})
    return found
