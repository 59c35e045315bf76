# SPDX-License-Identifier: Apache-2.0
"""What each step of tools/gpu_check makes of a program that fails, says nothing or says something wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gpu_check
import pytest

# Notes its arguments, and does as `answers` says for its name: writes a file where a flag asks for one, prints, ends.
STAND_IN = """#!{python}
import json, pathlib, sys
own = pathlib.Path(sys.argv[0])
answer = json.loads((own.parent / (own.name + ".json")).read_text())
with open(own.parent / (own.name + ".calls"), "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
for argument in sys.argv[1:]:
    for flag in ("--gtest_output=json:", "--benchmark_out="):
        if argument.startswith(flag) and "file" in answer:
            pathlib.Path(argument.removeprefix(flag)).write_text(json.dumps(answer["file"]))
print(answer.get("said", ""))
sys.exit(answer.get("status", 0))
"""


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        parts = folder / "parts"
        parts.mkdir()
        names = ("roofbench", "gpu_test", "sanitizer", "python")
        roofbench, gpu_test, sanitizer, python = (self.stand_in(name) for name in names)
        self.tools = gpu_check.Tools(roofbench, gpu_test, str(sanitizer), str(python), parts)

    def stand_in(self, name: str) -> Path:
        path = self.folder / name
        path.write_text(STAND_IN.format(python=sys.executable))
        path.chmod(0o755)
        self.answers(name)
        return path

    def answers(self, name: str, **answer: Any) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(answer))

    def calls(self, name: str) -> list[list[str]]:
        path = self.folder / f"{name}.calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def step(self, name: str) -> gpu_check.Step:
        return gpu_check.STEPS[name](self.tools)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(gpu_check, "SHARDS", 2)
    return Machine(tmp_path)


def report(*results: str, failures: Sequence[str] = ()) -> dict[str, Any]:
    listed: list[dict[str, Any]] = [{"name": "A", "result": result} for result in results]
    listed += [{"name": name, "result": "COMPLETED", "failures": [{"failure": "no"}]} for name in failures]
    return {"testsuites": [{"testsuite": listed}]}


def results(*cases: dict[str, Any]) -> dict[str, Any]:
    return {"context": {"device": "NVIDIA H200", "gpu_datasheet": "h200"}, "benchmarks": list(cases)}


def test_a_failed_test_fails_the_step(machine: Machine) -> None:
    machine.answers("gpu_test", file=report("COMPLETED", failures=["B"]), status=1)
    step = machine.step("gpu_tests")
    assert (step.status, step.reason) == ("failed", "exit status 1")
    assert step.figures["tests"] == {"completed": 2, "failed": 2}
    step = machine.step("gpu_tests")
    assert (step.status, step.reason) == ("failed", "2 test(s) failed"), "also where a call before has run it"


def test_tests_that_end_early_fail_the_step(machine: Machine) -> None:
    machine.answers("gpu_test", file=report("COMPLETED"), status=139)
    step = machine.step("gpu_tests")
    assert (step.status, step.reason) == ("failed", "exit status 139")
    (machine.tools.folder / "gpu_test-1.json").unlink()
    machine.answers("gpu_test")
    step = machine.step("gpu_tests")
    assert (step.status, step.reason) == ("failed", "it wrote no report")
    assert step.figures["tests"] == {"completed": 1}, "the others' are kept"


def test_a_sanitizer_fails_on_what_it_finds_in_our_kernels(machine: Machine) -> None:
    assert machine.step("racecheck").status == "passed"
    call = machine.calls("sanitizer")[0]
    assert call[call.index("--tool") + 1] == "racecheck"
    assert int(call[call.index("--error-exitcode") + 1]) > 0, "else it ends with that of the program"
    assert "--gtest_filter=KernelsTest*" in call, "LibTorch's own would take hours"
    machine.answers("sanitizer", status=9)
    assert machine.step("memcheck").status == "failed"


@pytest.mark.parametrize("name", ["quick", "kernels", "chosen", "training", "generation", "compiled"])
def test_a_suite_fails_without_results_or_with_a_failed_case(machine: Machine, name: str) -> None:
    (machine.tools.folder / f"{name}.json").write_text(json.dumps(results()))
    step = machine.step(name)
    assert (step.status, step.reason) == ("failed", "it wrote no results"), "those of another call are not its own"
    machine.answers("roofbench", file=results({"name": "a/b:c", "real_time": 1.0}), status=1)
    step = machine.step(name)
    assert (step.status, step.reason) == ("failed", "exit status 1")
    assert step.figures["results"]["context"]["device"] == "NVIDIA H200", "what was measured is kept"
    machine.answers("roofbench", file=results({"name": "a/b:c", "real_time": 1.0}))
    assert machine.step(name).status == "passed"
    flags = machine.calls("roofbench")[-1]
    assert "--device=cuda" in flags
    assert "--resume" in flags
    # Training runs LibTorch's operators alone.
    assert ("--unverified" in flags) == (name != "training")


def test_aggregates_are_no_cases(machine: Machine) -> None:
    cases = [
        {"name": "matmul/impl:eager/n:1", "real_time": 2.0, "launch_bound": 1},
        {"name": "matmul/impl:graph/n:1", "real_time": 1.0, "launch_bound": 0},
        {"name": "matmul/impl:graph/n:1_mean", "real_time": 9.0, "launch_bound": 1, "run_type": "aggregate"},
    ]
    machine.answers("roofbench", file=results(*cases))
    figures = machine.step("chosen").figures
    assert figures["launch_bound"] == ["matmul/impl:eager/n:1"]
    assert list(figures["graph_speedups"].values()) == [2.0]


@pytest.mark.parametrize(("ours", "unit"), [(0.010, "ms"), (10.1, "us")])
def test_a_product_as_fast_as_pytorchs_passes(machine: Machine, ours: float, unit: str) -> None:
    machine.answers("python", said="0.00001")
    machine.answers("roofbench", file=results({"name": "p", "real_time": ours, "time_unit": unit}))
    step = machine.step("product_against_torch")
    assert step.status == "passed", step.reason
    assert step.figures["ratio"] == pytest.approx(1, abs=0.011)


@pytest.mark.parametrize("ours", [0.0096, 0.0125])
def test_a_product_of_another_time_fails(machine: Machine, ours: float) -> None:
    machine.answers("python", said="0.00001")
    machine.answers("roofbench", file=results({"name": "p", "real_time": ours}))
    step = machine.step("product_against_torch")
    assert step.status == "failed"
    assert f"{ours / 0.01:.3f} of PyTorch's" in step.reason
    assert len(step.figures["ours_s"]) == len(step.figures["torch_s"]) == 2


def test_pytorch_that_fails_in_the_middle_fails_the_step(machine: Machine) -> None:
    broken = '#!/bin/sh\ncase "$3" in *statistics*) echo out of memory; exit 1;; esac\n'
    Path(machine.tools.python).write_text(broken)
    step = machine.step("product_against_torch")
    assert (step.status, step.reason) == ("failed", "exit status 1")
    assert "out of memory" in step.output


def test_a_program_that_never_ends_has_failed() -> None:
    done = gpu_check.run(["sleep", "600"], 0.05)
    assert done.returncode == 124
    assert "no end within" in done.stdout
