# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check, with stand-ins for all programs that it runs."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_checks import __main__ as gpu_check
from gpu_checks import facts, nvml_calls, plan, processes, result_file, suites
from gpu_checks import tests as gpu_tests
from gpu_checks.step import Step, Tools
from kernel_code import measured
from kernel_code.sources import kernels

ROOT = Path(__file__).resolve().parents[2]

# Logs its arguments and follows its .json file: writes a file where a flag requests one, prints, exits. As roofbench it
# adds the cases of `journal` to the journal, as gpu_test it runs those of `tests` that are chosen, and as all programs
# it ends the check when the machine is taken away.
STAND_IN = """#!{python} -IS
import fnmatch, json, os, pathlib, signal, sys, time
own = pathlib.Path(sys.argv[0])
answer = json.loads((own.parent / (own.name + ".json")).read_text())
uncached = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING", "")
with open(own.parent / (own.name + ".calls"), "a") as calls:
    calls.write(json.dumps([*sys.argv[1:], "uncached " + uncached]) + "\\n")

def work(kind):
    with open(own.parent / "work", "a") as done:
        done.write(kind + "\\n")
    if len((own.parent / "work").read_text().splitlines()) == answer.get("taken_away_after"):
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit()

def flag(name):
    return next((a.removeprefix(name) for a in sys.argv[1:] if a.startswith(name)), None)

def seen(found):
    patience = 100_000
    steps = lambda: json.loads(pathlib.Path(answer["result"]).read_text())["steps"]
    while "result" in answer and not any(map(found, steps())):
        patience -= 1
        time.sleep(0.001)
        if patience == 0:
            sys.exit("it is not in the file")

def chosen(name):
    wanted, _, unwanted = flag("--gtest_filter=").partition("-")
    matches = lambda patterns: any(fnmatch.fnmatchcase(name, p) for p in patterns.split(":") if p)
    return matches(wanted) and not matches(unwanted)

journal = flag("--journal=") and pathlib.Path(flag("--journal="))
if journal and "journal" in answer:
    journal.touch()
    for case in answer["journal"]:
        if json.dumps(case) in journal.read_text().splitlines():
            continue
        with open(journal, "a") as lines:
            lines.write(json.dumps(case) + "\\n")
        if "name" in case:
            work(journal.stem)
        seen(lambda s: s["name"] == journal.stem and case in s["figures"].get("journal", []))
elif "tests" in answer:
    broken = False
    for name, result in answer["tests"].items():
        if not chosen(name):
            continue
        print("[ RUN      ]", name, flush=True)
        if result == "crash":
            os.abort()
        result = "FAILED" if broken else result
        broken = broken or result == "BREAKS"
        print(dict(OK="[       OK ]", SKIPPED="[  SKIPPED ]").get(result, "[  FAILED  ]"), name, "(1 ms)", flush=True)
        if answer.get("works"):
            work(name)
            seen(lambda s: name in s["figures"].get("tests", []) and s["name"] not in ("memcheck", "racecheck"))
    print("[==========] some tests from some test suites ran. (1 ms total)")
elif answer.get("works") and not any(w in str(sys.argv) for w in ("harness_", "assert", "--version", "metadata")):
    work(own.name)
out = flag("--benchmark_out=")
if out and "file" in answer:
    pathlib.Path(out).write_text(json.dumps(answer["file"]))
print(answer.get("output", ""))
sys.exit(answer.get("status", 0))
"""
KERNEL_TESTS = sorted({test for tests in gpu_tests.TESTS_OF.values() for test in tests})
CLOCK_TESTS = ["ClockTest.AgreesWithKineto", "ClockTest.ASpinEndsWhenItShould"]
TESTS = dict.fromkeys([*KERNEL_TESTS, *CLOCK_TESTS, "DeviceTest.HasFacts", "F/CasesTest.A/1", "F/CasesTest.A/2"], "OK")
SUMMARY = "========= ERROR SUMMARY: 0 errors"
SANITIZED = "\n".join([*(f"[       OK ] {test} (1 ms)" for test in KERNEL_TESTS), SUMMARY])
TORCH = json.dumps({"median_s": 0.00001, "products": 700})
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


