# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check, with stand-ins for all programs that it runs."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gpu_check
import pytest

ROOT = Path(__file__).resolve().parents[2]

# Logs its arguments and follows its .json file: writes a file where a flag requests one, prints, exits. As roofbench it
# adds the cases of `journal` to the journal, and as all programs it ends the check when the machine is taken away.
STAND_IN = """#!{python} -IS
import json, os, pathlib, signal, sys, time
own = pathlib.Path(sys.argv[0])
answer = json.loads((own.parent / (own.name + ".json")).read_text())
shard = os.environ.get("GTEST_SHARD_INDEX", "")
uncached = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING", "")
with open(own.parent / (own.name + ".calls"), "a") as calls:
    calls.write(json.dumps([*sys.argv[1:], "uncached " + uncached, "shard " + shard]) + "\\n")

def work(kind):
    with open(own.parent / "work", "a") as done:
        done.write(kind + "\\n")
    if len((own.parent / "work").read_text().splitlines()) == answer.get("taken_away_after"):
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit()

def flag(name):
    return next((pathlib.Path(a.removeprefix(name)) for a in sys.argv[1:] if a.startswith(name)), None)

journal = flag("--journal=")
if journal and "journal" in answer:
    journal.touch()
    for case in answer["journal"]:
        if json.dumps(case) in journal.read_text().splitlines():
            continue
        with open(journal, "a") as lines:
            lines.write(json.dumps(case) + "\\n")
        if "name" in case:
            work(journal.stem)
        result = pathlib.Path(answer["result"])
        patience = 100_000
        while not any(s["name"] == journal.stem and case in s["figures"].get("journal", [])
                      for s in json.loads(result.read_text())["steps"]):
            patience -= 1
            time.sleep(0.001)
            if patience == 0:
                sys.exit("the case is not in the file")
elif answer.get("works") and "harness_overhead" not in str(sys.argv) and "assert" not in str(sys.argv):
    work(own.name)
for out in (flag("--gtest_output=json:"), flag("--benchmark_out=")):
    if out and "file" in answer:
        out.write_text(json.dumps(answer["file"]))
print(answer.get("output", ""))
sys.exit(answer.get("status", 0))
"""
CASES: list[dict[str, Any]] = [
    {"name": "matmul/impl:eager/dtype:bf16/n:256/manual_time", "real_time": 0.02, "launch_bound": 1},
    {"name": "matmul/impl:graph/dtype:bf16/n:256/manual_time", "real_time": 0.01, "launch_bound": 0},
    {"name": "matmul/impl:graph/n:1_mean", "real_time": 9.0, "launch_bound": 1, "run_type": "aggregate"},
    {"name": "gemv/impl:native/precision:int8/batch:2/n:8192", "real_time": 0.01, "mem_util": 0.75},
    {"name": "gemv/impl:native/precision:int8/n:8192", "real_time": 0.01, "mem_util": 0.6},
    {"name": "gemv/impl:native/precision:int8/n:32768", "real_time": 0.1, "mem_util": 0.85},
    {"name": "softmax/impl:native/dtype:fp32/rows:1/d:8", "real_time": 0.01, "mem_util": 0.1},
    {"name": "softmax/impl:native/dtype:fp32/rows:9/d:8", "real_time": 0.01, "mem_util": 0.5},
    {"name": "softmax/impl:native/dtype:fp32/rows:9/d:256", "real_time": 0.01, "mem_util": 0.25},
    {"name": "softmax/impl:native/dtype:bf16/rows:9/d:8", "mem_util": 0.9, "error_occurred": True},
    {"name": "all_reduce/impl:nccl/ranks:2", "real_time": 1.0, "busbw": 3e11},
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
        self.tools = gpu_check.Tools(roofbench, gpu_test, str(sanitizer), str(python), parts, save=lambda: None)

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
        step = gpu_check.Step(name)
        gpu_check.checked(gpu_check.STEPS[name], self.tools, step)
        return step

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
    assert "--only=slow: unknown step; there are quick, product_against_torch" in done.stderr


def test_one_file_has_every_step(good_machine: Machine) -> None:
    assert good_machine.check() == 0
    result = good_machine.result()
    assert result["device"] == "NVIDIA H200"
    assert result["failed"] == []
    steps = {step["name"]: step for step in result["steps"]}
    first = ["quick", "product_against_torch", "kernels", "gpu_tests", "collectives"]
    later = ["generation", "chosen", "training", "compiled", "memcheck", "racecheck"]
    assert list(steps) == [*first, *later], "the most valuable first"
    assert steps["collectives"]["figures"]["busbw"] == {"all_reduce/impl:nccl/ranks:2": 3e11}
    shard = {"completed": 1, "skipped": 1}
    assert steps["gpu_tests"]["figures"] == {"floor_us": 1.5, "shards": {"0": shard, "1": shard}}
    assert [call[-1] for call in good_machine.calls("gpu_test")] == ["shard 0", "shard 1"]
    figures = steps["quick"]["figures"]
    assert figures["launch_bound"] == ["matmul/impl:eager/dtype:bf16/n:256/manual_time"], "aggregates do not count"
    assert list(figures["graph_speedups"].values()) == [2.0]
    assert steps["memcheck"]["status"] == "passed"
    kernels = {row["kernel"]: row for row in steps["kernels"]["figures"]["kernels"]}
    assert kernels["GemvRows<Int8Weights<uint4, 8>, 2>"]["measured"] == 0.75
    assert kernels["GemvRows<Int8Weights<uint4, 8>, 1>"]["measured"] == 0.85, "the small one hardly outlasts a launch"
    assert kernels["SoftmaxRows<float, Block>"]["measured"] == 0.5, "the best of its cases"
    assert kernels["SoftmaxRows<float, Warp>"]["measured"] == 0.25, "that of short rows"
    assert kernels["SoftmaxRows<bf16, Block>"]["measured"] is None, "its case failed"
    assert kernels["ReadStream<true>"]["measured"] == 0.5
    assert kernels["ReadStream<true>"]["measured_by"] == "roof_read"
    copied = 4.3e12 / 4.8e12  # by an H200's own copy
    assert all(0 < row["expected_not_measured"] <= round(copied, 2) for row in kernels.values())
    assert steps["product_against_torch"]["status"] == "skipped"


def test_finished_steps_do_not_run_again(good_machine: Machine) -> None:
    def quick_runs() -> int:
        return sum("--suite=quick" in call for call in good_machine.calls("roofbench"))

    assert good_machine.check() == 0
    assert good_machine.check() == 0
    assert quick_runs() == 1
    assert good_machine.check("--only=quick") == 0
    assert quick_runs() == 2, "requested ones do"


def test_the_limit_counts_from_the_start_of_the_call(
    good_machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert good_machine.check(f"--limit={gpu_check.GRACE}") == 3
    assert "continues" in capsys.readouterr().out
    assert not good_machine.out.exists(), "the search for a GPU had no time"

    now = [1000.0]
    deadlines: list[float] = []

    def search(_roofbench: Path, deadline: float) -> str:
        now[0] += 90  # a driver that starts
        deadlines.append(deadline)
        return ""

    monkeypatch.setattr(gpu_check, "STEPS", {"quick": lambda tools, _step: deadlines.append(tools.deadline)})
    monkeypatch.setattr(gpu_check, "find_gpu", search)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert good_machine.check("--limit=600") == 0
    assert deadlines == [1000 + 600 - gpu_check.GRACE] * 2


# Work of each program of a machine until all is done, in units of work: cases, shards, products.
JOURNAL: list[dict[str, Any]] = [{"context": {"device": "NVIDIA H200"}}, {"name": "a/b:1"}, {"name": "a/b:2"}]
SUITES = ("quick", "kernels", "collectives", "generation", "chosen", "training", "compiled")
UNITS = 2 * len(SUITES) + 2 * 2 + 2 + 2  # cases; products, ours and PyTorch's; shards of the tests; sanitizers
SECONDS = 600  # of a call


@dataclasses.dataclass
class LentMachine:
    """Takes SECONDS for all units, and is taken away in the middle of one."""

    machine: Machine

    def call(self, taken_away_at: int | None) -> int:
        """The status of the command, negative if a signal ended it."""
        after = None if taken_away_at is None else int(taken_away_at / SECONDS * UNITS) + 1
        common = {"works": True, "taken_away_after": after}
        cases = [{"name": case["name"], "real_time": 0.01, "mem_util": 0.5, "busbw": 1e9} for case in JOURNAL[1:]]
        self.machine.answers("roofbench", file=results(*cases), journal=JOURNAL, result=str(self.machine.out), **common)
        self.machine.answers("gpu_test", file=report("COMPLETED"), **common)
        self.machine.answers("python", output="0.00001", **common)
        self.machine.answers("sanitizer", **common)
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            try:
                os._exit(self.machine.check())
            finally:
                os._exit(70)  # an exception must not run the other tests twice
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def done(self) -> collections.Counter[str]:
        return collections.Counter((self.machine.folder / "work").read_text().split())

    def reached(self) -> collections.Counter[str]:
        """Units of work whose figures the one file has."""
        found: collections.Counter[str] = collections.Counter()
        for step in self.machine.result()["steps"]:
            figures = step["figures"]
            if step["name"] in SUITES:
                finished = "results" in figures
                found[step["name"]] = 2 if finished else sum("name" in line for line in figures.get("journal", []))
            found["roofbench"] += len(figures.get("ours_s", []))
            found["python"] += len(figures.get("torch_s", []))
            found["gpu_test"] += len(figures.get("shards", []))
            found["sanitizer"] += step["name"] in ("memcheck", "racecheck") and step["status"] == "passed"
        return +found


def test_a_case_that_is_being_written_waits_for_the_next_look(tmp_path: Path) -> None:
    journal = tmp_path / "quick.jsonl"
    assert gpu_check.whole_lines(journal) == [], "the program has not begun"
    journal.write_text('{"name": "a"}\n{"name"')
    assert gpu_check.whole_lines(journal) == [{"name": "a"}]


def test_a_resumed_journal_may_be_shorter(machine: Machine) -> None:
    (machine.tools.folder / "quick.jsonl").write_text("".join(json.dumps(line) + "\n" for line in JOURNAL[:2]))
    interrupted = [*JOURNAL[:2], {"name": "a/b:2", "verdict": "interrupted"}]
    step = gpu_check.Step("quick", figures={"journal": interrupted})  # its last line was dropped
    machine.tools.save = lambda: gpu_check.write(machine.out, [step])
    machine.answers("roofbench", journal=JOURNAL, result=str(machine.out))
    gpu_check.checked(gpu_check.STEPS["quick"], machine.tools, step)
    assert step.figures["journal"] == JOURNAL


@pytest.mark.slow
@pytest.mark.parametrize("moment", sorted(random.Random(1).choices(range(SECONDS), k=20)))
def test_a_machine_that_is_taken_away_loses_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    monkeypatch.setattr(gpu_check, "POLL", 0.001)
    lent = LentMachine(machine)
    assert lent.call(taken_away_at=moment) == -signal.SIGKILL
    done = lent.done()
    (*_, interrupted) = (machine.folder / "work").read_text().split()
    assert not done - lent.reached() - collections.Counter([interrupted]), "only the unit in progress may be missing"
    assert sum(file.is_file() for file in machine.out.parent.rglob("*")) <= 8, "all that a machine may return"
    shutil.rmtree(machine.out.with_suffix(".parts"))  # the next machine has the one file

    assert lent.call(taken_away_at=None) == 0
    assert lent.reached().total() == UNITS
    repeated = lent.done() - lent.reached()
    assert repeated.total() <= 1, "it continues at the end of the file"
    assert {step["status"] for step in machine.result()["steps"]} == {"passed"}


def test_a_failed_step_does_not_stop_the_others(good_machine: Machine) -> None:
    good_machine.answers("gpu_test", file=report("SKIPPED"))
    good_machine.answers("sanitizer", status=9)
    assert good_machine.check("--only=gpu_tests,memcheck,quick") == 1
    result = good_machine.result()
    assert result["failed"] == ["gpu_tests", "memcheck"]
    assert result["steps"][0]["status"] == "passed"
    assert result["steps"][1]["reason"] == "no test ran", "skipped tests check nothing"


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
    step.status = "unfinished"
    gpu_check.checked(gpu_check.gpu_tests, machine.tools, step)
    assert (step.status, step.reason) == ("failed", "2 test(s) failed"), "also if an earlier call ran it"


def test_tests_that_crash_fail_the_step(machine: Machine) -> None:
    machine.answers("gpu_test", file=report("COMPLETED"), status=139)
    step = machine.step("gpu_tests")
    assert (step.status, step.reason) == ("failed", "exit status 139")
    machine.answers("gpu_test")
    step = gpu_check.Step("gpu_tests", figures={"shards": {"0": {"completed": 1}}})
    gpu_check.checked(gpu_check.gpu_tests, machine.tools, step)
    assert (step.status, step.reason) == ("failed", "it wrote no report")
    assert step.figures["shards"] == {"0": {"completed": 1}}, "the other shard is kept, and this one runs again"


def test_a_sanitizer_checks_our_kernels_in_one_process(machine: Machine) -> None:
    assert machine.step("racecheck").status == "passed"
    (call,) = machine.calls("sanitizer")
    assert call[call.index("--tool") + 1] == "racecheck"
    assert int(call[call.index("--error-exitcode") + 1]) > 0, "the default is the program's own"
    assert "--gtest_filter=KernelsTest*" in call, "LibTorch's kernels would take hours"
    assert "uncached 1" in call, "a read past a tensor would hit the allocator's memory"
    machine.answers("sanitizer", status=9)
    assert machine.step("memcheck").status == "failed"


def test_collectives_run_on_as_many_gpus_as_asked_for(good_machine: Machine, program: Path) -> None:
    assert good_machine.check("--only=collectives", "--ranks=8") == 0
    assert {"--ranks=8", "--unverified"} <= set(good_machine.calls("roofbench")[-1])
    (chosen,) = [flag for flag in good_machine.calls("roofbench")[-1] if flag.startswith("--benchmark_filter=")]
    listed = subprocess.run([program, chosen, "--benchmark_list_tests"], capture_output=True, text=True, check=True)
    assert {name.partition("/")[0] for name in listed.stdout.split()} == {*gpu_check.COLLECTIVES, "train_step"}
    with pytest.raises(SystemExit):
        good_machine.check("--ranks=1")


def test_collectives_without_enough_gpus_are_skipped(machine: Machine) -> None:
    reason = "needs 2 GPUs, one for each rank, and there is 1"
    case = {"name": "all_reduce/impl:nccl/ranks:2", "real_time": 0.0}
    machine.answers("roofbench", file=results(case | {"skip_message": reason}))
    step = machine.step("collectives")
    assert (step.status, step.reason) == ("skipped", reason)
    machine.answers("roofbench", file=results())
    step = machine.step("collectives")
    assert (step.status, step.reason) == ("failed", "no case ran")
    machine.answers("roofbench", file=results(case | {"busbw": 1.0}), status=1)
    assert machine.step("collectives").status == "failed", "another one is wrong"


def test_nccl_is_verified_when_all_collectives_ran() -> None:
    def verified(families: Sequence[str], status: str = "passed", **shared: float | None) -> list[str]:
        figures = {"busbw": {f"{family}/impl:nccl/ranks:2": 1.0 for family in families}, "shared": shared}
        return gpu_check.verified({"collectives": gpu_check.Step("collectives", status, figures=figures)})

    assert verified(gpu_check.COLLECTIVES) == ["NcclGroup"]
    assert verified(gpu_check.COLLECTIVES[1:]) == verified(gpu_check.COLLECTIVES, "failed") == []
    assert verified(gpu_check.COLLECTIVES, zero1=2.5, fsdp=9.0) == ["NcclGroup", "SharedStep"]
    assert verified(gpu_check.COLLECTIVES, zero1=2.5, fsdp=None) == ["NcclGroup"], "one has no result"


@pytest.mark.parametrize("name", ["quick", "kernels", "chosen", "training", "generation", "compiled"])
def test_a_suite_fails_without_results_or_with_a_failed_case(machine: Machine, name: str) -> None:
    (machine.tools.folder / "results.json").write_text(json.dumps(results()))
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


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "sources"
    for name in ("lib/device/unverified.cc", "tests/structure/verified_kernels.json"):
        (root / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, root / name)
    monkeypatch.setattr(gpu_check, "ROOT", root)
    return root


def test_kernels_that_a_gpu_ran_are_verified_by_a_command(machine: Machine, sources: Path) -> None:
    known = json.loads((ROOT / "tools/kernel_code/gpu_expected.json").read_text())["shares"]
    rows = [{"kernel": kernel, "measured": None if "float" in kernel else 0.9} for kernel in known]
    steps = [gpu_check.Step(name, "passed") for name in gpu_check.STEPS]
    for step in steps:
        step.figures = {"results": results({"name": "a/b:c"}), "kernels": rows, "busbw": {}}
    gpu_check.write(machine.out, steps)
    assert machine.check(f"--accept={machine.out}") == 0
    left = (sources / "lib/device/unverified.cc").read_text()
    ran = json.loads((sources / "tests/structure/verified_kernels.json").read_text())
    assert set(ran.values()) == {"NVIDIA H200"}
    assert {"Spin", "ReadStream", "GemvRows", "InductorPackage"} <= set(ran)
    for kernel in ran:
        assert f'{{"{kernel}"' not in left
    assert "SoftmaxRows" not in ran, "its fp32 variant did not run"
    assert '{"SoftmaxRows", kRows, true},' in left


@pytest.mark.parametrize("failed", ["gpu_tests", "kernels", "memcheck", "racecheck"])
def test_kernels_that_fail_a_check_are_not_verified(failed: str) -> None:
    steps = {name: gpu_check.Step(name, "failed" if name == failed else "passed") for name in gpu_check.STEPS}
    for step in steps.values():
        step.figures = {"results": results(), "kernels": [{"kernel": "A<1>", "measured": 0.5}], "busbw": {}}
    assert gpu_check.verified(steps) == [], "and no case of a package ran"
    steps[failed].status = "passed"
    assert gpu_check.verified(steps) == ["A", "Spin"]


def test_an_installed_tree_has_no_table_to_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "ROOT", machine.folder)
    assert machine.check("--accept=result.json") == 2
    assert "use it in the sources" in capsys.readouterr().err
