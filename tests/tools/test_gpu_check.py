# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check, with stand-ins for all programs that it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gpu_check
import pytest

ROOT = Path(__file__).resolve().parents[2]

# Logs its arguments and follows its .json file: writes a file where a flag requests one, prints, exits.
STAND_IN = """#!{python} -IS
import json, os, pathlib, sys
own = pathlib.Path(sys.argv[0])
answer = json.loads((own.parent / (own.name + ".json")).read_text())
with open(own.parent / (own.name + ".calls"), "a") as calls:
    calls.write(json.dumps([*sys.argv[1:], "shard " + os.environ.get("GTEST_SHARD_INDEX", "")]) + "\\n")
for argument in sys.argv[1:]:
    for flag in ("--gtest_output=json:", "--benchmark_out="):
        if argument.startswith(flag) and "file" in answer:
            pathlib.Path(argument.removeprefix(flag)).write_text(json.dumps(answer["file"]))
print(answer.get("output", ""))
sys.exit(answer.get("status", 0))
"""
CASES: list[dict[str, Any]] = [
    {"name": "matmul/impl:eager/dtype:bf16/n:256/manual_time", "real_time": 0.02, "launch_bound": 1},
    {"name": "matmul/impl:graph/dtype:bf16/n:256/manual_time", "real_time": 0.01, "launch_bound": 0},
    {"name": "matmul/impl:graph/n:1_mean", "real_time": 9.0, "launch_bound": 1, "run_type": "aggregate"},
    {"name": "gemv/impl:native/precision:int8/batch:2/n:8192", "real_time": 0.01, "mem_util": 0.75},
    {"name": "softmax/impl:native/dtype:fp32/rows:1/d:8", "real_time": 0.01, "mem_util": 0.1},
    {"name": "softmax/impl:native/dtype:fp32/rows:9/d:8", "real_time": 0.01, "mem_util": 0.5},
    {"name": "softmax/impl:native/dtype:bf16/rows:9/d:8", "mem_util": 0.9, "error_occurred": True},
]


def results(*cases: dict[str, Any]) -> dict[str, Any]:
    context = {"device": "NVIDIA H200", "gpu_datasheet": "h200", "roof_read": "2.4e12"}
    return {"context": context, "benchmarks": list(cases)}


def report(*outcomes: str, failures: Sequence[str] = ()) -> dict[str, Any]:
    tests: list[dict[str, Any]] = [{"name": "A", "result": outcome, "floor_us": "1.5"} for outcome in outcomes]
    tests += [{"name": name, "result": "COMPLETED", "failures": [{"failure": "no"}]} for name in failures]
    return {"testsuites": [{"testsuite": tests}]}