class Machine:
    """A GPU, and all tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "deep" / "result.json"
        parts = folder / "parts"
        parts.mkdir()
        names = ("roofbench", "gpu_test", "sanitizer", "python")
        roofbench, gpu_test, sanitizer, python = (self.stand_in(name) for name in names)
        self.tools = Tools(roofbench, gpu_test, str(sanitizer), str(python), parts, save=lambda: None)

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

    def step(self, name: str) -> Step:
        step = Step(name)
        gpu_check.checked(plan.STEPS[name], self.tools, step)
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
    monkeypatch.setenv("PATH", str(tmp_path))  # without nvidia-smi
    return Machine(tmp_path)


@pytest.fixture
def good_machine(machine: Machine) -> Machine:
    machine.answers("gpu_test", tests=TESTS)
    machine.answers("sanitizer", output=SANITIZED)
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
    (facts,) = json.loads(out.read_text())["steps"]
    assert "libcuda.so.1" in facts["reason"]
    assert facts["figures"]["calls"][0]["commands"]["ldd_roofbench"]["status"] == 0, "what explains it"


def test_a_missing_program_is_explained(tmp_path: Path) -> None:
    done = command(f"--prefix={tmp_path}")
    assert done.returncode == 2
    assert "--prefix" in done.stderr


def test_steps_are_named_by_help_and_by_a_refusal() -> None:
    done = command("--help")
    assert done.returncode == 0
    assert all(step in done.stdout.replace("\n", "").replace(" ", "") for step in plan.STEPS)
    done = command("--only=quick,slow")
    assert done.returncode == 2
    assert "--only=slow: unknown step; there are facts, kernels_test" in done.stderr


def test_one_file_has_every_step(good_machine: Machine) -> None:
    assert good_machine.check() == 0
    result = good_machine.result()
    assert result["device"] == "NVIDIA H200"
    assert result["failed"] == []
    steps = {step["name"]: step for step in result["steps"]}
    first = ["facts", "kernels_test", "clock_test", "device_test", "memcheck", "racecheck", "kernels"]
    later = [
        "product_against_torch",
        "quick",
        "families",
        "collectives",
        "generation",
        "chosen",
        "training",
        "compiled",
    ]
    assert list(steps) == [*first, *later], "the most valuable first"
    assert steps["collectives"]["figures"]["busbw"] == {"all_reduce/impl:nccl/ranks:2": 3e11}
    assert set(steps["kernels_test"]["figures"]["tests"]) == set(KERNEL_TESTS)
    assert steps["families"]["figures"]["tests"] == {"F/CasesTest.A/1": "ok", "F/CasesTest.A/2": "ok"}
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
    assert good_machine.check(f"--limit={processes.GRACE}") == 3
    assert "continues" in capsys.readouterr().out
    assert not good_machine.out.exists(), "nothing had time"

    now = [1000.0]
    deadlines: list[float] = []

    def search(_roofbench: Path, deadline: float) -> str:
        now[0] += 90  # a driver that starts
        deadlines.append(deadline)
        return ""

    row = plan.Row(lambda tools, _step: deadlines.append(tools.deadline), 1, 1, 1, "")
    monkeypatch.setattr(gpu_check, "STEPS", {"quick": row})
    monkeypatch.setattr(gpu_check, "find_gpu", search)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert good_machine.check("--limit=600") == 0
    assert deadlines == [1000 + 600 - processes.GRACE] * 2


# Work of each program of a machine until all is done, in units of work: cases, tests, products.
JOURNAL: list[dict[str, Any]] = [{"context": {"device": "NVIDIA H200"}}, {"name": "a/b:1"}, {"name": "a/b:2"}]
SUITES = ("quick", "kernels", "collectives", "generation", "chosen", "training", "compiled")
UNITS = 2 * len(SUITES) + 2 * 2 + len(TESTS) + 2  # cases; products, ours and PyTorch's; tests; sanitizers
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
        self.machine.answers("gpu_test", tests=TESTS, result=str(self.machine.out), **common)
        self.machine.answers("python", output=TORCH, **common)
        self.machine.answers("sanitizer", output=SANITIZED, **common)
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
            found["roofbench"] += len(figures.get("ours", []))
            found["python"] += len(figures.get("torch", []))
            if step["name"] in ("memcheck", "racecheck"):
                found["sanitizer"] += step["status"] == "passed"
            else:
                found.update(list(figures.get("tests", [])))
        return +found


def test_a_case_that_is_being_written_waits_for_the_next_look(tmp_path: Path) -> None:
    journal = tmp_path / "quick.jsonl"
    assert suites.whole_lines(journal) == [], "the program has not begun"
    journal.write_text('{"name": "a"}\n{"name"')
    assert suites.whole_lines(journal) == [{"name": "a"}]


def test_a_resumed_journal_may_be_shorter(machine: Machine) -> None:
    (machine.tools.folder / "quick.jsonl").write_text("".join(json.dumps(line) + "\n" for line in JOURNAL[:2]))
    interrupted = [*JOURNAL[:2], {"name": "a/b:2", "verdict": "interrupted"}]
    step = Step("quick", figures={"journal": interrupted})  # its last line was dropped
    machine.tools.save = lambda: result_file.write(machine.out, [step])
    machine.answers("roofbench", journal=JOURNAL, result=str(machine.out))
    gpu_check.checked(plan.STEPS["quick"], machine.tools, step)
    assert step.figures["journal"] == JOURNAL


@pytest.mark.slow
@pytest.mark.parametrize("moment", sorted(random.Random(1).choices(range(SECONDS), k=20)))
def test_a_machine_that_is_taken_away_loses_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    monkeypatch.setattr(processes, "POLL", 0.001)
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
    good_machine.answers("gpu_test", tests=dict.fromkeys(TESTS, "SKIPPED"))
    good_machine.answers("sanitizer", status=9)
    assert good_machine.check("--only=device_test,memcheck,quick") == 1
    result = good_machine.result()
    assert result["failed"] == ["device_test", "memcheck"]
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
    result_file.write(out, [])
    assert victim.read_text() == "precious"
    assert out.is_symlink()
    assert json.loads(target.read_text())["failed"] == []


def test_a_failed_test_fails_the_step(machine: Machine) -> None:
    machine.answers("gpu_test", tests=TESTS | {"DeviceTest.B": "FAILED"}, status=1)
    step = machine.step("device_test")
    assert (step.status, step.reason) == ("failed", "1 test failed: DeviceTest.B")
    step = Step("device_test", figures={"tests": {"DeviceTest.B": "failed"}})
    machine.answers("gpu_test", tests=TESTS)
    gpu_check.checked(plan.STEPS["device_test"], machine.tools, step)
    assert (step.status, step.reason) == ("failed", "1 test failed: DeviceTest.B"), "also if an earlier call ran it"
    assert step.figures["tests"]["DeviceTest.HasFacts"] == "ok"


def test_tests_after_a_broken_device_run_in_another_process(machine: Machine) -> None:
    machine.answers("gpu_test", tests={"F.A": "OK", "F.B": "BREAKS", "F.C": "OK", "F.D": "OK"}, status=1)
    step = machine.step("families")
    assert step.figures["tests"] == {"F.A": "ok", "F.B": "failed", "F.C": "ok", "F.D": "ok"}
    assert (step.status, step.reason) == ("failed", "1 test failed: F.B")
    assert len(machine.calls("gpu_test")) == 2
    machine.answers("gpu_test", tests=dict.fromkeys([f"F.T{i}" for i in range(40)], "FAILED"), status=1)
    step = machine.step("families")
    assert len(machine.calls("gpu_test")) == 2 + gpu_tests.RESTARTS, "it ends"
    assert step.reason.startswith("40 tests failed: F.T0, ")


def test_tests_that_crash_fail_alone(machine: Machine) -> None:
    machine.answers("gpu_test", tests={"F.A": "OK", "F.B": "crash", "F.C": "OK"})
    step = machine.step("families")
    assert step.figures["tests"] == {"F.A": "ok", "F.B": "ended with status -6", "F.C": "ok"}
    assert (step.status, step.reason) == ("failed", "1 test failed: F.B")
    machine.answers("gpu_test", status=127)
    step = machine.step("families")
    assert (step.status, step.reason) == ("failed", "exit status 127, and no test ran")


def test_what_tests_print_are_figures(machine: Machine) -> None:
    printed = "[       OK ] ClockTest.A (1 ms)\nfloor 1.512 us\nclock 0.01 s, Kineto 0.01 s: ratio 0.9987\n"
    machine.answers("gpu_test", output=f"{printed}[==========] 1 test from 1 test suite ran. (3 ms total)")
    figures = machine.step("clock_test").figures
    assert (figures["floor_us"], figures["clock_over_kineto"]) == (1.512, 0.9987)
    source = (ROOT / "tests/gpu/clock_test.cc").read_text()
    assert 'printf("floor %.3f us' in source
    assert 'printf("clock %.6f s, Kineto %.6f s: ratio %.4f' in source


def test_the_steps_know_every_kernel_and_test(program: Path) -> None:
    assert set(gpu_tests.TESTS_OF) == set(kernels(ROOT))
    done = subprocess.run(
        [program.parent / "gpu_test", "--gtest_list_tests"], capture_output=True, text=True, check=True
    )
    listed: list[str] = []
    suite = ""
    for line in done.stdout.splitlines():
        if line.startswith("  "):
            listed.append(suite + line.split()[0])
        else:
            suite = line.strip()
    of_kernels = {test for test in listed if test.startswith("KernelsTest")}
    assert of_kernels == set(KERNEL_TESTS), "each is of a kernel, which is not accepted without it"
    assert set(CLOCK_TESTS) <= set(listed)
    for suite in ("KernelsTest", "ClockTest", "DeviceTest", "Families/CasesTest", "GraphTest"):
        assert any(test.startswith(suite) for test in listed)


RACE = """
========= Error: Race reported between Write access at void at::native::sort<float>(T1 *)+0x90
=========     and Read access at void at::native::sort<float>(T1 *)+0xa0 [4 hazards]
=========
"""
OUR_RACE = """
========= Error: Race reported between Write access at void roofbench::SoftmaxRows<float, Block>(T1 *)+0x90
=========     and Read access at void roofbench::SoftmaxRows<float, Block>(T1 *)+0xa0 [4 hazards]
=========
"""
READ = """
========= Invalid __global__ read of size 16 bytes
=========     at void roofbench::GemvRows<Bf16Weights, 1>(T1 *)+0x70 in gemv_cuda.cu:8
=========     by thread (0,0,0) in block (0,0,0)
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: Spin [0x1] in gpu_test
=========
"""
CALL = "========= Program hit cudaErrorNotSupported (error 801) on CUDA API call to cudaFoo.\n=========\n"


def test_a_sanitizer_checks_our_kernels_in_one_process(machine: Machine) -> None:
    machine.answers("sanitizer", output=SANITIZED)
    assert machine.step("racecheck").status == "passed"
    (call,) = machine.calls("sanitizer")
    assert call[call.index("--tool") + 1] == "racecheck"
    assert int(call[call.index("--error-exitcode") + 1]) > 0, "the default is the program's own"
    filters = {after for flag, after in itertools.pairwise(call) if flag == "--kernel-name"}
    assert filters == {f"kns={kernel}" for kernel in kernels(ROOT)}, "hazards of libraries are not ours"
    assert "--gtest_filter=KernelsTest*" in call, "LibTorch's kernels would take hours"
    assert "uncached 1" in call, "a read past a tensor would hit the allocator's memory"


@pytest.mark.parametrize(
    ("output", "status", "blamed", "reason"),
    [
        (SANITIZED + RACE, "passed", [], ""),
        (SANITIZED + CALL, "passed", [], ""),
        (SANITIZED + RACE + OUR_RACE, "failed", ["SoftmaxRows"], "SoftmaxRows: Error: Race reported between Write"),
        (SANITIZED + READ, "failed", ["GemvRows"], "GemvRows: Invalid __global__ read of size 16 bytes"),
        (SANITIZED + "\n========= Something new\n", "failed", list(gpu_tests.TESTS_OF), "Something new"),
        (SANITIZED.replace(SUMMARY, ""), "failed", list(gpu_tests.TESTS_OF), "it ended with status 9 and without a"),
        (
            SANITIZED.replace("[       OK ] KernelsTest.SpinEnds", "[  FAILED  ] KernelsTest.SpinEnds"),
            "failed",
            ["Spin"],
            "1 test failed: KernelsTest.SpinEnds",
        ),
    ],
)
def test_a_sanitizer_blames_the_kernel(
    machine: Machine, output: str, status: str, blamed: Sequence[str], reason: str
) -> None:
    machine.answers("sanitizer", output=output, status=9)
    step = machine.step("racecheck")
    assert step.status == status
    assert step.reason.startswith(reason)
    kernels = [kernel for kernel in gpu_tests.TESTS_OF if not gpu_tests.is_sanitized(kernel, step.figures)]
    assert kernels == list(blamed)


def test_collectives_run_on_as_many_gpus_as_asked_for(good_machine: Machine, program: Path) -> None:
    assert good_machine.check("--only=collectives", "--ranks=8") == 0
    assert {"--ranks=8", "--unverified"} <= set(good_machine.calls("roofbench")[-1])
    (chosen,) = [flag for flag in good_machine.calls("roofbench")[-1] if flag.startswith("--benchmark_filter=")]
    listed = subprocess.run([program, chosen, "--benchmark_list_tests"], capture_output=True, text=True, check=True)
    assert {name.partition("/")[0] for name in listed.stdout.split()} == {*suites.COLLECTIVES, "train_step"}
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


@pytest.mark.parametrize(
    ("visible", "listed", "seen"),
    [(None, "GPU 0: NVIDIA H200 (UUID: GPU-8c)", 1), ("3", "", 1), ("2,3", "", 2), ("", "", 0), (None, "", 0)],
)
def test_collectives_start_nothing_without_enough_gpus(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, visible: str | None, listed: str, seen: int
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    machine.stand_in("nvidia-smi").write_text(f"#!/bin/sh\necho '{listed}'\n")
    step = machine.step("collectives")
    assert (step.status == "skipped") == (seen < 2)
    assert step.reason.startswith(
        f"needs 2 GPUs, one for each rank, and there {'is' if seen == 1 else 'are'} {seen}"
    ) == (seen < 2)
    assert (machine.calls("roofbench") == []) == (seen < 2)


def test_nccl_is_verified_when_all_collectives_ran() -> None:
    def verified(families: Sequence[str], status: str = "passed", **shared: float | None) -> list[str]:
        figures = {"busbw": {f"{family}/impl:nccl/ranks:2": 1.0 for family in families}, "shared": shared}
        return result_file.verified({"collectives": Step("collectives", status, figures=figures)})

    assert verified(suites.COLLECTIVES) == ["NcclGroup"]
    assert verified(suites.COLLECTIVES[1:]) == verified(suites.COLLECTIVES, "failed") == []
    assert verified(suites.COLLECTIVES, zero1=2.5, fsdp=9.0) == ["NcclGroup", "SharedStep"]
    assert verified(suites.COLLECTIVES, zero1=2.5, fsdp=None) == ["NcclGroup"], "one has no result"


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
    machine.answers("python", output=TORCH)
    machine.answers("roofbench", file=results({"name": "p", "real_time": ours, "time_unit": unit, "clock_mhz": 1410}))
    smi = machine.stand_in("nvidia-smi")
    smi.write_text("#!/bin/sh\nexec 1>&2\nprintf '300, 90, 30\\n1410, 690, 60\\n1400, 700, 61\\n1390, 695, N/A\\n'\n")
    step = machine.step("product_against_torch")
    assert step.status == status, step.reason
    assert (f"{ours / 0.01:.3f} of PyTorch's" in step.reason) == (status == "failed")
    assert len(step.figures["ours"]) == len(step.figures["torch"]) == 2
    assert step.figures["ours"][0]["clock_mhz"] == 1410
    flags = machine.calls("roofbench")[-1]
    load = {"--benchmark_min_warmup_time=1", "--benchmark_min_time=700x", "--roofs=off"}
    assert load <= set(flags), "as long as PyTorch's, and as many products"
    assert machine.calls("python")[-1][-2] == "2.0"


def test_readings_without_load_do_not_count() -> None:
    found = suites._under_load(["300, 90, 30", "1410, 690, 60", "1400, 700, 61", "N/A, N/A, 1"])
    assert found == {"clock_mhz": 1405, "power_w": 695, "temperature_c": 60.5, "readings": 2}
    assert suites._under_load(["no devices"]) == {"fault": "no devices"}


@pytest.mark.parametrize("row", [{"real_time": 0.0, "error_message": "no memory"}, {"error_occurred": True}, None])
def test_a_product_that_failed_is_not_kept(machine: Machine, row: dict[str, Any] | None) -> None:
    machine.answers("python", output=TORCH)
    machine.answers("roofbench", file=results(*([{"name": "p", **row}] if row is not None else [])))
    step = machine.step("product_against_torch")
    assert (step.status, step.figures["ours"]) == ("failed", [])
    assert step.reason == f"our product has no time: {(row or {}).get('error_message', 'no case ran')}"


def test_pytorch_that_fails_in_the_middle_fails_the_step(machine: Machine) -> None:
    broken = '#!/bin/sh\ncase "$3" in *statistics*) echo out of memory; exit 1;; esac\n'
    Path(machine.tools.python).write_text(broken)
    step = machine.step("product_against_torch")
    assert (step.status, step.reason) == ("failed", "exit status 1")
    assert "out of memory" in step.output


def test_a_program_that_hangs_has_failed() -> None:
    done = processes.run(["sleep", "600"], 0.05)
    assert done.returncode == 124
    assert "timed out after" in done.stdout


def test_output_that_is_cut_inside_a_character_is_read() -> None:
    done = processes.run(["printf", r"3 \302"], 10)
    assert (done.returncode, done.stdout) == (0, "3 \ufffd")


def test_output_is_watched_while_a_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "POLL", 0.01)
    watched: list[str] = []
    processes.run(["sh", "-c", "echo first; sleep 0.3; echo second"], 10, watch=watched.append)
    assert "first\n" in watched
    assert watched[-1] == "first\nsecond\n"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "sources"
    for name in ("lib/device/unverified.cc", "tests/structure/verified_kernels.json"):
        (root / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, root / name)
    monkeypatch.setattr(gpu_check, "ROOT", root)
    return root


def proof(**changed: Step) -> dict[str, Step]:
    """The steps after which all of our kernels are accepted."""
    passed = dict.fromkeys(KERNEL_TESTS, "ok")
    clean = {"tests": passed, "summary": SUMMARY, "blamed": {}, "unattributed": []}
    clock = {"tests": dict.fromkeys(CLOCK_TESTS, "ok")}
    figures: dict[str, dict[str, Any]] = {
        "kernels_test": {"tests": passed},
        "clock_test": clock,
        "memcheck": clean,
        "racecheck": clean,
    }
    context = {"device": "NVIDIA H200", "gpu_datasheet": "h200", **dict.fromkeys(measured.ROOFS.values(), "4.2e12")}
    cases = [{"name": name, "mem_util": 0.8} for name in case_names()]
    figures["kernels"] = {"results": {"context": context, "benchmarks": cases}}
    return {name: Step(name, "passed", figures=of_step) for name, of_step in figures.items()} | changed


def case_names() -> list[str]:
    """A case of each kernel."""
    gemv = ("bf16/", "fp32/", "int4/", "int8/", "int8/batch:2/", "int8/batch:4/", "int8/batch:8/")
    names = [f"gemv/impl:native/precision:{case}n:8192" for case in gemv] + ["gemv/impl:native/precision:int8/n:8200"]
    for family in ("layer_norm", "rms_norm", "softmax"):
        names += [f"{family}/impl:native/dtype:{t}/rows:65536/d:{d}" for t in ("bf16", "fp32") for d in (256, 4096)]
    return names


def test_kernels_that_a_gpu_ran_are_verified_by_a_command(machine: Machine, sources: Path) -> None:
    steps = proof(compiled=Step("compiled", "passed", figures={"results": results({"name": "a/b:c"})}))
    of_softmax = [case for case in steps["kernels"].figures["results"]["benchmarks"] if "softmax" in case["name"]]
    del of_softmax[-1]["mem_util"]
    result_file.write(machine.out, list(steps.values()))
    assert machine.check(f"--accept={machine.out}") == 0
    left = (sources / "lib/device/unverified.cc").read_text()
    ran = json.loads((sources / "tests/structure/verified_kernels.json").read_text())
    assert set(ran.values()) == {"NVIDIA H200"}
    assert {"Spin", "ReadStream", "GemvRows", "InductorPackage"} <= set(ran)
    for kernel in ran:
        assert f'{{"{kernel}"' not in left
    assert "SoftmaxRows" not in ran, "a variant did not run"
    assert '{"SoftmaxRows", kRows, true},' in left


GEMV = {"tests": dict.fromkeys(KERNEL_TESTS, "ok") | {"KernelsTestNative.Gemv": "failed"}}
CLEAN = {"tests": dict.fromkeys(KERNEL_TESTS, "ok"), "summary": SUMMARY}


@pytest.mark.parametrize(
    ("step", "figures", "lost"),
    [
        ("kernels_test", GEMV, {"GemvRows"}),
        ("racecheck", CLEAN | GEMV, {"GemvRows"}),
        ("memcheck", CLEAN | {"blamed": {"Spin": "Invalid"}}, {"Spin"}),
        ("memcheck", CLEAN | {"unattributed": ["?"]}, set(gpu_tests.TESTS_OF)),
        ("racecheck", CLEAN | {"summary": ""}, set(gpu_tests.TESTS_OF)),
        ("clock_test", {"tests": {}}, {"Spin"}),
        ("clock_test", {"tests": {"ClockTest.ASpinEndsWhenItShould": "ok", "ClockTest.MarksGrow": "failed"}}, set()),
        ("families", {"tests": {"F/CasesTest.A/1": "failed"}}, set()),
    ],
)
def test_a_kernel_is_accepted_alone(step: str, figures: dict[str, Any], lost: set[str]) -> None:
    assert set(result_file.verified(proof())) == set(gpu_tests.TESTS_OF)
    verified = result_file.verified(proof(**{step: Step(step, "failed", figures=figures)}))
    assert set(gpu_tests.TESTS_OF) - set(verified) == lost
    assert not any(kernel in result_file.verified({}) for kernel in gpu_tests.TESTS_OF)


@pytest.mark.parametrize("share", [0.2, 1.1])
def test_a_share_that_cannot_be_is_not_accepted(share: float) -> None:
    steps = proof()
    for case in steps["kernels"].figures["results"]["benchmarks"]:
        case["mem_util"] = share if "softmax" in case["name"] else case["mem_util"]
    assert "SoftmaxRows" not in result_file.verified(steps)
    assert "RmsNormRows" in result_file.verified(steps)


def test_a_kernel_is_accepted_before_its_step_has_ended() -> None:
    steps = proof()
    of_step = steps["kernels"].figures["results"]
    ran = [{"name": name, "verdict": "measured", "counters": {"mem_util": 0.8}} for name in case_names()]
    journal = [{"context": of_step["context"]}, *(line for line in ran if "gemv" in line["name"])]
    steps["kernels"] = Step("kernels", figures={"journal": journal})
    left = {"LayerNormRows", "RmsNormRows", "SoftmaxRows"}
    assert set(gpu_tests.TESTS_OF) - set(result_file.verified(steps)) == left
    journal[3]["verdict"] = "failed"
    assert "GemvRows" not in result_file.verified(steps)


def test_figures_of_an_unexpected_form_do_not_keep_the_file_from_being_written(machine: Machine) -> None:
    result_file.write(machine.out, [Step("compiled", "passed", figures={})])
    assert machine.result()["verified"] == []
    assert machine.result()["verified_fault"] == "KeyError: 'results'"


def test_facts_are_taken_whatever_is_missing(machine: Machine) -> None:
    smi = machine.stand_in("nvidia-smi")
    smi.write_text('#!/bin/sh\ncase "$1" in -q) echo "ECC Mode : Enabled";; *) echo no such field; exit 6;; esac\n')
    machine.tools.gpu_test = None
    step = machine.step("facts")
    assert step.status == "passed"
    (of_call,) = step.figures["calls"]
    commands = of_call["commands"]
    assert (commands["nvidia_smi_q"]["status"], commands["nvidia_smi_q"]["output"]) == (0, "ECC Mode : Enabled\n")
    assert commands["gpus"]["status"] == 6, "the others are taken nevertheless"
    assert commands["ldd_roofbench"]["status"] is None
    assert "No such file" in commands["ldd_roofbench"]["output"], "there is no ldd on this path"
    assert "ldd_gpu_test" not in commands
    assert "MemFree" in of_call["files"]["/proc/meminfo"]
    assert {"memory.free", "mig.mode.current", "ecc.mode.current"} <= set(facts.OF_GPUS.split(","))
    json.dumps(step.figures)


def test_each_call_of_the_drivers_library_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ROOT / "build/release/tests/libfake_nvml.so"
    if not library.exists():
        pytest.skip(f"{library.name} is not built")
    monkeypatch.setenv("FAKE_NVML_NO_POWER", "1")
    command = [sys.executable, "-I", nvml_calls.__file__, str(library)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (found["nvmlInit_v2"], found["driver"]) == (0, "580.65.06")
    (device,) = found["devices"]
    assert device["nvmlDeviceGetClockInfo(1)"] == {"code": 0, "values": [1755]}
    assert device["nvmlDeviceGetMigMode()"] == {"code": 0, "values": [0, 1]}
    assert device["nvmlDeviceGetFieldValues(1)"]["values"] == [{"status": 0, "type": 1, "value": 698500}]
    assert device["nvmlDeviceGetComputeRunningProcesses_v3()"]["values"][0] == 1
    assert device["nvmlDeviceGetPowerUsage()"] == {"code": 3, "values": []}
    assert device["nvmlDeviceGetCurrentClocksThrottleReasons()"]["code"] is None
    named = set(re.findall(r'Find\(\s*"(nvml\w+)"', (ROOT / "lib/hardware/nvml.cc").read_text()))
    asked = {call.partition("(")[0] for call in [*device, *found]}
    assert named - asked == {"nvmlDeviceGetHandleByPciBusId_v2", "nvmlErrorString"}


def test_floors_and_the_ramp_of_the_clock_are_figures(machine: Machine) -> None:
    Path(machine.tools.gpu_test or "").write_text(
        "#!/bin/sh\nprintf 'floor 1.5 us\\nlaunch floor 2.25 us\\ngraph launch floor 3.5 us\\n'\n"
        "printf 'clock after 0 ms: 345 MHz\\nclock after 60 ms: 1980 MHz\\n'\n"
        "printf '[       OK ] ClockTest.A (1 ms)\\n[==========] 1 test ran.\\n'\n"
    )
    figures = machine.step("clock_test").figures
    assert [figures[name] for name in ("floor_us", "launch_floor_us", "graph_launch_floor_us")] == [1.5, 2.25, 3.5]
    assert figures["clock_ramp_ms_mhz"] == [[0, 345], [60, 1980]]


def test_facts_of_every_call_are_kept(good_machine: Machine) -> None:
    assert good_machine.check() == 0
    assert good_machine.check() == 0
    assert len(good_machine.result()["steps"][0]["figures"]["calls"]) == 2, "another machine may continue"


def test_an_installed_tree_has_no_table_to_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "ROOT", machine.folder)
    assert machine.check("--accept=result.json") == 2
    assert "use it in the sources" in capsys.readouterr().err


def test_the_documented_command_fits_a_machine_that_is_lent(tmp_path: Path) -> None:
    page = (ROOT / "docs/gpus.md").read_text()
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "--budget" in block]
    scripts = {"gpu-tree/bin/gpu_check": '#!/bin/sh\necho "$LD_LIBRARY_PATH"\nprintf "%s\\n" "$@"\n'}
    scripts |= {"bin/python3": f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n'}
    for name, text in scripts.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise SystemExit('imported, which takes seconds')\n")
    for driver, expected in (("/driver", f"/driver:{tmp_path}/torch/lib"), ("", f"{tmp_path}/torch/lib")):
        environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "LD_LIBRARY_PATH": driver, "OUT": "/back"}
        done = subprocess.run(
            ["bash", "-euc", block], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        path, *flags = done.stdout.split()
        assert path == expected, "the driver may be found by what is there"
        assert "--out=/back/gpu_check.json" in flags
        assert "--budget=540" in flags
    locks = page[page.index("-lgc") : page.index("## One command")]
    assert "On a machine that is lent, leave the clocks as they are" in locks