class Machine:
    """A GPU, all tools except PyTorch, and two shards of tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "deep" / "result.json"
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

    def check(self, *flags: str) -> int:
        """The exit status of the command."""
        tools = {name: self.folder / name for name in ("roofbench", "sanitizer", "python")}
        return gpu_check.main([*(f"--{name}={path}" for name, path in tools.items()), f"--out={self.out}", *flags])

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.read_text())
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(gpu_check, "SHARDS", 2)
    return Machine(tmp_path)


@pytest.fixture
def good_machine(machine: Machine) -> Machine:
    machine.answers("gpu_test", file=report("COMPLETED", "SKIPPED"))
    machine.answers("roofbench", file=results(*CASES))
    machine.answers("python", status=1)
    return machine


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "tools/gpu_check", *arguments], capture_output=True, text=True, check=False)


def test_without_a_gpu_it_is_refused(tmp_path: Path, program: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU here")
    out = tmp_path / "result.json"
    done = command(f"--roofbench={program}", f"--out={out}")
    assert done.returncode == 2
    assert "no GPU to check" in done.stderr
    assert "libcuda.so.1" in done.stderr
    assert not out.exists()


def test_a_missing_program_is_explained(tmp_path: Path) -> None:
    done = command(f"--prefix={tmp_path}")
    assert done.returncode == 2
    assert "--prefix" in done.stderr


def test_steps_are_named_by_help_and_by_a_refusal() -> None:
    done = command("--help")
    assert done.returncode == 0
    assert all(step in done.stdout.replace("\n", "").replace(" ", "") for step in gpu_check.STEPS)
    done = command("--only=quick,slow")
    assert done.returncode == 2
    assert "--only=slow: unknown step; there are gpu_tests, memcheck" in done.stderr


def test_one_file_has_every_step(good_machine: Machine) -> None:
    assert good_machine.check() == 0
    result = good_machine.result()
    assert result["device"] == "NVIDIA H200"
    assert result["failed"] == []
    steps = {step["name"]: step for step in result["steps"]}
    assert list(steps) == list(gpu_check.STEPS)
    assert steps["gpu_tests"]["figures"] == {"floor_us": 1.5, "tests": {"completed": 2, "skipped": 2}}
    assert [call[-1] for call in good_machine.calls("gpu_test")] == ["shard 0", "shard 1"]
    figures = steps["quick"]["figures"]
    assert figures["launch_bound"] == ["matmul/impl:eager/dtype:bf16/n:256/manual_time"], "aggregates do not count"
    assert list(figures["graph_speedups"].values()) == [2.0]
    assert steps["memcheck"]["status"] == "passed"
    kernels = {row["kernel"]: row for row in steps["kernels"]["figures"]["kernels"]}
    assert kernels["GemvRows<Int8Weights<uint4, 8>, 2>"]["measured"] == 0.75
    assert kernels["SoftmaxRows<float>"]["measured"] == 0.5, "the best of its cases"
    assert kernels["SoftmaxRows<bf16>"]["measured"] is None, "its case failed"
    assert kernels["ReadStream<true>"]["measured"] == 0.5
    assert kernels["ReadStream<true>"]["measured_by"] == "roof_read"
    assert all(0 < row["expected_not_measured"] < 1 for row in kernels.values())
    assert steps["product_against_torch"]["status"] == "skipped"


def test_the_next_call_continues_an_unfinished_one(good_machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert good_machine.check(f"--limit={gpu_check.GRACE}") == 3
    assert "continues" in capsys.readouterr().out
    assert good_machine.result()["unfinished"] == ["gpu_tests"]

    assert good_machine.check() == 0
    result = good_machine.result()
    assert [step["name"] for step in result["steps"]] == list(gpu_check.STEPS)
    assert result["unfinished"] == []

    def quick_runs() -> int:
        return sum("--suite=quick" in call for call in good_machine.calls("roofbench"))

    assert quick_runs() == 1
    assert good_machine.check() == 0
    assert quick_runs() == 1, "finished steps do not run again"
    assert good_machine.check("--only=quick") == 0
    assert quick_runs() == 2, "requested ones do"


def test_a_failed_step_does_not_stop_the_others(good_machine: Machine) -> None:
    good_machine.answers("gpu_test", file=report("SKIPPED"))
    good_machine.answers("sanitizer", status=9)
    assert good_machine.check("--only=gpu_tests,memcheck,quick") == 1
    result = good_machine.result()
    assert result["failed"] == ["gpu_tests", "memcheck"]
    assert result["steps"][0]["reason"] == "no test ran", "skipped tests check nothing"
    assert result["steps"][2]["status"] == "passed"


def test_other_files_are_not_overwritten(good_machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    good_machine.out.parent.mkdir()
    good_machine.out.write_text("{}")
    with pytest.raises(SystemExit) as ended:
        good_machine.check("--only=quick")
    assert ended.value.code == 2
    assert "--out" in capsys.readouterr().err
    assert good_machine.out.read_text() == "{}"


def test_the_result_file_follows_only_links_of_the_user(tmp_path: Path) -> None:
    victim, target, out = tmp_path / "victim", tmp_path / "target.json", tmp_path / "out.json"
    victim.write_text("precious")
    (tmp_path / "out.partial").symlink_to(victim)
    out.symlink_to(target)
    gpu_check.write(out, [])
    assert victim.read_text() == "precious"
    assert out.is_symlink()
    assert json.loads(target.read_text())["failed"] == []


def test_a_failed_test_fails_the_step(machine: Machine) -> None:
    machine.answers("gpu_test", file=report("COMPLETED", failures=["B"]), status=1)
    step = machine.step("gpu_tests")
    assert (step.status, step.reason) == ("failed", "exit status 1")
    assert step.figures["tests"] == {"completed": 2, "failed": 2}
    step = machine.step("gpu_tests")
    assert (step.status, step.reason) == ("failed", "2 test(s) failed"), "also if an earlier call ran it"


def test_tests_that_crash_fail_the_step(machine: Machine) -> None:
    machine.answers("gpu_test", file=report("COMPLETED"), status=139)
    step = machine.step("gpu_tests")
    assert (step.status, step.reason) == ("failed", "exit status 139")
    (machine.tools.folder / "gpu_test-1.json").unlink()
    machine.answers("gpu_test")
    step = machine.step("gpu_tests")
    assert (step.status, step.reason) == ("failed", "it wrote no report")
    assert step.figures["tests"] == {"completed": 1}, "the other shard is kept"


def test_a_sanitizer_checks_our_kernels_by_shards(machine: Machine) -> None:
    (machine.tools.folder / "racecheck-0.passed").touch()
    assert machine.step("racecheck").status == "passed"
    (call,) = machine.calls("sanitizer")
    assert call[-1] == "shard 1", "an earlier call has checked the first"
    assert call[call.index("--tool") + 1] == "racecheck"
    assert int(call[call.index("--error-exitcode") + 1]) > 0, "the default is the program's own"
    assert "--gtest_filter=KernelsTest*" in call, "LibTorch's kernels would take hours"
    machine.answers("sanitizer", status=9)
    assert machine.step("memcheck").status == "failed"


@pytest.mark.parametrize("name", ["quick", "kernels", "chosen", "training", "generation", "compiled"])
def test_a_suite_fails_without_results_or_with_a_failed_case(machine: Machine, name: str) -> None:
    (machine.tools.folder / f"{name}.json").write_text(json.dumps(results()))
    step = machine.step(name)
    assert (step.status, step.reason) == ("failed", "it wrote no results"), "those of an earlier call do not count"
    machine.answers("roofbench", file=results({"name": "a/b:c", "real_time": 1.0}), status=1)
    step = machine.step(name)
    assert (step.status, step.reason) == ("failed", "exit status 1")
    assert step.figures["results"]["context"]["device"] == "NVIDIA H200", "measured results are kept"
    machine.answers("roofbench", file=results({"name": "a/b:c", "real_time": 1.0}))
    assert machine.step(name).status == "passed"
    flags = machine.calls("roofbench")[-1]
    assert {"--device=cuda", "--resume"} <= set(flags)
    # Training runs LibTorch's operators only.
    assert ("--unverified" in flags) == (name != "training")


@pytest.mark.parametrize(
    ("ours", "unit", "status"),
    [(0.010, "ms", "passed"), (10.1, "us", "passed"), (0.0096, "ms", "failed"), (0.0125, "ms", "failed")],
)
def test_a_product_takes_pytorchs_time(machine: Machine, ours: float, unit: str, status: str) -> None:
    machine.answers("python", output="0.00001")
    machine.answers("roofbench", file=results({"name": "p", "real_time": ours, "time_unit": unit}))
    step = machine.step("product_against_torch")
    assert step.status == status, step.reason
    assert (f"{ours / 0.01:.3f} of PyTorch's" in step.reason) == (status == "failed")
    assert len(step.figures["ours_s"]) == len(step.figures["torch_s"]) == 2


def test_pytorch_that_fails_in_the_middle_fails_the_step(machine: Machine) -> None:
    broken = '#!/bin/sh\ncase "$3" in *statistics*) echo out of memory; exit 1;; esac\n'
    Path(machine.tools.python).write_text(broken)
    step = machine.step("product_against_torch")
    assert (step.status, step.reason) == ("failed", "exit status 1")
    assert "out of memory" in step.output


def test_a_program_that_hangs_has_failed() -> None:
    done = gpu_check.run(["sleep", "600"], 0.05)
    assert done.returncode == 124
    assert "timed out after" in done.stdout
